"""Deliveries on Redis and Valkey: a delivery has one script, and each call runs it once; see `redis.lua`."""

import json
import time
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.deliveries import answer
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.outcome import MarkAnswer, Marked, Turn, TurnAnswer
from raceproof.deliveries.request import TurnRequest, delivery_parts
from raceproof.errors import CallError
from raceproof.lua import script
from raceproof.moves.redis import RedisMoves, text_of
from raceproof.moves.request import key_text
from raceproof.outcome import Missing, Unknown
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.deliveries", "redis.lua")


class RedisDeliveries:
    """The programs of deliveries, with the scripts that they have rendered so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._scripts: dict[tuple[Delivery, str], str] = {}

    def take(self, request: TurnRequest) -> Program[TurnAnswer]:
        """Take the turn to send, or learn who has it."""
        delivery = request.delivery
        deadline = time.monotonic() + delivery.stale
        returned = json.dumps(request.returning) if request.returning else ""
        values = (str(request.state), "", request.by, returned)
        try:
            row = yield self._script("take", delivery, request.parts, values, request.now)
        except AcknowledgementLost as error:
            return Unknown(request.key, delivery, None, error.__cause__ or error)
        if not row:
            return Missing(request.key, delivery)
        word, *told = map(text_of, row)
        if word == "no":
            return answer.no_turn(request, *told)
        fence, doubt, attempts, *columns = told
        return answer.turn(request, fence, attempts, doubt, columns or None, deadline)

    def mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[MarkAnswer | Turn]:
        """Say how the turn has ended; or, with SENDING, that it goes on."""
        deadline = time.monotonic() + turn.move.stale
        parts = delivery_parts(turn.move, turn.key, turn.tenant)
        try:
            row = yield self._script(
                "mark", turn.move, parts, (str(state), turn.fence, turn.by, error or ""), now
            )
        except AcknowledgementLost as lost:
            return Unknown(turn.key, turn.move, None, lost.__cause__ or lost)
        if not row:
            return Missing(turn.key, turn.move)
        word, told, *others = map(text_of, row)
        if word == "no":
            return answer.lost(turn, told, others[0])
        if state is DeliveryState.SENDING:
            return replace(turn, fence=told, state=state, deadline=deadline)
        return Marked(turn.key, turn.move, state)

    def resolve(self, request: TurnRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        """End what nobody knows the end of, after somebody has looked."""
        values = (str(state), "", request.by, error or "")
        row = yield self._script("resolve", request.delivery, request.parts, values, request.now)
        if not row:
            return Missing(request.key, request.delivery)
        word, *told = map(text_of, row)
        if word == "yes":
            return Marked(request.key, request.delivery, state)
        return answer.no_turn(request, *told)

    def listed(self, delivery: Delivery, limit: int, tenant: Any, now: datetime | None) -> Program[Rows]:
        raise CallError(
            f"{delivery}: Redis cannot search hashes for deliveries that are under way; ask for their keys"
        )
        yield

    def _script(
        self,
        action: str,
        delivery: Delivery,
        parts: tuple[Any, ...],
        values: tuple[Any, ...],
        now: datetime | None,
    ) -> Statement:
        made = self._scripts.get((delivery, action))
        if made is None:
            made = self._scripts[delivery, action] = script_of_delivery(delivery, action)
        text = key_text(parts)
        key = f"{delivery.table}:{{{text}}}" if self._moves.cluster else f"{delivery.table}:{text}"
        given = [*values, "" if now is None else f"{now.timestamp():.6f}"]
        while not given[-1]:
            given.pop()
        return Statement(f"delivery.{action}", made, given, [key])


def script_of_delivery(delivery: Delivery, action: str) -> str:
    """`redis.lua` for one thing to do with a delivery."""
    constants = {
        "delivering": delivery.delivering,
        "delivered": delivery.delivered,
        "state_column": delivery.state or "",
        "holder_column": delivery.holder or "",
        "error_column": delivery.error or "",
        "attempts_column": delivery.attempts or "",
        "more": bool(delivery.state or delivery.holder or delivery.error or delivery.attempts),
        "patience": delivery.stale,
        "policy": delivery.policy,
    }
    return script([SCRIPT], constants, [action])
