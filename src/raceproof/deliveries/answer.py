"""From what the store found and did to the answer of a delivery."""

from typing import Any

from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.outcome import NoTurn, Turn, TurnLost
from raceproof.deliveries.request import TurnRequest
from raceproof.look import moment


def turn(request: TurnRequest, fence: Any, attempt: Any, doubt: Any, row: Any, deadline: float) -> Turn:
    tried = None if attempt is None else int(attempt)
    # in doubt it is never only reserved: whoever finds it later must know that something may have been sent
    state = DeliveryState.SENDING if doubt else request.state
    return Turn(
        request.key, request.delivery, request.parts, fence, request.by, tried, state, bool(doubt), deadline, row,
    )  # fmt: skip


def no_turn(request: TurnRequest, state: str, holder: Any, since: Any) -> NoTurn:
    found = known_state(state)
    return NoTurn(
        request.key, request.delivery, found, holder or None, None if since is None else moment(since)
    )


def lost(turn: Turn, state: str, holder: Any) -> TurnLost:
    return TurnLost(turn.key, turn.move, known_state(state), holder or None)


def known_state(text: str) -> DeliveryState:
    try:
        return DeliveryState(text)
    except ValueError:
        return DeliveryState.UNCERTAIN


def user_key(delivery: Delivery, parts: Any) -> Any:
    """A key as the caller writes it: without the tenant, a tuple only if it has several columns."""
    own = tuple(parts)[1:] if delivery.tenant else tuple(parts)
    return own if len(own) > 1 else own[0]
