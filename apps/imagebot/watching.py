"""The two who look whether a picture is ready: KIE's callbacks, and the poller. Either may win; each runs anywhere."""

import json
import logging
import secrets
from datetime import datetime
from typing import Any

from appkit.database import Database
from imagebot.delivery import Deliverer
from imagebot.generation import Generation
from imagebot.kie import KieRefused, KieUnclear
from imagebot.lifecycle import UNDER_WAY, Status, Watch, callbacks
from imagebot.settings import Settings
from imagebot.storage import JobRow, Storage
from raceproof import Claim, Worker
from raceproof.deliveries import NotSent
from raceproof.run import Failure

log = logging.getLogger("imagebot.watching")

NEVER_ANSWERED = "KIE has not made it in time"


class Watching:
    """Follows jobs until they have ended."""

    def __init__(
        self,
        database: Database,
        storage: Storage,
        generation: Generation,
        deliverer: Deliverer,
        settings: Settings,
    ) -> None:
        self._db = database.store
        self._storage = storage
        self._generation = generation
        self._deliverer = deliverer
        self._settings = settings

    def callback_worker(self) -> Worker:
        return Worker(
            self._db,
            callbacks.work,
            self.handle_callback,
            finish=callbacks.finish,
            by=self._settings.instance,
            parallel=8,
            max_batch=32,
            drain=self._settings.drain,
            returning=["body"],
        )

    def poll_worker(self) -> Worker:
        return Worker(
            self._db,
            Watch.poll,
            self.poll,
            finish=Watch.leave,
            by=self._settings.instance,
            parallel=8,
            max_batch=32,
            drain=self._settings.drain,
            poll=min(1.0, self._settings.poll),
        )

    async def handle_callback(self, claim: Claim[Any, Any]) -> None:
        """KIE says that a task has ended: ask about it, and deliver."""
        data = json.loads(claim.row["body"])["data"]
        task_id = data.get("taskId") or data["task_id"]
        try:
            job = await self._storage.find(task_id) or await self._generation.adopt(task_id)
            if job is None:
                log.warning("[%s] [CALLBACK_UNKNOWN] no job has this task", task_id)
                return
            corr = _corr(job, "cb")
            status = Status(job["status"])
            if status is Status.GENERATING:
                status = await self._generation.look(job)
        except KieRefused as error:
            log.warning("[%s] [CALLBACK_UNKNOWN] %s", task_id, error)
            return
        except (KieUnclear, NotSent) as error:
            raise Failure(str(error)) from error
        if status in (Status.READY, Status.DELIVERED, Status.UNCERTAIN):
            await self._deliverer.deliver(task_id, "DELIVER", corr)

    async def poll(self, claim: Claim[Any, Any]) -> None:
        """A look at one job; it is looked at again until it has ended."""
        job = await self._storage.find(claim.key)
        if job is None or job["status"] not in UNDER_WAY:
            return
        age = _age(job)
        status = Status(job["status"])
        if status in (Status.CREATING, Status.CREATE_UNKNOWN):
            if age < self._settings.generation_limit or not await self._generation.give_up(job, NEVER_ANSWERED):
                raise Failure("its task is not known", delay=self._rest(age))
            return
        if status is Status.GENERATING:
            try:
                status = await self._generation.look(job)
            except (KieUnclear, NotSent) as error:
                if age < self._settings.generation_limit:
                    raise Failure(str(error), delay=self._rest(age)) from error
            if status is Status.GENERATING:
                if age < self._settings.generation_limit:
                    raise Failure("KIE is at it", delay=self._rest(age))
                await self._generation.give_up(job, NEVER_ANSWERED)
        if status is Status.READY:
            await self._deliver(job, age)

    async def _deliver(self, job: JobRow, age: float) -> None:
        done = await self._deliverer.deliver(job["job_id"], "POLL", _corr(job, "poll"))
        if done.outcome in ("sent", "never"):
            return
        now = await self._storage.find(job["job_id"])
        if now is not None and now["status"] == Status.READY:
            rest = self._rest(age) if done.again_in is None else done.again_in
            raise Failure(f"not delivered: {done.outcome}", delay=rest)

    def _rest(self, age: float) -> float:
        """Often at first, and then less: every 2.5 s for half a minute, 7.5 s until two minutes, 20 s after that."""
        first = self._settings.poll
        return first if age < 12 * first else 3 * first if age < 48 * first else 8 * first


def _age(job: JobRow) -> float:
    """Seconds since the user has paid, by the store's clock."""
    now: datetime = job["now"]
    paid: datetime = job["confirmed_at"]
    return (now - paid).total_seconds()


def _corr(job: JobRow, path: str) -> str:
    """What the lines of one try have in common."""
    return f"{job['job_id']}/{path}-{secrets.token_hex(3)}"
