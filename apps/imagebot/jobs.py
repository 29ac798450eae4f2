"""Orders, as users make them: a draft step by step, paid when it is confirmed. A repeated click finds its work done."""

import json
from typing import Any, Literal

from sqlalchemy import func, select

from appkit.database import Database, store_now
from imagebot import money
from imagebot.lifecycle import DRAFT, Job, Status, Watch
from imagebot.settings import Settings
from imagebot.storage import JobRow
from imagebot.tables import generation_jobs, job_history
from imagebot.telling import tell_of
from raceproof import sql
from raceproof.moves import Answer

Confirmed = Literal["confirmed", "already", "gone", "not enough"]


class Jobs:
    """What handlers and commands do with jobs."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._db = database.store
        self._settings = settings

    async def begin(
        self, job_id: str, user_id: int, chat_id: int, prompt: str | None = None, model: str | None = None
    ) -> JobRow:
        """A new draft, in place of an older one of this user; one that nothing was chosen for yet is as good as new."""
        if prompt is None:
            draft = await self.draft_of(user_id)
            if draft is not None and draft["status"] == Status.CHOOSING_MODEL:
                return draft
        values: dict[str, Any] = {"status": Status.CHOOSING_MODEL}
        if prompt is not None:
            model = model or next(iter(self._settings.models))
            known = self._settings.model(model)
            values = {"status": Status.CONFIRMING, "model": model}
            values |= {"aspect_ratio": known.formats[0] if known else ""}
            values |= {"prompt": prompt, "price": self._settings.models[model]}
        async with self._database.transaction() as (connection, db):
            drafts = sql("t.user_id = {user} AND t.job_id <> {job}", user=user_id, job=job_id)
            await db.move_many(Job.cancel, where=drafts, limit=100, by=f"user {user_id}", reason="a new draft")
            insert = money.insert_into(connection, generation_jobs).values(
                job_id=job_id,
                user_id=user_id,
                chat_id=chat_id,
                made_at=store_now(connection),
                watch="watched",
                **values,
            )
            await connection.execute(insert.on_conflict_do_nothing())
            return await self._one(connection, job_id)

    async def choose_model(self, job_id: str, user_id: int, model: str) -> Answer[Any, Any]:
        return await self._step(Job.choose_model, job_id, user_id, model=model)

    async def choose_ratio(self, job_id: str, user_id: int, ratio: str) -> Answer[Any, Any]:
        return await self._step(Job.choose_ratio, job_id, user_id, aspect_ratio=ratio)

    async def write_prompt(self, job: JobRow, prompt: str) -> Answer[Any, Any]:
        price = self._settings.models[job["model"]]
        return await self._step(Job.write_prompt, job["job_id"], job["user_id"], prompt=prompt, price=price)

    async def cancel(self, job_id: str, user_id: int) -> Answer[Any, Any]:
        return await self._step(Job.cancel, job_id, user_id)

    async def _step(self, move: Any, job_id: str, user_id: int, **values: Any) -> Answer[Any, Any]:
        own = sql("t.user_id = {user}", user=user_id)
        return await self._db.move(move, job_id, set=values, where=own, by=f"user {user_id}")

    async def confirm(self, job_id: str, user_id: int, message: int) -> Confirmed:
        """Hold the price and put the order into the queue, both or neither."""
        by = f"user {user_id}"
        try:
            async with self._database.transaction() as (connection, db):
                own = sql("t.user_id = {user}", user=user_id)
                answer = await db.move(Job.confirm, job_id, where=own, set={"progress_message": message}, by=by)
                if answer.won:
                    await money.hold(connection, await self._one(connection, job_id), by)
        except money.NotEnough:
            return "not enough"
        if answer.won:
            await self._db.offer(Job.submit, [job_id])
            return "confirmed"
        job = await self.of_user(job_id, user_id)
        return "already" if job is not None and job["confirmed_at"] is not None else "gone"

    async def refund(self, job_id: str, by: str, reason: str) -> Answer[Any, Any]:
        """An admin gives the money back; refused while the picture is being sent, and for what has not been paid."""
        async with self._database.transaction() as (connection, db):
            answer = await db.move(
                Job.refund, job_id, by=by, reason=reason, set={"error_text": f"refunded by {by}: {reason}"}
            )
            if answer.won:
                job = await self._one(connection, job_id)
                give_back = money.refund if answer.before == Status.DELIVERED else money.release
                await give_back(connection, job, by)
                await tell_of(db, job, "refunded", price=job["price"])
        return answer

    async def watch_again(self, job_id: str) -> None:
        """The poller looks at it from now on."""
        await self._db.move(Watch.resume, job_id)

    async def draft_of(self, user_id: int) -> JobRow | None:
        """The draft that a text of this user is for."""
        wanted = (generation_jobs.c.user_id == user_id, generation_jobs.c.status.in_(DRAFT))
        async with self._database.read() as connection:
            found = await connection.execute(
                select(generation_jobs).where(*wanted).order_by(generation_jobs.c.made_at.desc()).limit(1)
            )
            row = found.mappings().first()
        return dict(row) if row else None

    async def of_user(self, job_id: str, user_id: int) -> JobRow | None:
        """A job, if it is this user's."""
        job = await self.get(job_id)
        return job if job is not None and job["user_id"] == user_id else None

    async def get(self, job_id: str) -> JobRow | None:
        async with self._database.read() as connection:
            found = await connection.execute(select(generation_jobs).where(generation_jobs.c.job_id == job_id))
            row = found.mappings().first()
        return dict(row) if row else None

    async def listed(
        self, user_id: int | None = None, statuses: tuple[Status, ...] = (), limit: int = 10
    ) -> list[JobRow]:
        """The newest orders; without drafts unless they are asked for."""
        wanted = select(generation_jobs).order_by(generation_jobs.c.made_at.desc()).limit(limit)
        if user_id is not None:
            wanted = wanted.where(generation_jobs.c.user_id == user_id)
        wanted = (
            wanted.where(generation_jobs.c.status.in_(statuses))
            if statuses
            else wanted.where(generation_jobs.c.confirmed_at.is_not(None))
        )
        async with self._database.read() as connection:
            return [dict(row) for row in (await connection.execute(wanted)).mappings()]

    async def counts(self) -> dict[str, int]:
        """How many jobs are at each status."""
        async with self._database.read() as connection:
            found = await connection.execute(
                select(generation_jobs.c.status, func.count()).group_by(generation_jobs.c.status)
            )
            return {row[0]: row[1] for row in found}

    async def timeline(self, job_id: str) -> list[dict[str, Any]]:
        """What has happened to a job, the oldest first."""
        wanted = select(job_history).where(job_history.c.key.in_((job_id, json.dumps(job_id))))
        async with self._database.read() as connection:
            return [dict(row) for row in (await connection.execute(wanted.order_by(job_history.c.id))).mappings()]

    async def _one(self, connection: Any, job_id: str) -> JobRow:
        found = await connection.execute(select(generation_jobs).where(generation_jobs.c.job_id == job_id))
        return dict(found.mappings().one())
