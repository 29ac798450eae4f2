"""Deliveries on Redis and Valkey: a delivery has one script, and each call runs it once; see `redis.lua`."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.deliveries import answer
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.outcome import MarkAnswer, Marked, Turn, TurnAnswer
from raceproof.deliveries.request import TurnRequest
from raceproof.errors import CallError
from raceproof.lua import Expression, arguments, in_turn, script
from raceproof.moves.redis import RedisMoves
from raceproof.moves.redis_texts import text_of
from raceproof.moves.request import key_text
from raceproof.outcome import Missing, Unknown
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.deliveries", "redis.lua")
_NAMES = {action: f"delivery.{action}" for action in ("take", "mark", "resolve", "look")}


class RedisDeliveries:
    """The programs of deliveries, with the scripts that they have rendered so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._scripts: dict[tuple[Any, ...], str] = {}

    def take(self, request: TurnRequest) -> Program[TurnAnswer]:
        """Take the turn to send, or learn who has it."""
        delivery = request.delivery
        deadline = time.monotonic() + delivery.stale
        given = {"by": request.by} if delivery.holder else {}
        try:
            row = yield self._script(
                "take", delivery, request.parts, request.state, given, request.now, request.returning
            )
        except AcknowledgementLost as error:
            return Unknown(request.key, delivery, None, error.__cause__ or error)
        if not row:
            return Missing(request.key, delivery)
        if not isinstance(row, list):
            return answer.turn(request, text_of(row), None, False, None, deadline)
        fence, *told = map(text_of, row)
        if fence is None:
            return answer.no_turn(request, *told)
        doubt, attempts, *columns = told
        return answer.turn(request, fence, attempts, doubt, columns or None, deadline)

    def mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[MarkAnswer | Turn]:
        """Say how the turn has ended; or, with SENDING, that it goes on."""
        deadline = time.monotonic() + turn.move.stale
        given = {"given_fence": turn.fence}
        if error:
            given["given_error"] = error
        try:
            row = yield self._script("mark", turn.move, turn.parts, state, given, now)
        except AcknowledgementLost as lost:
            return Unknown(turn.key, turn.move, None, lost.__cause__ or lost)
        if not row:
            return Missing(turn.key, turn.move)
        if isinstance(row, list):
            return answer.lost(turn, text_of(row[1]), text_of(row[2]))
        if state is DeliveryState.SENDING:
            return replace(turn, fence=text_of(row), state=state, deadline=deadline)
        return Marked(turn.key, turn.move, state)

    def resolve(self, request: TurnRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        """End what nobody knows the end of, after somebody has looked."""
        given = {"given_error": error} if error else {}
        try:
            row = yield self._script("resolve", request.delivery, request.parts, state, given, request.now)
        except AcknowledgementLost as lost:
            return Unknown(request.key, request.delivery, None, lost.__cause__ or lost)
        if not row:
            return Missing(request.key, request.delivery)
        if isinstance(row, list):
            return answer.no_turn(request, *map(text_of, row[1:]))
        return Marked(request.key, request.delivery, state)

    def look(self, request: TurnRequest) -> Program[str | None]:
        """How the delivery stands, in one word; None if there is no such row. Nothing is written."""
        # the script without anything to do says what it has found
        row = yield self._script(
            "look", request.delivery, request.parts, DeliveryState.READY, {}, request.now
        )
        return str(text_of(row[1])) if row else None

    def listed(
        self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None, uncertain: bool = False
    ) -> Program[Rows]:
        raise CallError(
            f"{delivery}: Redis cannot search hashes for deliveries that are under way; ask for their keys"
        )
        yield

    def _script(
        self,
        action: str,
        delivery: Delivery,
        parts: tuple[Any, ...],
        state: DeliveryState,
        given: dict[str, str],
        now: datetime | None,
        returning: tuple[str, ...] = (),
    ) -> Statement:
        if now is not None:
            given["given_now"] = f"{now.timestamp():.6f}"
        kind = (delivery, action, state, tuple(given), returning)
        made = self._scripts.get(kind)
        if made is None:
            made = self._scripts[kind] = script_of_delivery(*kind)
        key = self._moves.row_of_text(delivery, key_text(parts))
        return Statement(_NAMES[action], made, list(given.values()), (key,))


def script_of_delivery(
    delivery: Delivery, action: str, state: DeliveryState, given: Sequence[str], returning: Sequence[str] = ()
) -> str:
    """`redis.lua` for one thing to do with a delivery, for callers who give these values."""
    words = arguments(given)
    looked_at = [delivery.delivering, delivery.delivered]
    seen: dict[str, Any] = {"seen_state": None, "seen_holder": None}
    # a row mostly has its key as a field too; whether there is one without any of these is asked only then
    key = delivery.key_columns[-1]
    for name, column in (("state", delivery.state), ("holder", delivery.holder), ("key", key)):
        if column and not (name == "key" and action == "mark"):
            looked_at.append(column)
            seen[f"seen_{name}"] = Expression(f"seen[{len(looked_at)}]")
    fields: list[Any] = [delivery.delivering, Expression("fence")]
    if delivery.state:
        # P7: who only reserves has sent nothing, but the one before may have
        kept = Expression("doubt and 'sending' or 'reserved'") if state is DeliveryState.RESERVED else state
        fields += [delivery.state, kept]
    if delivery.holder:
        fields += [delivery.holder, words.get("by")]
    constants = {
        **words,
        **seen,
        "looked_at": in_turn(looked_at),
        "turn_fields": in_turn(fields),
        "delivering": delivery.delivering,
        "delivered": delivery.delivered,
        "state": state,
        "state_column": delivery.state,
        "error_column": delivery.error,
        "attempts_column": delivery.attempts,
        "patience": delivery.stale,
        "told_attempts": Expression("attempts") if delivery.attempts else None,
        "returned": in_turn(returning),
    }
    wanted = {
        action: True,
        "begins": action == "take" or state is DeliveryState.SENDING,
        "sending": state is DeliveryState.SENDING,
        "delivered": state is DeliveryState.DELIVERED,
        "over": state in (DeliveryState.DELIVERED, DeliveryState.FAILED),
        "hold": delivery.policy == "hold",
        "state": delivery.state,
        "error": delivery.error,
        "attempts": delivery.attempts,
        "returning": returning,
        **dict.fromkeys(given, True),
    }
    return script([SCRIPT], constants, [name for name, value in wanted.items() if value])
