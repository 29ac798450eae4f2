"""The note's delivery lock: who sends a picture, and what became of it.

`try_acquire_delivery_lock` gets the permit to send, `mark_delivered` ends it. A permit belongs to the task that got it: its
fence is in every write, so a sender that was too slow can neither end nor free the permit of the next one. Status and
money change in the transaction of the mark.
"""

import logging
from contextvars import ContextVar
from typing import Any

from sqlalchemy import or_, select

from appkit.database import Database, store_now
from imagebot import money
from imagebot.lifecycle import Job, Status, picture_of
from imagebot.settings import Settings
from imagebot.tables import generation_jobs
from imagebot.telling import tell_of
from raceproof import DeliveryRecorded, SendPermit, SendRefused, sql
from raceproof.declare import Move
from raceproof.deliveries import DeliveryState

log = logging.getLogger("imagebot.storage")

JobRow = dict[str, Any]

_permits: ContextVar[dict[str, SendPermit] | None] = ContextVar("imagebot_permits", default=None)


class _Ended(Exception):
    """The job was ended otherwise meanwhile: refunded after its deadline, while its sender stood still."""


class Storage:
    """Jobs, as far as delivery is concerned."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._db = database.store
        self._by = settings.instance
        self._picture = picture_of(settings)

    async def find(self, task_id: str) -> JobRow | None:
        """A job by KIE's id or by ours, and the store's time as `now`."""
        wanted = or_(generation_jobs.c.external_task_id == task_id, generation_jobs.c.job_id == task_id)
        async with self._database.read() as connection:
            asked = select(generation_jobs, store_now(connection).label("now")).where(wanted)
            row = (await connection.execute(asked)).mappings().first()
        return dict(row) if row else None

    async def try_acquire_delivery_lock(self, task_id: str) -> JobRow | None:
        """The job if this caller may send its picture now, None if another sender does or did."""
        found = await self.find(task_id)
        if found is None:
            return None
        job_id: str = found["job_id"]
        answer = await self._db.begin_delivery(
            self._picture, job_id, by=self._by, reserve=True, returning=["status", "result_urls"]
        )
        if isinstance(answer, SendRefused) and answer.state is DeliveryState.UNCERTAIN:
            await self._show_doubt(found, f"the sender {answer.by} has not been heard of again")
        if not isinstance(answer, SendPermit):
            return None
        if answer.row["status"] != Status.READY:
            await self._db.not_sent(answer, "there is nothing to send")
            return None
        _permits.set({**(_permits.get() or {}), job_id: answer})
        return {**found, **answer.row}

    async def begin_sending(self, job_id: str) -> bool:
        """Right before the request: from here on a crash leaves the outcome unknown."""
        return isinstance(await self._db.sending(self._permit(job_id)), SendPermit)

    async def mark_delivered(self, task_id: str, success: bool = True, error: str | None = None) -> bool:
        """The send has ended: delivered, or surely not sent; False if the permit to send was no longer this caller's."""
        job = await self.find(task_id)
        if job is None:
            return False
        permit = self._permit(job["job_id"])
        if not success:
            return isinstance(await self._db.not_sent(permit, error), DeliveryRecorded)
        try:
            async with self._database.transaction() as (connection, db):
                if not isinstance(await db.delivered(permit), DeliveryRecorded):
                    return False
                if not (await db.move(Job.deliver, job["job_id"], by=self._by)).won:
                    raise _Ended  # the mark is not written either
                await money.charge(connection, job, self._by)
                await tell_of(db, job, "delivered")
        except _Ended:
            return False
        return True

    async def mark_uncertain(self, job: JobRow, error: str) -> None:
        """Delivery outcome unknown: with `hold` it is shown to its user, with `resend` the poller sends again."""
        await self._db.uncertain(self._permit(job["job_id"]), error)
        if self._picture.policy == "hold":
            await self._show_doubt(job, error)

    async def mark_undeliverable(self, job: JobRow, end: Move[Any], error: str) -> bool:
        """It can never be delivered: the money goes back, in the same transaction."""
        async with self._database.transaction() as (connection, db):
            if not isinstance(await db.not_sent(self._permit(job["job_id"]), error), DeliveryRecorded):
                return False
            (await db.move(end, job["job_id"], by=self._by, set={"error_text": error})).must()
            await money.release(connection, job, self._by)
            if end is Job.expire:
                await tell_of(db, job, "expired", price=job["price"])
        return True

    async def resolve(self, job: JobRow, arrived: bool, by: str) -> bool:
        """Somebody has looked whether an uncertain picture is there; False if it is not uncertain any more."""
        async with self._database.transaction() as (connection, db):
            move = Job.deliver if arrived else Job.send_again
            uncertain = sql("t.status = 'uncertain'")
            answer = await db.move(move, job["job_id"], by=by, where=uncertain)
            if not answer.won:
                return False
            await db.resolve(self._picture, job["job_id"], arrived=arrived, by=by)
            if arrived:
                await money.charge(connection, job, by)
        return True

    async def _show_doubt(self, job: JobRow, error: str) -> None:
        async with self._database.transaction() as (_, db):
            told = await db.move(Job.doubt, job["job_id"], by=self._by, set={"error_text": error})
            if told.won:
                await tell_of(db, job, "uncertain", attempt=job["delivery_attempts"] or 0)

    def _permit(self, job_id: str) -> SendPermit:
        permit = (_permits.get() or {}).get(job_id)
        if permit is None:
            raise LookupError(f"the lock of {job_id} was not won by this task: try_acquire_delivery_lock first")
        return permit
