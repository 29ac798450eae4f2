"""One instance leads and runs a job for each time slot. It is frozen, or replaced, and still believes to lead."""

import asyncio
import contextlib
import sqlite3
import time
from enum import StrEnum

from raceproof import Leader, Lease, Lifecycle, move
from raceproof.declare import History
from raceproof.run import NotLeading
from showcase.twins.desk import Desk
from showcase.twins.scenario import LEASE, Code, Scenario

DUE = "SELECT slot FROM slots WHERE status = 'DUE' ORDER BY slot LIMIT 1"
JOB = 0.45
"""Seconds that the leader's job takes."""

reports = Lease("reports", seconds=LEASE)


class Status(StrEnum):
    DUE = "DUE"
    RUN = "RUN"


class Slot(Lifecycle[Status], table="slots", key="slot", history=History(losers=True)):
    """A time slot, in which the leader's job is to be run."""

    run = move(Status.DUE, to=Status.RUN, sets="ran_by")


class Unguarded(Code):
    """Renew a heartbeat; while it is mine, run what is due. The one that starts last takes over: it is the newer one."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        takeover = "UPDATE heartbeat SET holder = ?, at = ?"
        with contextlib.suppress(sqlite3.OperationalError):
            await self._desk.sql(takeover, self._desk.me, time.time())
        while True:
            await asyncio.sleep(LEASE / 3)
            now = time.time()
            with contextlib.suppress(sqlite3.OperationalError):
                await self._desk.sql(
                    f"{takeover} WHERE holder = ? OR at < ?", self._desk.me, now, self._desk.me, now - LEASE
                )

    async def turn(self) -> None:
        [[holder]] = await self._desk.sql("SELECT holder FROM heartbeat")
        if holder != self._desk.me:
            return
        for (slot,) in await self._desk.sql(DUE):
            await self._desk.tell("at_work", on="leaders")
            await asyncio.sleep(JOB)  # the job
            await self._desk.sql("UPDATE slots SET status = 'RUN', ran_by = ? WHERE slot = ?", self._desk.me, slot)

    async def close(self) -> None:
        self._beating.cancel()


class Guarded(Code):
    """A lease that is kept up, whose epoch goes into the write."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._leader = Leader(desk.db, reports, by=desk.me, retry=LEASE / 5)
        self._opened = False

    async def turn(self) -> None:
        if not self._opened:
            self._opened = True
            await self._leader.__aenter__()
        if not self._leader.active:
            return
        for (slot,) in await self._desk.sql(DUE):
            try:
                guard = self._leader.guard
            except NotLeading:
                return
            await self._desk.tell("at_work", on="leaders")
            await asyncio.sleep(JOB)  # the job
            answer = await self._desk.db.move(
                Slot.run, slot, where=guard, by=self._desk.me, set={"ran_by": self._desk.me}
            )
            if not answer.won:
                await self._desk.held_off("leaders", slot, answer)

    async def close(self) -> None:
        await self._leader.resign()


LEADERS = Scenario(
    name="leaders",
    title="Two leaders at once",
    story="The leader is frozen at its job for longer than its lease, or a deploy starts the next one. Another leads,"
    " and the first goes on.",
    app="imagebot",
    unguarded=Unguarded,
    guarded=Guarded,
    done=("slots run", "SELECT count(DISTINCT slot) FROM seen_runs"),
    wrong={
        "written by an old leader": "SELECT count(*) FROM seen_runs WHERE ran_by IS NOT leader",
        "run twice": "SELECT count(*) - count(DISTINCT slot) FROM seen_runs WHERE ran_by IS leader",
    },
    held_off="late writes refused",
    hint="freeze a worker, or deploy",
)
