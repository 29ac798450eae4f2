"""One call of a delivery, checked before the store hears of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.outcome import Turn
from raceproof.errors import CallError
from raceproof.identity import default_actor
from raceproof.moves.request import Returning, check_texts, returned_columns


@dataclass(slots=True)
class TurnRequest:
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
        return found | {
            "by": self.by,
            "state": str(self.state),
            "stale": self.delivery.stale,
            "now": self.now,
        }

    def finished(self, turn: Turn) -> Turn:
        """The turn with its row in the form that the caller asked for."""
        named = dict(zip(self.returning, turn.row, strict=True))
        return replace(turn, row=self.row_type(**named) if self.row_type else named)


def turn_request(
    delivery: Delivery,
    key: Any,
    *,
    by: str | None = None,
    reserve: bool = False,
    returning: Returning = None,
    now: datetime | None = None,
    tenant: Any = None,
) -> TurnRequest:
    """Check a call; every error here comes before anything was sent."""
    if not isinstance(delivery, Delivery):
        raise CallError(f"{delivery!r} is not a delivery; declare one with Delivery(…)")
    if now is not None and now.tzinfo is None:
        raise CallError(f"{delivery}: now= must have a time zone, as in datetime.now(timezone.utc)")
    if reserve and delivery.state is None:
        raise CallError(f"{delivery}: reserve=True needs a state= column to tell reserved from sending")
    if by is not None:
        check_texts(delivery, (by,))
    names, row_type = ((), None) if returning is None else returned_columns(delivery, returning)
    state = DeliveryState.RESERVED if reserve else DeliveryState.SENDING
    parts = delivery.parts(key, tenant)
    return TurnRequest(delivery, key, parts, by or default_actor(), state, names, row_type, now)


def mark_values(
    turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
) -> Mapping[str, Any]:
    found: dict[str, Any] = {f"key_{i}": part for i, part in enumerate(turn.parts)}
    return found | {
        "fence": turn.fence,
        "state": str(state),
        "error": error,
        "now": now,
        "stale": turn.move.stale,
    }
