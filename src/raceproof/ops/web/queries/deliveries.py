"""Deliveries: what is under way or uncertain, and how the last ones ended."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from raceproof.deliveries import Delivery, DeliveryState
from raceproof.deliveries import slots as delivery_slots
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import identifier
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import is_of_tenant
from raceproof.ops.doctor.redis import delivered_parts
from raceproof.ops.inspect import redis_clock, sql_of
from raceproof.ops.web.queries import redis_rows
from raceproof.ops.web.queries.rows import MOST, Count
from raceproof.ops.web.queries.statements import (
    indexes,
    literals,
    newest,
    order_columns,
    statement,
    tenant_matches,
    whole_number,
)
from raceproof.store import AsyncStore

_MOST = 200
_UNFINISHED = (DeliveryState.SENDING, DeliveryState.RESERVED, DeliveryState.UNCERTAIN)


@dataclass(frozen=True, slots=True)
class Sent:
    """One row of a delivery."""

    parts: tuple[Any, ...]
    state: str
    holder: str | None
    since: datetime | None
    attempts: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What is not finished; how many are at each state, and who has delivered, among the rows that were looked at."""

    unfinished: Sequence[Sent]
    states: dict[str, Count]
    senders: dict[str, int]
    looked: Count
    """How many rows were looked at for the states; `more`: there are others."""
    note: str = ""
    hint: str = ""

    @property
    def uncertain(self) -> list[Sent]:
        return [one for one in self.unfinished if one.state == DeliveryState.UNCERTAIN]

    @property
    def more(self) -> bool:
        """There may be unfinished ones that are not among these."""
        return len(self.unfinished) >= _MOST or bool(self.hint)


def deliveries(store: AsyncStore, delivery: Delivery) -> Program[Deliveries]:
    """Look at the unfinished ones by their index, and count all by state, up to a bound."""
    if store.dialect == "redis":
        return (yield from _on_redis(store, delivery))
    dialect = sql_of(store)
    slots = delivery_slots.of_delivery(delivery, dialect, dialect.now(None))
    ordered = yield from order_columns(store, delivery.table, delivery.tenant, delivery.key_columns)
    slots |= {
        "newest": newest(ordered),
        "tenant_matches": tenant_matches(store, delivery.tenant),
        "unfinished": literals(_UNFINISHED),
        "key_columns": ", ".join(
            f"t.{identifier(column)} AS rp_key_{place}" for place, column in enumerate(delivery.key_columns)
        ),
    }
    values = {"stale": delivery.stale, "limit": _MOST, "window": MOST, "tenant": store.tenant}
    counted = [
        (str(state), holder, int(number))
        for state, holder, number in (yield statement(store, "web.delivery_states", slots, values))
    ]
    found = yield from indexes(store, delivery.table)
    indexed = any(columns[0] == delivery.delivering for columns, _ in found)
    name = "web.sending" if indexed else "web.sending_in_window"
    unfinished = [_sent(row) for row in (yield statement(store, name, slots, values))]
    more = False
    if sum(number for *_, number in counted) == MOST:
        more = bool((yield statement(store, "web.window_end", {**slots, "before": ""}, values)))
    summary = _summary(delivery, unfinished, counted, indexed, more)
    if indexed or not summary.looked.more:
        return summary
    index = "" if store.dialect == "postgres" else f"{delivery.name}_under_way "
    hint = (
        f'CREATE INDEX {index}ON {slots["table"]} ("{delivery.delivering}") WHERE "{delivery.delivering}" IS NOT NULL;'
    )
    note = f"{summary.note}; no index on {delivery.delivering}, so unfinished ones are looked for among the same rows"
    return replace(summary, note=note, hint=hint)


def _on_redis(store: AsyncStore, delivery: Delivery) -> Program[Deliveries]:
    columns = [
        delivery.delivering,
        delivery.delivered,
        delivery.state,
        delivery.holder,
        delivery.error,
        delivery.attempts,
    ]
    fields = [column or delivery.delivering for column in columns]
    looked = yield from redis_rows.look(store, delivery.table, fields)
    now = yield from redis_clock()
    last = []
    for text, (since, delivered, state, holder, error, attempts) in looked.rows:
        parts = delivered_parts(delivery, text)
        if not is_of_tenant(delivery.tenant, parts, store.tenant):
            continue
        last.append(
            Sent(
                parts,
                state_of(delivery, since, delivered, state if delivery.state else None, now),
                holder if delivery.holder else None,
                moment(since) if since else None,
                whole_number(attempts) if delivery.attempts else None,
                error if delivery.error else None,
            )
        )
    unfinished = [one for one in last if one.state in _UNFINISHED]
    counted = [(one.state, one.holder, 1) for one in last]
    summary = _summary(delivery, unfinished[:_MOST], counted, False, not looked.complete)
    return summary if looked.complete else replace(summary, note=looked.note)


def state_of(delivery: Delivery, since: Any, delivered: Any, state: str | None, now: float) -> str:
    """The state of a row in words, from its columns as they were read."""
    if delivered:
        return DeliveryState.DELIVERED
    stale = bool(since) and moment(since).timestamp() + delivery.stale <= now
    if state in (DeliveryState.UNCERTAIN, DeliveryState.FAILED):
        return state
    if not since:
        return state or DeliveryState.READY
    if state == DeliveryState.RESERVED:
        return state
    return DeliveryState.UNCERTAIN if stale else DeliveryState.SENDING


def _summary(
    delivery: Delivery, unfinished: Sequence[Sent], counted: Sequence[tuple[str, Any, int]], exact: bool, more: bool
) -> Deliveries:
    """What was counted by state and holder; `exact`: an index found the unfinished ones; `more`: there are other rows."""
    numbers = Counter[str]()
    senders = Counter[str]()
    for state, holder, number in counted:
        numbers[state] += number
        if state == DeliveryState.DELIVERED and delivery.holder:
            senders[holder or ""] += number
    states = {state: Count(number, more=more) for state, number in numbers.items()}
    if exact and more:
        found = Counter(one.state for one in unfinished)
        full = len(unfinished) == _MOST
        states |= {str(state): Count(found[state], more=full) for state in _UNFINISHED if found[state]}
    looked = Count(sum(number for *_, number in counted), more=more)
    note = f"more than {MOST:,} rows: counted among {MOST:,} of them by key, which need not be the newest"
    return Deliveries(unfinished, states, dict(senders.most_common(12)), looked, note if more else "")


def _sent(row: Sequence[Any]) -> Sent:
    state, holder, since, attempts, error, *parts = row
    return Sent(
        tuple(parts), str(state), holder, None if since is None else moment(since),
        None if attempts is None else int(attempts), error,
    )  # fmt: skip
