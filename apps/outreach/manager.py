"""The task manager: a worker for each stage, with the note's limits for the work itself.

At most so many workers of a kind over all processes, so many rows at once in each, so much time for a row and for all that
was acquired together. Whatever happens to the work, its row is finished, put back with the error, or given back.
"""

import asyncio
import logging
from typing import Any

from appkit.database import Database
from outreach.ai import BudgetSpent
from outreach.lifecycle import StageSwitch
from outreach.metrics import Metrics
from outreach.outcomes import put_back
from outreach.settings import Settings
from outreach.stages import Stage
from outreach.working import Result, Work, Working
from raceproof import Finished, Limit, SetAside, Worker

log = logging.getLogger("outreach.manager")

COLUMNS = ("campaign_id", "media_id")


class Manager:
    """Makes workers, and knows those that run."""

    def __init__(self, database: Database, settings: Settings, working: Working, metrics: Metrics) -> None:
        self._database = database
        self._settings = settings
        self._working = working
        self._metrics = metrics
        self._claiming = settings.claiming(database.dialect)
        self._running: set[Worker] = set()
        self._stopping = False

    def worker(self, stage: Stage) -> Worker:
        """The loop that acquires, works and finishes."""
        settings = self._settings

        async def handle(work: Work) -> Any:
            return await self._handle(stage, work)

        return Worker(
            self._database.store,
            self._claiming.of(stage),
            handle,
            finish=stage.move("finish"),
            by=settings.instance,
            parallel=stage.parallel,
            most=settings.batch,
            # a row's own time ends in `_handle`, which knows what to write; this is for the whole batch
            batch_timeout=settings.batch_timeout,
            poll=settings.poll,
            drain=settings.drain,
            returning=COLUMNS,
            limit=Limit(stage.task, settings.at_once(stage.name), settings.slot),
        )

    async def run_until_idle(self, stage: Stage) -> Worker:
        """One run by the schedule: until there is nothing left to do."""
        worker = self.worker(stage)
        if not self._stopping:
            self._running.add(worker)
            try:
                await worker.run(until_idle=True)
            finally:
                self._running.discard(worker)
        return worker

    def stop(self) -> None:
        """Begin nothing more; what runs has its time to end."""
        self._stopping = True
        for worker in self._running:
            worker.stop()

    async def _handle(self, stage: Stage, work: Work) -> Result:
        try:
            async with asyncio.timeout(self._settings.item_timeout):
                result: Result = await getattr(self._working, stage.name)(work)
        except BudgetSpent as error:
            await self._pause(stage, str(error))
            await put_back(self._database, stage, work)
            return Finished
        except TimeoutError:
            await self._failed(
                stage, work, f"TimeoutError: not done within {self._settings.item_timeout:g} s"
            )
            return Finished
        except Exception as error:
            await self._failed(stage, work, f"{type(error).__name__}: {error}", getattr(error, "delay", None))
            return Finished
        self._metrics.worked.labels(stage.name, "done").inc()
        # a stage that is done leaves no text in its error column; the triggers keep what stood there
        return {**result, stage.error: None} if isinstance(result, dict) else result

    async def _failed(self, stage: Stage, work: Work, error: str, delay: float | None = None) -> None:
        answer = await put_back(self._database, stage, work, error.replace("\0", " "), delay)
        outcome = "set aside" if isinstance(answer, SetAside) else "failed" if answer.won else "lost"
        self._metrics.worked.labels(stage.name, outcome).inc()
        log.warning(
            "[%s] discovery %s, attempt %d: %s (%s)", stage.task, work.key, work.attempt, error, outcome
        )

    async def _pause(self, stage: Stage, why: str) -> None:
        """Without money there is nothing to try: a person resumes the stage when there is some."""
        told = {"changed_by": "budget", "reason": why}
        answer = await self._database.store.move(
            StageSwitch.pause, stage.name, set=told, by="budget", reason=why
        )
        if answer.won:
            log.warning("[%s] paused: %s", stage.task, why)
