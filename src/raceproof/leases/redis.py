"""Leases on Redis and Valkey: one script for one decision; see `redis.lua` beside this file."""

import time
from datetime import datetime
from functools import cache
from typing import Any

from raceproof.errors import CallError
from raceproof.leases.declared import Lease
from raceproof.leases.outcome import LeadAnswer, Leading, Led, StepDownAnswer, SteppedDown
from raceproof.look import moment
from raceproof.lua import arguments, script
from raceproof.moves.redis import RedisMoves
from raceproof.moves.redis_index import COUNTING
from raceproof.moves.redis_texts import text_of
from raceproof.outcome import Unknown
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.leases", "redis.lua")
_NAMES = {action: f"lease.{action}" for action in ("acquire", "renew", "release", "look")}


class RedisLeases:
    """The programs of leases."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves

    def acquire(
        self, lease: Lease, by: str, session: bool, locked: bool, now: datetime | None
    ) -> Program[LeadAnswer]:
        """Become the holder, or learn who is."""
        return (yield from self._decide("acquire", lease, by, 0, now))

    def renew(
        self, lease: Lease, by: str, epoch: int, now: datetime | None, session: bool = False
    ) -> Program[LeadAnswer]:
        """Hold it for another time, if this is still the holder's epoch."""
        return (yield from self._decide("renew", lease, by, epoch, now))

    def release(self, lease: Lease, by: str, epoch: int, now: datetime | None) -> Program[StepDownAnswer]:
        """Step down: the next one need not wait."""
        answer = yield from self._decide("release", lease, by, epoch, now)
        return SteppedDown(lease, by, epoch) if isinstance(answer, Leading) else answer

    def look(self, lease: Lease, now: datetime | None) -> Program[Led]:
        """Who holds it."""
        row = yield self._script("look", lease, "", 0, now)
        return _led(lease, row)

    def listed(self, lease: Lease, now: datetime | None) -> Program[Rows]:
        raise CallError(f"{lease}: Redis keeps each lease in a key of its own; ask for one by its name")
        yield

    def key(self, lease: Lease) -> str:
        return f"{lease.table}:{{{lease.name}}}" if self._moves.cluster else f"{lease.table}:{lease.name}"

    def _decide(
        self, action: str, lease: Lease, by: str, epoch: int, now: datetime | None
    ) -> Program[LeadAnswer]:
        deadline = time.monotonic() + lease.seconds
        try:
            row: Any = yield self._script(action, lease, by, epoch, now)
        except AcknowledgementLost as error:
            return Unknown(lease.name, lease, None, error.__cause__ or error)
        if row[0]:
            return Leading(lease, by, int(row[2]), deadline, taken_over=action == "acquire" and row[0] == 1)
        return _led(lease, row)

    def _script(self, action: str, lease: Lease, by: str, epoch: int, now: datetime | None) -> Statement:
        given: dict[str, Any] = {"by": by, "lease": lease.seconds, "epoch": epoch}
        if now is not None:
            given["given_now"] = f"{now.timestamp():.6f}"
        return Statement(
            _NAMES[action], script_of_lease(action, tuple(given)), list(given.values()), (self.key(lease),)
        )


@cache
def script_of_lease(action: str, given: tuple[str, ...]) -> str:
    """`redis.lua` for one thing to do with a lease."""
    counting = ("counts", "grows") if action == "acquire" else ()
    return script((COUNTING, SCRIPT), arguments(given), (action, *counting, *given))


def _led(lease: Lease, row: Rows) -> Led:
    _, holder, epoch, until = map(text_of, row)
    return Led(lease, holder or None, int(epoch), moment(until) if until else None)
