"""A delivery that does not end by itself is ended: a picture that cannot be sent, and one that may have arrived.

Both have a deadline by the store's clock. Since when a job waits is a guard of the write that ends it, so one that was sent
again meanwhile is left alone, as is one that is being sent. With it the money goes back and the user is told.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select

from appkit.database import Database, moment_value, store_now
from appkit.loops import Loop
from imagebot import money
from imagebot.alerts import alert
from imagebot.lifecycle import NOT_BEING_SENT, Job, Status
from imagebot.settings import Settings
from imagebot.storage import JobRow
from imagebot.tables import generation_jobs
from imagebot.telling import tell_of
from raceproof import sql
from raceproof.declare import Move

log = logging.getLogger("imagebot.deadlines")

LONGEST_REST = 30.0
BATCH = 100

_SINCE = {
    Status.READY: func.coalesce(generation_jobs.c.ready_at, generation_jobs.c.confirmed_at),
    Status.UNCERTAIN: generation_jobs.c.doubted_at,
}
_STILL_SINCE = {
    Status.READY: "COALESCE(t.ready_at, t.confirmed_at) < {cutoff}",
    Status.UNCERTAIN: "t.doubted_at < {cutoff}",
}


@dataclass(frozen=True, slots=True)
class Deadline:
    """After `seconds` at `status`, `end` is made and the user reads `text`."""

    status: Status
    seconds: float
    end: Move[Any]
    text: str


class Deadlines:
    """Looks for jobs that are past their deadline. Every instance may: the move decides which one ends a job."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._deadlines = (
            Deadline(Status.READY, settings.delivery_limit, Job.expire, "undelivered"),
            Deadline(Status.UNCERTAIN, settings.uncertain_limit, Job.refund, "unanswered"),
        )
        self._rest = min(LONGEST_REST, *(one.seconds / 4 for one in self._deadlines))

    async def run(self, loop: Loop) -> None:
        """The loop of an instance."""
        while True:
            loop.beat()
            await self.look()
            await asyncio.sleep(self._rest)

    async def look(self) -> int:
        """End what is overdue and remind users who were asked; returns how many jobs were ended."""
        ended = 0
        for deadline in self._deadlines:
            cutoff, jobs = await self._older(deadline.status, deadline.seconds)
            for job in jobs:
                ended += await self._end(deadline, job, cutoff)
        _, asked = await self._older(Status.UNCERTAIN, self._settings.uncertain_limit / 2)
        for job in asked:
            async with self._database.transaction() as (_, db):
                await tell_of(db, job, "uncertain", attempt=f"{job['delivery_attempts'] or 0}-again")
        return ended

    async def _older(self, status: Status, seconds: float) -> tuple[datetime, list[JobRow]]:
        """Jobs that have been at a status for longer than this, and the moment before which they came there."""
        async with self._database.read() as connection:
            now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
            cutoff = now - timedelta(seconds=seconds)
            found = await connection.execute(
                select(generation_jobs)
                .where(generation_jobs.c.status == status, _SINCE[status] < cutoff)
                .order_by(generation_jobs.c.made_at)
                .limit(BATCH)
            )
            return cutoff, [dict(row) for row in found.mappings()]

    async def _end(self, deadline: Deadline, job: JobRow, cutoff: datetime) -> bool:
        by = self._settings.instance
        reason = f"not ended within {deadline.seconds:.0f} s at {deadline.status}"
        why = f"{reason}; last error: {job['delivery_error'] or 'none'}"[:300]
        still = sql(_STILL_SINCE[deadline.status], cutoff=moment_value(self._database, cutoff))
        async with self._database.transaction() as (connection, db):
            answer = await db.move(
                deadline.end,
                job["job_id"],
                by=by,
                reason=reason,
                set={"error_text": why},
                where=[NOT_BEING_SENT, still],
            )
            if answer.won:
                await money.release(connection, job, by)
                await tell_of(db, job, deadline.text, price=job["price"])
                if deadline.status is Status.READY:
                    await alert(db, self._settings, "delivery", job_id=job["job_id"], why=why)
        if answer.won:
            log.warning("[%s] [DELIVERY_OVERDUE] %s", job["job_id"], why)
        return answer.won
