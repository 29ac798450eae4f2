"""A worker takes jobs for a while. It is frozen past its lease, another takes them over, and the first one finishes late."""

import asyncio
import random
import time
from enum import StrEnum

from raceproof import Lifecycle, claimable, move
from raceproof.declare import History
from showcase.twins.desk import Desk
from showcase.twins.scenario import LEASE, Code, Scenario

MOST = 2


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id", history=History(losers=True)):
    """A job that one worker at a time may have."""

    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE, sets="result")
    work = claimable(start, lease=LEASE)


class Unguarded(Code):
    """The job is taken carefully, in one statement, and finished by its id."""

    async def turn(self) -> None:
        now = time.time()
        taken = await self._desk.sql(
            """
            UPDATE jobs SET status = 'RUNNING', claimed_by = ?, claimed_until = ?
            WHERE job_id IN (SELECT job_id FROM jobs
                             WHERE status = 'QUEUED' OR (status = 'RUNNING' AND claimed_until < ?)
                             ORDER BY job_id LIMIT ?)
            RETURNING job_id
            """,
            *(self._desk.me, now + LEASE, now, MOST),
        )
        for (key,) in taken:
            await _work(self._desk)
            await self._desk.sql("UPDATE jobs SET status = 'DONE', result = ? WHERE job_id = ?", self._desk.me, key)


class Guarded(Code):
    """A claim, whose fence goes into the write at the end."""

    async def turn(self) -> None:
        for mine in await self._desk.db.claim(Job.work, MOST, by=self._desk.me):
            await _work(self._desk)
            answer = await self._desk.db.move(Job.finish, mine, set={"result": self._desk.me})
            if not answer.won:
                await self._desk.held_off("jobs", mine.key, answer)


async def _work(desk: Desk) -> None:
    await desk.tell("at_work", on="jobs")
    await asyncio.sleep(random.uniform(0.3, 0.5))  # such as a call of an AI


JOBS = Scenario(
    name="jobs",
    title="A worker that comes too late",
    story="A worker is frozen for longer than its lease. Another takes its jobs over, and the first one writes its"
    " result all the same.",
    app="outreach",
    unguarded=Unguarded,
    guarded=Guarded,
    done=("jobs done", "SELECT count(DISTINCT job_id) FROM seen_results"),
    wrong={
        "written by a late worker": "SELECT count(*) FROM seen_results WHERE after IS NOT holder",
        "written twice": "SELECT count(*) FROM seen_results WHERE after IS holder AND before IS NOT NULL",
    },
    held_off="late results refused",
    hint="freeze a worker",
)
