"""Reading from Redis and Valkey with as few rights as there are: a user with `+@read` can look at every page.

Scripts are sent as read-only ones (EVALSHA_RO), which the server itself keeps from writing; before Redis 7, which has none,
as they are. A user who may run no scripts gets the same answers from plain commands, one row at a time. Where TIME is not
permitted the clock of this machine is used. Promise: nothing is written through here.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import redis

from raceproof.driver import AsyncDriver
from raceproof.kernel.events import log
from raceproof.kernel.redis import text_of
from raceproof.kernel.statement import Program, Rows, Statement, arun


class Way(IntEnum):
    """How scripts are run: the first way that the server knows and the user may use."""

    READ_ONLY = 1
    SCRIPTS = 2
    COMMANDS = 3


class RedisReader(AsyncDriver):
    """A driver on top of another one, for programs that only read."""

    def __init__(self, inner: AsyncDriver, clock: Callable[[], float] = time.time) -> None:
        super().__init__(inner.dialect)
        self._inner = inner
        self._clock = clock
        self.way = Way.READ_ONLY

    @property
    def settled(self) -> bool:
        return self._inner.settled

    async def execute(self, statement: Statement) -> Rows:
        if statement.keys:
            return await self._script(statement)
        if statement.text == "TIME":
            return await self._time(statement)
        return await self._inner.execute(statement)

    async def tells_time(self) -> bool:
        """Whether the clock of the store may be read."""
        try:
            await self._inner.execute(Statement("time", "TIME"))
        except redis.exceptions.NoPermissionError:
            return False
        return True

    async def _time(self, statement: Statement) -> Rows:
        try:
            return await self._inner.execute(statement)
        except redis.exceptions.NoPermissionError:
            return [_seconds_and_micros(self._clock())]

    async def _script(self, statement: Statement) -> Rows:
        """By the way that worked last, or else by the next one."""
        while True:
            try:
                if self.way is Way.READ_ONLY:
                    return await self._read_only(statement)
                if self.way is Way.SCRIPTS:
                    return await self._inner.execute(statement)
                break
            except redis.ResponseError as error:
                if "ACL failure in script" in str(error):  # it may run the script, and not all that is in it
                    break
                if not _is_closed_to_us(error):
                    raise
                self.way = Way(self.way + 1)
                log.info("dashboard: %s; going on by %s", error, self.way.name.lower().replace("_", " "))
        if statement.name not in _PLAIN:
            raise redis.exceptions.NoPermissionError(
                f"{statement.name} runs a script: this user of Redis needs +evalsha_ro, +eval_ro and +time for it"
            )
        return await arun(self._inner.execute, _PLAIN[statement.name](statement, self._clock))

    async def _read_only(self, statement: Statement) -> Rows:
        given = (len(statement.keys), *statement.keys, *statement.params)
        sha = hashlib.sha1(statement.text.encode(), usedforsecurity=False).hexdigest()
        try:
            (rows,) = await self._inner.execute(Statement(statement.name, "EVALSHA_RO", (sha, *given)))
        except redis.exceptions.NoScriptError:
            (rows,) = await self._inner.execute(Statement(statement.name, "EVAL_RO", (statement.text, *given)))
        found: Rows = rows
        return found


def _is_closed_to_us(error: redis.ResponseError) -> bool:
    """Whether the user may not run it, or the server does not know it."""
    return isinstance(error, redis.exceptions.NoPermissionError) or "unknown command" in str(error).lower()


def _fields(statement: Statement, _: Callable[[], float]) -> Program[Rows]:
    """`redis.lua` beside this file, in plain commands."""
    found = []
    for key in statement.keys:
        (values,) = yield Statement(statement.name, "HMGET", (key, *statement.params))
        found.append(values)
    return found


def _rows_of_doctor(statement: Statement, _: Callable[[], float]) -> Program[Rows]:
    """`doctor/rows.lua`, in plain commands; a key of another type is not a row."""
    found: list[Sequence[Any]] = []
    for key in statement.keys:
        (left,) = yield Statement(statement.name, "PTTL", (key,))
        try:
            (values,) = yield Statement(statement.name, "HMGET", (key, *statement.params))
        except redis.ResponseError as error:
            if "WRONGTYPE" not in str(error) and "wrong kind of value" not in str(error):
                raise
            values = [None] * len(statement.params)
        found.append([left, *values])
    return found


def _lease(statement: Statement, clock: Callable[[], float]) -> Program[Rows]:
    """What `leases/redis.lua` tells of a lease, in plain commands."""
    _, seconds, _, *given = statement.params
    fields = ("holder", "epoch", "until")
    (found,) = yield Statement(statement.name, "HMGET", (statement.keys[0], *fields))
    holder, epoch, until = map(text_of, found)
    if given:
        now = float(given[0])
    else:
        try:
            ((whole, micros),) = yield Statement("time", "TIME")
        except redis.exceptions.NoPermissionError:
            whole, micros = _seconds_and_micros(clock())
        now = float(whole) + float(micros) / 1e6
    ends = float(until) if until else 0.0
    ahead = ends > now + 2 * float(seconds) and float(epoch or 0) > now * 1_000_000
    held = ends > now and not ahead
    row: Any = [0, holder if held else "", epoch or "0", until or ""]
    return row  # type: ignore[no-any-return]


_PLAIN: dict[str, Callable[[Statement, Callable[[], float]], Program[Rows]]] = {
    "web.fields": _fields,
    "doctor.look": _rows_of_doctor,
    "lease.look": _lease,
}


def _seconds_and_micros(now: float) -> tuple[int, int]:
    return int(now), int(now % 1 * 1e6)
