"""Tasks at KIE: created once for each paid job, and believed only by KIE's own word about them."""

import json
import logging
from typing import Any

from appkit.database import Database
from imagebot import money
from imagebot.kie import Kie, KieRefused, KieUnclear
from imagebot.lasting import to_the_end
from imagebot.lifecycle import Job, Status, creation_of
from imagebot.models import Model
from imagebot.settings import Settings
from imagebot.storage import JobRow, Storage
from imagebot.telling import tell_of
from raceproof import Claim, SendPermit, SendRefused, Worker
from raceproof.deliveries import DeliveryState, NotSent
from raceproof.run import Failure, Finished

log = logging.getLogger("imagebot.generation")

TRIES = 20
"""So often a task is asked for before its job fails."""


class Generation:
    """From a paid job to its result."""

    def __init__(self, database: Database, storage: Storage, kie: Kie, settings: Settings) -> None:
        self._database = database
        self._db = database.store
        self._storage = storage
        self._kie = kie
        self._settings = settings
        self._by = settings.instance
        self._drain = settings.drain
        self._creation = creation_of(settings)

    def worker(self) -> Worker:
        """The loop that creates tasks."""
        return Worker(
            self._db,
            Job.submit,
            self.create,
            finish=Job.created,
            by=self._by,
            parallel=8,
            max_batch=16,
            poll=0.5,
            drain=self._drain,
        )

    async def create(self, claim: Claim[Any, Any]) -> type[Finished]:
        """Ask KIE for the task of a job, once."""
        job = await self._storage.find(claim.key)
        if job is None:
            raise Failure("the job is gone")
        if claim.attempt > TRIES:
            await self.give_up(job, "KIE could not be asked")
            return Finished
        model = self._settings.model(job["model"])
        if model is None:
            await self.give_up(job, f"the model {job['model']} is not in the catalogue any more")
            return Finished
        await self._kie.turn_to_create()
        permit = await self._db.begin_delivery(self._creation, claim.key, by=self._by)
        if isinstance(permit, SendRefused) and permit.state in (
            DeliveryState.UNCERTAIN,
            DeliveryState.DELIVERED,
        ):
            await self._lose_sight(claim, "whoever asked for the task has not been heard of again")
            return Finished
        if not isinstance(permit, SendPermit):
            raise Failure(str(permit), delay=self._creation.stale / 4)
        await to_the_end(self._ask(claim, job, permit, model))
        return Finished

    async def _ask(self, claim: Claim[Any, Any], job: JobRow, permit: SendPermit, model: Model) -> None:
        """Ask, and write down what KIE said. An answer that is there is kept, whoever has the claim by then."""
        try:
            asked_for = model.asked(job["prompt"], job["aspect_ratio"])
            task_id = await self._kie.create_task(job["job_id"], job["model"], asked_for)
        except NotSent as error:
            await self._db.not_sent(permit, str(error))
            raise Failure(str(error)) from error
        except KieRefused as error:
            await self._db.not_sent(permit, str(error))
            await self._refused(job, error)
            return
        except BaseException as error:
            await self._db.uncertain(permit, f"{type(error).__name__}: {error}"[:300])
            if not isinstance(error, KieUnclear):
                raise
            await self._lose_sight(claim, str(error))
            return
        named = {"external_task_id": task_id}
        async with self._database.transaction() as (_, db):
            await db.delivered(permit)
            moved = await db.move(Job.created, claim, set=named, by=self._by)
            if not moved.won:  # the claim was lost meanwhile; the task is this job's all the same
                moved = await db.move(Job.adopt, job["job_id"], set=named, by=self._by)
            if moved.won:
                await tell_of(db, job, "generating")
        tag = "TASK_CREATED" if moved.won else "TASK_NOT_NEEDED"
        log.info("[%s] [%s] task_id=%s", job["job_id"], tag, task_id)

    async def _lose_sight(self, claim: Claim[Any, Any], why: str) -> None:
        """A task may have been made, and is not asked for again: its callback would name it, or else the money returns."""
        log.warning("[%s] [CREATE_UNCERTAIN] %s", claim.key, why)
        await self._db.move(Job.lose_sight, claim, set={"error_text": why[:300]}, by=self._by)

    async def adopt(self, task_id: str) -> JobRow | None:
        """A task that is not in our tables: perhaps one whose creation had an unknown outcome."""
        task = await self._kie.record_info(task_id)
        job = await self._storage.find(task.job_id) if task.job_id else None
        if job is None or job["job_id"] != task.job_id:
            return None
        async with self._database.transaction() as (_, db):
            answer = await db.move(Job.adopt, job["job_id"], set={"external_task_id": task_id}, by=self._by)
            if answer.won:
                await db.resolve(self._creation, job["job_id"], arrived=True, by=self._by)
        log.info("[%s] [TASK_ADOPTED] task_id=%s %s", job["job_id"], task_id, answer.outcome)
        return await self._storage.find(task_id)

    async def look(self, job: JobRow) -> Status:
        """Ask KIE about the task of a job, and write down what it says; returns the status that the job is at then."""
        try:
            task = await self._kie.record_info(job["external_task_id"])
        except KieRefused as error:
            await self._refused(job, error)
            return Status.FAILED
        if task.state == "success" and task.urls:
            urls = json.dumps(task.urls)
            answer = await self._db.move(Job.ready, job["job_id"], set={"result_urls": urls}, by=self._by)
            return Status.READY if answer.reached else Status(job["status"])
        if task.state in ("fail", "success"):
            await self.fail(job, task.error or "KIE made no picture")
            return Status.FAILED
        return Status.GENERATING

    async def _refused(self, job: JobRow, error: KieRefused) -> None:
        await (self.fail if error.is_about_the_order else self.give_up)(job, str(error))

    async def give_up(self, job: JobRow, why: str) -> bool:
        """It will not be made, for reasons that are none of its user's: the words of KIE are for the admins."""
        return await self.fail(job, why, text="not_made")

    async def fail(self, job: JobRow, why: str, text: str = "failed") -> bool:
        """It will not be made: refund and notify the user, once; False if it has ended otherwise."""
        async with self._database.transaction() as (connection, db):
            answer = await db.move(Job.fail, job["job_id"], set={"error_text": why[:300]}, by=self._by)
            if answer.won:
                await money.release(connection, job, self._by)
                told = {"why": why[:200]} if text == "failed" else {}
                await tell_of(db, job, text, price=job["price"], **told)
        if answer.won:
            log.warning("[%s] [JOB_FAILED] %s", job["job_id"], why)
        return answer.won
