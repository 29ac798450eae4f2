"""Kinds of work by the clock: each runs at an interval, never twice at once, however many processes there are.

The row of a schedule keeps when it ran last and when it is due next, so a restart neither forgets nor repeats a run. It is
an ordinary claim: a run that takes long is renewed, and one whose process has died is taken over after its lease.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.declare.build import spec_from_dict
from raceproof.declare.predicate import column
from raceproof.declare.spec import Claimable, Move, Spec, check_seconds
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import log
from raceproof.kernel.reasons import reason_of
from raceproof.run.worker.finishing import Failure
from raceproof.run.worker.items import ends_only_the_item
from raceproof.run.worker.worker import Worker, check_async
from raceproof.store import AsyncStore

Job = Callable[[], Awaitable[object]]

_PLAIN = (
    "a plain function holds up the loop while it runs; give a coroutine function, or lambda: asyncio.to_thread(job)"
)


@dataclass(frozen=True)
class Schedules:
    """The table of schedules: one row for each kind of work."""

    table: str = "raceproof_schedule"
    lease: float = 60.0

    def __post_init__(self) -> None:
        check_seconds(f"schedules {self.table}: lease", self.lease)
        _ = self.lifecycle  # a table that cannot be is reported now, not at the first call

    @cached_property
    def lifecycle(self) -> Spec[str]:
        return spec_from_dict(
            {
                "name": "Schedule",
                "table": self.table,
                "key": "name",
                "statuses": ["waiting", "running", "retired"],
                "moves": {
                    "begin": {"from": ["waiting"], "to": "running", "stamp": ["began_at"]},
                    "rest": {"from": ["running"], "to": "waiting", "stamp": ["ended_at"]},
                    "retire": {"from": ["waiting", "running"], "to": "retired"},
                },
                "claims": {
                    "run": {
                        "move": "begin",
                        "back": "rest",
                        "lease": self.lease,
                        "not_before": "due_at",
                        "order_by": ["due_at"],
                    }
                },
            }
        )

    @property
    def run(self) -> Claimable[Any]:
        return self.lifecycle.claims["run"]

    @property
    def retire(self) -> Move[Any]:
        return self.lifecycle.moves["retire"]


class Scheduler:
    """Runs kinds of work at intervals: `scheduler.every(3600, "vetting", vet)`, then `await scheduler.run()`."""

    def __init__(
        self, db: AsyncStore, schedules: Schedules | None = None, *, by: str | None = None, poll: float = 1.0
    ) -> None:
        check_async(db, "a scheduler")
        self._db = db
        self._schedules = schedules or Schedules()
        self._by = by
        self._poll = poll
        self._jobs: dict[str, tuple[float, Job]] = {}
        self._workers: list[Worker] = []
        self._is_stopped = self._has_run = False

    def every(self, seconds: float, name: str, job: Job) -> None:
        """Run `job` every `seconds`, from the end of one run to the start of the next; what it returns is awaited."""
        if not callable(job):
            raise CallError(f"schedule {name}: {job!r} cannot be called; give a coroutine function")
        check_seconds(f"schedule {name}: every", seconds, CallError)
        if name in self._jobs:
            raise CallError(f"schedule {name} is there already")
        self._jobs[name] = (float(seconds), job)

    async def run(self, *, until_idle: bool = False, signals: bool = False) -> None:
        """Run until `stop()`. Each kind of work has a worker of its own, so a long one holds up no other."""
        if self._has_run and self._is_stopped:
            raise CallError("this scheduler was stopped; make another one to go on")
        self._has_run = True
        await self._db.add_waiting(self._schedules.run, list(self._jobs))
        if self._is_stopped:  # meanwhile, or before
            return
        self._workers = [self._worker(name) for name in self._jobs]
        async with asyncio.TaskGroup() as group:
            for worker in self._workers:
                group.create_task(worker.run(until_idle=until_idle, signals=signals))

    def stop(self) -> None:
        """Begin nothing more; `run` returns when what runs has ended."""
        self._is_stopped = True
        for worker in self._workers:
            worker.stop()

    def _worker(self, name: str) -> Worker:
        seconds, job = self._jobs[name]

        async def handler(_: Claim[Any, Any]) -> None:
            reason = ""
            try:
                result = job()
                if inspect.isawaitable(result):
                    await result
                else:
                    log.warning("schedule %s: %s", name, _PLAIN)
            except BaseException as error:
                if not ends_only_the_item(error):
                    raise
                log.error("schedule %s failed", name, exc_info=error)
                reason = reason_of(error)
            # a run that ended, well or badly, waits until the next time
            raise Failure(reason, delay=seconds)

        return Worker(
            self._db,
            self._schedules.run,
            handler,
            finish=self._schedules.retire,
            by=self._by,
            parallel=1,
            max_batch=1,
            poll=self._poll,
            where=column("name") == name,
        )
