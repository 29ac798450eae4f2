"""Deliveries on SQL databases: each decision is one statement, on the row as it is after the lock."""

from datetime import datetime
from typing import Any

from raceproof.deliveries import slots
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.program import DeliveryPrograms, Found, Won
from raceproof.deliveries.reading import SqlDeliveryReading
from raceproof.deliveries.request import SendRequest
from raceproof.kernel.answers import Missing
from raceproof.kernel.statement import Prepared, Program


class SqlDeliveries(SqlDeliveryReading, DeliveryPrograms):
    """The programs of deliveries."""

    def _taken(self, request: SendRequest) -> Program[Won | Found | None]:
        text = self.text("delivery.take", request.delivery, request.now, returning=request.returning)
        # P7: a conflict with another decision is no reason to give up
        rows = yield from self.dialect.retried(text.bind(self.dialect.bound(request.values())))
        if not rows:
            return None
        state, holder, since, doubt, fence, attempts, *row = rows[0]
        return Found(state, holder, since) if fence is None else Won(fence, doubt, attempts, row)

    def _recorded(
        self,
        action: str,
        delivery: Delivery,
        parts: tuple[Any, ...],
        state: DeliveryState,
        error: str | None,
        now: datetime | None,
        fence: Any = None,
    ) -> Program[Won | Found | None]:
        values = {"fence": fence, "state": str(state), "error": error, "now": now, "stale": delivery.stale}
        bound = self.dialect.bound({f"key_{i}": part for i, part in enumerate(parts)} | values)
        rows = yield from self.dialect.retried(self.text(f"delivery.{action}", delivery, now, state).bind(bound))
        if rows:
            return Won(rows[0][0])
        # an answer may not be given before the commit it rests on is replicated, so the row is locked
        found = yield self.text("delivery.look", delivery, now, lock=True).bind(bound)
        return Found(*found[0][:3]) if found else None

    def _missing(self, request: SendRequest) -> Program[Missing[Any]]:
        delivery = request.delivery
        yield from self.dialect.not_found(delivery, delivery.table, delivery.key_columns, request.parts)
        return Missing(request.key, delivery)

    def text(
        self,
        name: str,
        delivery: Delivery,
        now: datetime | None = None,
        state: DeliveryState | None = None,
        returning: tuple[str, ...] = (),
        lock: bool = False,
    ) -> Prepared:
        """A statement; `state` is what it records."""

        def made() -> dict[str, str]:
            clock = self.dialect.now(now)
            found = slots.of_delivery(delivery, self.dialect, clock, returning)
            recorded = slots.marks(delivery, self.dialect, clock, state) if state else ""
            return found | {"marks": recorded, "lock": self.dialect.share_lock if lock else ""}

        return self.texts.get(name, (delivery, now is None, state, returning, lock), made)
