"""The task manager: a worker for each stage, with the note's limits for the work itself.

Limits workers of a kind over all processes, rows at once in each, and the time for a row and for all that
was acquired together. Whatever happens to the work, its row is finished, put back, or dead-lettered; `failures` says which.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from appkit.database import Database
from appkit.watch import is_unavailable
from outreach import attempts
from outreach.failures import Hopeless, NotNow, ProviderFailed
from outreach.forms import Claiming
from outreach.metrics import Metrics
from outreach.outcomes import dead_letter, finish, put_back
from outreach.pauses import current_pause
from outreach.settings import Settings
from outreach.stages import Stage
from outreach.working import Result, Work, Working
from raceproof import ConcurrencyLimit, DeadLettered, Worker
from raceproof.run import Finished

log = logging.getLogger("outreach.manager")

COLUMNS = ("campaign_id", "media_id")
AGAIN = 0.5
"""Seconds between two tries to write the end of a row while the database is away."""


class Manager:
    """Makes workers, and knows those that run."""

    def __init__(
        self,
        database: Database,
        claiming: Claiming,
        settings: Settings,
        working: Working,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._claiming = claiming
        self._settings = settings
        self._working = working
        self._metrics = metrics
        self._running: set[Worker] = set()
        self._stopping = asyncio.Event()

    def worker(self, stage: Stage) -> Worker:
        """The loop that acquires, works and finishes."""
        settings = self._settings

        async def handle(work: Work) -> Any:
            return await self._handle(stage, work)

        return Worker(
            self._database.store,
            self._claiming.of(stage),
            handle,
            finish=stage.finish,
            by=settings.instance,
            parallel=stage.parallel,
            max_batch=settings.batch,
            # a row's own time ends in `_handle`, which knows what to write; this is for the whole batch
            batch_timeout=settings.batch_timeout,
            poll=settings.poll,
            drain=settings.drain,
            returning=COLUMNS,
            limit=ConcurrencyLimit(stage.task, settings.at_once(stage.name), settings.slot),
        )

    async def run_until_idle(self, stage: Stage) -> Worker:
        """One run by the schedule: until there is nothing left to do now."""
        worker = self.worker(stage)
        if not self._stopping.is_set():
            self._running.add(worker)
            try:
                await worker.run(until_idle=True)
            finally:
                self._running.discard(worker)
        return worker

    async def run_by_the_clock(self, stage: Stage) -> None:
        """The same, and once more after a pause that ends before the next run would begin."""
        while True:
            await self.run_until_idle(stage)
            async with self._database.read() as connection:
                pause = await current_pause(connection, stage.asks)
            if pause is None or pause.seconds > stage.every or self._stopping.is_set():
                return
            try:
                async with asyncio.timeout(pause.seconds + AGAIN):
                    await self._stopping.wait()
                return
            except TimeoutError:
                continue

    def stop(self) -> None:
        """Begin nothing more; what runs has its time to end."""
        self._stopping.set()
        for worker in self._running:
            worker.stop()

    async def _handle(self, stage: Stage, work: Work) -> Any:
        """Work on a row; whatever happens is written under its fence."""
        number = work.attempt
        if self._claiming.adopted:
            begun = await attempts.begin(self._database, stage, work)
            if begun is None:
                return self._ended(stage, work, number, "another worker has it in the meantime", "lost")
            number = begun
        try:
            async with asyncio.timeout(self._settings.item_timeout) as limit:
                result = await self._working.run(stage, work)
        except NotNow as error:
            # a provider's failure is shown with the row; a slot that did not come free is not worth a line
            said = str(error) if isinstance(error, ProviderFailed) else None
            return await self._put_back(stage, work, number, said, delay=error.delay, counted=False)
        except Hopeless as error:
            why = str(error)
            answer = await self._written(lambda: dead_letter(self._database, self._claiming, stage, work, why))
            return self._ended(stage, work, number, why, "dead-lettered" if answer.won else "lost")
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                if self._working.is_storing:  # the answer is there, and the database is not
                    return await self._put_back(stage, work, number, None, counted=False)
                why = f"TimeoutError: not done within {self._settings.item_timeout:g} s"
                return await self._put_back(stage, work, number, why)
            if is_unavailable(error):
                return await self._put_back(stage, work, number, None, counted=False)
            why = f"{type(error).__name__}: {error}"
            return await self._put_back(stage, work, number, why, delay=getattr(error, "delay", None))
        return await self._done(stage, work, number, result)

    async def _done(self, stage: Stage, work: Work, number: int, result: Result) -> Any:
        if not isinstance(result, dict):
            return self._written_along(stage, work, number, result)
        if not (stage.stays or self._claiming.adopted):
            self._metrics.worked.labels(stage.name, "done").inc()
            # a stage that is done leaves no text in its error column; the triggers keep what stood there
            return {**result, stage.error: None}

        async def write(*_: Any) -> dict[str, Any]:
            return result

        answer = await self._written(lambda: finish(self._database, self._claiming, stage, work, write))
        return self._written_along(stage, work, number, answer)

    def _written_along(self, stage: Stage, work: Work, number: int, answer: Any) -> Any:
        """A result that was written with everything that belongs to it, or not at all."""
        if not answer.won:
            return self._ended(stage, work, number, f"its result came too late: {answer}", "lost")
        self._metrics.worked.labels(stage.name, "done").inc()
        return Finished

    async def _put_back(
        self,
        stage: Stage,
        work: Work,
        number: int,
        error: str | None,
        *,
        delay: float | None = None,
        counted: bool = True,
    ) -> Any:
        answer = await self._written(
            lambda: put_back(self._database, self._claiming, stage, work, error, delay=delay, counted=counted)
        )
        if not answer.won:
            outcome = "lost"
        elif isinstance(answer, DeadLettered):
            outcome = "dead-lettered"
        else:
            outcome = "failed" if counted and error is not None else "put back"
        return self._ended(stage, work, number, error or "not now", outcome)

    def _ended(self, stage: Stage, work: Work, number: int, error: str, outcome: str) -> Any:
        self._metrics.worked.labels(stage.name, outcome).inc()
        level = logging.DEBUG if outcome == "put back" else logging.WARNING
        log.log(level, "[%s] discovery %s, attempt %d: %s (%s)", stage.task, work.key, number, error, outcome)
        return Finished

    async def _written(self, write: Callable[[], Awaitable[Any]]) -> Any:
        """The end of a row, also if the database is away for as long as its lease would last."""
        until = time.monotonic() + self._settings.lease
        while True:
            try:
                return await write()
            except Exception as error:
                if not is_unavailable(error) or time.monotonic() > until:
                    raise
            await asyncio.sleep(AGAIN)
