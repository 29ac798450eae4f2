"""Pauses of what stages depend on (`ai`, `feeds`), kept in the store: no process asks it until they are over.

A failure that speaks for all (a wrong key, a spent quota, a refused connection, a `Retry-After`) pauses at once; others
do so after three in a row without a success of anybody between them. Each pause is twice as long as the one before, until
something works again. Claims look at `paused_stages`, by the store's clock: a pause ends by itself, and no row has lost
an attempt.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from outreach.failures import one_line
from outreach.tables import pauses

IN_A_ROW = 3
LONGEST = 900.0
SLOW_KINDS = ("key", "quota", "budget", "request", "address")
"""What a person has to mend: asked again less often."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Until when, and why."""

    name: str
    until: datetime
    kind: str
    reason: str
    times: int
    seconds: float
    """That were left when it was read."""

    def __str__(self) -> str:
        return f"paused until {self.until:%H:%M:%S} UTC: {self.reason}"


class Pauses:
    """The pauses of one thing that stages depend on."""

    def __init__(self, database: Database, name: str, first: float) -> None:
        self._database = database
        self.name = name
        self._first = first

    async def failed(
        self, kind: str, reason: str, *, for_all: bool = False, seconds: float | None = None
    ) -> Pause | None:
        """Write a failure down; the pause that there is now, or that it has begun."""
        async with self._database.transaction() as (connection, _):
            one_more = update(pauses).where(pauses.c.name == self.name).values(failures=pauses.c.failures + 1)
            row = (await connection.execute(one_more.returning(*pauses.c))).mappings().one()
            now = await _now(connection)
            if row["until"] is not None and row["until"] > now:
                return _pause(row, now)
            if not for_all and row["failures"] < IN_A_ROW:
                return None
            length = self._length(kind, row["times"]) if seconds is None else seconds
            if length <= 0:
                return None
            told = {
                "times": row["times"] + 1,
                "since": now,
                "until": now + timedelta(seconds=length),
                "kind": kind,
                "reason": one_line(reason),
            }
            begun = update(pauses).where(pauses.c.name == self.name).values(**told).returning(*pauses.c)
            return _pause((await connection.execute(begun)).mappings().one(), now)

    async def current(self) -> Pause | None:
        """The pause that there is now."""
        async with self._database.read() as connection:
            return await current_pause(connection, self.name)

    async def worked(self) -> None:
        """Something works: the next failure is the first of its row again."""
        async with self._database.transaction() as (connection, _):
            await end_row_of_failures(connection, self.name)

    def _length(self, kind: str, times: int) -> float:
        first = self._first * (12 if kind in SLOW_KINDS else 1)
        return float(min(max(LONGEST, first), first * 2.0 ** min(times, 30)))


async def current_pause(connection: AsyncConnection, name: str) -> Pause | None:
    now = await _now(connection)
    asked = select(pauses).where(pauses.c.name == name, pauses.c.until > store_now(connection))
    row = (await connection.execute(asked)).mappings().first()
    return None if row is None else _pause(row, now)


async def end_row_of_failures(connection: AsyncConnection, name: str) -> None:
    counted = or_(pauses.c.failures > 0, pauses.c.times > 0)
    await connection.execute(update(pauses).where(pauses.c.name == name, counted).values(failures=0, times=0))


async def end_pause(connection: AsyncConnection, name: str) -> bool:
    """A person says that it works again; whether there was a pause."""
    asked = update(pauses).where(pauses.c.name == name, pauses.c.until > store_now(connection))
    ended = await connection.execute(asked.values(failures=0, times=0, until=None))
    return ended.rowcount == 1


async def _now(connection: AsyncConnection) -> datetime:
    now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
    return now


def _pause(row: Any, now: datetime) -> Pause:
    left = (row["until"] - now).total_seconds()
    return Pause(row["name"], row["until"], row["kind"], row["reason"], row["times"], left)
