"""What the ACTIVE instance does by the clock: old drafts end, what was dealt with long ago is forgotten."""

import logging

from sqlalchemy import func, select, text

from appkit.database import Database
from imagebot.lifecycle import Job, callbacks, creation, notices, updates
from imagebot.metrics import OPEN, Metrics
from imagebot.tables import generation_jobs
from raceproof import Leader, sql

log = logging.getLogger("imagebot.upkeep")

BATCH = 500
_OLD_DRAFT = {
    "postgres": sql("t.made_at < statement_timestamp() - INTERVAL '1 day'"),
    "sqlite": sql("t.made_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 day')"),
}


class Upkeep:
    """Done now and then."""

    def __init__(self, database: Database, leader: Leader, metrics: Metrics) -> None:
        self._database = database
        self._db = database.store
        self._leader = leader
        self._metrics = metrics

    async def tidy(self) -> None:
        """Only while this instance leads: the guard is in the write."""
        old = _OLD_DRAFT[self._database.dialect]
        while True:
            dropped = await self._db.move_many(
                Job.cancel,
                where=[self._leader.guard, old],
                limit=BATCH,
                by="upkeep",
                reason="nobody confirmed it",
            )
            if len(dropped) < BATCH:
                break
        await self._settle_creations()
        for inbox in (updates, callbacks, notices):
            while await self._db.forget_events(inbox, BATCH) == BATCH:
                pass

    async def _settle_creations(self) -> None:
        """Tasks that a callback has named: whoever asked KIE for them died before it could say so."""
        for one in await self._db.deliveries(creation, BATCH, uncertain=True):
            async with self._database.read() as connection:
                named = select(generation_jobs.c.external_task_id).where(generation_jobs.c.job_id == one.key)
                if (await connection.execute(named)).scalar_one() is None:
                    continue
            await self._db.resolve(creation, one.key, arrived=True, by="upkeep")

    async def measure(self) -> None:
        """Figures of what is open, from indexes that hold nothing else."""
        async with self._database.read() as connection:
            waiting = "SELECT count(*) FROM telegram_updates WHERE status IN ('received', 'processing')"
            self._metrics.queue_depth.set((await connection.execute(text(waiting))).scalar_one())
            status = generation_jobs.c.status
            found = await connection.execute(select(status, func.count()).where(status.in_(OPEN)).group_by(status))
            self._metrics.show_jobs({row[0]: row[1] for row in found})
