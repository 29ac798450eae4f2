"""One call of a delivery: checked before the store hears of it, and the answers it can have."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from raceproof.deliveries.answers import DeliveryRecorded, PermitLost, SendPermit, SendRefused
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.kernel.arguments import Returning, check_texts, returned_columns
from raceproof.kernel.errors import CallError
from raceproof.kernel.identity import default_actor
from raceproof.kernel.moment import moment


@dataclass(slots=True)
class SendRequest:
    """What is asked: which delivery, of which row, by whom."""

    delivery: Delivery
    key: Any
    parts: tuple[Any, ...]
    by: str
    state: DeliveryState
    returning: tuple[str, ...]
    row_type: type[Any] | None
    now: datetime | None

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = {f"key_{i}": part for i, part in enumerate(self.parts)}
        return found | {"by": self.by, "state": str(self.state), "stale": self.delivery.stale, "now": self.now}

    # Its answers

    def permit(self, fence: Any, attempt: Any, doubt: Any, row: Any, deadline: float) -> SendPermit:
        tried = None if attempt is None else int(attempt)
        # in doubt it is never only reserved: whoever finds it later must know that something may have been sent
        state = DeliveryState.SENDING if doubt else self.state
        return SendPermit(self.key, self.delivery, self.parts, fence, self.by, tried, state, bool(doubt), deadline, row)

    def refused(self, state: str, holder: Any, since: Any) -> SendRefused:
        started = None if since is None else moment(since)
        return SendRefused(self.key, self.delivery, known_state(state), holder or None, started)

    def recorded(self, state: DeliveryState) -> DeliveryRecorded:
        return DeliveryRecorded(self.key, self.delivery, state)

    def finished(self, permit: SendPermit) -> SendPermit:
        """The permit with its row in the form that the caller asked for."""
        named = dict(zip(self.returning, permit.row, strict=True))
        return replace(permit, row=self.row_type(**named) if self.row_type else named)


def send_request(
    delivery: Delivery,
    key: Any,
    *,
    by: str | None = None,
    reserve: bool = False,
    returning: Returning = None,
    now: datetime | None = None,
    tenant: Any = None,
) -> SendRequest:
    """Check a call; every error here comes before anything was sent."""
    if not isinstance(delivery, Delivery):
        raise CallError(f"{delivery!r} is not a delivery; declare one with Delivery(…)")
    if now is not None and now.tzinfo is None:
        raise CallError(f"{delivery}: now= must have a time zone, as in datetime.now(timezone.utc)")
    if reserve and delivery.state is None:
        raise CallError(f"{delivery}: reserve=True needs a state= column to distinguish reserved from sending")
    if by is not None:
        check_texts(delivery, (by,))
    names, row_type = ((), None) if returning is None else returned_columns(delivery, returning)
    state = DeliveryState.RESERVED if reserve else DeliveryState.SENDING
    parts = delivery.parts(key, tenant)
    return SendRequest(delivery, key, parts, by or default_actor(), state, names, row_type, now)


def permit_lost(permit: SendPermit, state: str, holder: Any) -> PermitLost:
    return PermitLost(permit.key, permit.declared, known_state(state), holder or None)


def known_state(text: str) -> DeliveryState:
    try:
        return DeliveryState(text)
    except ValueError:
        return DeliveryState.UNCERTAIN
