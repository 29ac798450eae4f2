"""Deliveries on Redis and Valkey: one script for one decision; see `redis.lua` beside this file."""

import json
import time
from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.deliveries import answer
from raceproof.deliveries.declared import Delivery, DeliveryState
from raceproof.deliveries.outcome import MarkAnswer, Marked, Turn, TurnAnswer
from raceproof.deliveries.request import TurnRequest, delivery_parts
from raceproof.errors import CallError
from raceproof.moves.redis import RedisMoves, text_of
from raceproof.moves.request import key_text
from raceproof.outcome import Missing, Unknown
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.deliveries", "redis.lua")


class RedisDeliveries:
    """The programs of deliveries, with the descriptions that they have encoded so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._described: dict[Hashable, str] = {}

    def take(self, request: TurnRequest) -> Program[TurnAnswer]:
        """Take the turn to send, or learn who has it."""
        delivery = request.delivery
        deadline = time.monotonic() + delivery.stale
        values = (request.by, str(request.state), "", "")
        try:
            row = yield self._script("take", delivery, request.parts, values, request.now, request.returning)
        except AcknowledgementLost as error:
            return Unknown(request.key, delivery, None, error.__cause__ or error)
        if not row:
            return Missing(request.key, delivery)
        word, state, holder, since, doubt, fence, attempts, *returned = map(text_of, row)
        if word == "no":
            return answer.no_turn(request, state, holder, since)
        columns = returned if request.returning else None
        return answer.turn(request, fence, attempts, int(doubt), columns, deadline)

    def mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[MarkAnswer | Turn]:
        """Say how the turn has ended; or, with SENDING, that it goes on."""
        deadline = time.monotonic() + turn.move.stale
        parts = delivery_parts(turn.move, turn.key, turn.tenant)
        try:
            row = yield self._script(
                "mark", turn.move, parts, (turn.by, str(state), turn.fence, error or ""), now
            )
        except AcknowledgementLost as lost:
            return Unknown(turn.key, turn.move, None, lost.__cause__ or lost)
        if not row:
            return Missing(turn.key, turn.move)
        word, found, holder, _, _, fence, *_ = map(text_of, row)
        if word == "no":
            return answer.lost(turn, found, holder)
        if state is DeliveryState.SENDING:
            return replace(turn, fence=fence, state=state, deadline=deadline)
        return Marked(turn.key, turn.move, state)

    def resolve(self, request: TurnRequest, state: DeliveryState, error: str | None) -> Program[Any]:
        """End what nobody knows the end of, after somebody has looked."""
        values = (request.by, str(state), "", error or "")
        row = yield self._script("resolve", request.delivery, request.parts, values, request.now)
        if not row:
            return Missing(request.key, request.delivery)
        word, found, holder, since, *_ = map(text_of, row)
        if word == "yes":
            return Marked(request.key, request.delivery, state)
        return answer.no_turn(request, found, holder, since)

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
        returning: tuple[str, ...] = (),
    ) -> Statement:
        described = self._described.get((delivery, returning))
        if described is None:
            data = {
                name: getattr(delivery, name) or False
                for name in (
                    "delivering",
                    "delivered",
                    "state",
                    "holder",
                    "error",
                    "attempts",
                    "stale",
                    "policy",
                )
            }
            described = self._described[delivery, returning] = json.dumps(
                data | {"returning": list(returning)}
            )
        text = key_text(parts)
        key = f"{delivery.table}:{{{text}}}" if self._moves.cluster else f"{delivery.table}:{text}"
        moment = "" if now is None else f"{now.timestamp():.6f}"
        return Statement(f"delivery.{action}", SCRIPT, [action, described, moment, *values], [key])
