"""Attempts and backoff of an adopted table, beside it.

An attempt is counted when the work on a row begins, before anything is paid, in one transaction that its lock decides: a
worker that dies has had its attempt, and one that waited for its turn has not. The podcast's stages count for the
podcast, so that a campaign more does not mean five attempts more.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import delete, func, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from outreach.forms import Claiming
from outreach.stages import Stage
from outreach.tables import discoveries, stage_attempts, upsert
from raceproof import Claim

Work = Claim[Any, Any]


def subject_of(stage: Stage, work: Work) -> int:
    return int(work.row["media_id"]) if stage.shared else int(work.key)


async def begin(database: Database, stage: Stage, work: Work) -> int | None:
    """Count an attempt and show that the row is in work; None if another holds its lock in the meantime."""
    async with database.transaction() as (connection, _):
        mine = update(discoveries).where(discoveries.c.id == work.key, discoveries.c[stage.error] == str(work.fence))
        # the note's monitoring, and its cleanup, go by this time
        begun = await connection.execute(mine.values(updated_at=store_now(connection)))
        if begun.rowcount != 1:
            return None
        row = {"stage": stage.name, "subject_id": subject_of(stage, work), "attempts": 1}
        counted = upsert(connection, stage_attempts).values(**row)
        one_more = {"attempts": stage_attempts.c.attempts + 1, "rests_until": None}
        counted = counted.on_conflict_do_update(index_elements=["stage", "subject_id"], set_=one_more)
        number = await connection.execute(counted.returning(stage_attempts.c.attempts))
        return int(number.scalar_one())


async def end(connection: AsyncConnection, stage: Stage, work: Work) -> None:
    """It is done: the next failure is the first again."""
    await connection.execute(delete(stage_attempts).where(_of(stage, work)))


async def rest(
    connection: AsyncConnection,
    stage: Stage,
    work: Work,
    claiming: Claiming,
    error: str | None,
    delay: float | None,
    counted: bool,
) -> int:
    """Put it back to back off; without being `counted` it has its attempt back. How many it has had."""
    asked = select(stage_attempts.c.attempts).where(_of(stage, work))
    number = (await connection.execute(asked)).scalar_one_or_none() or 0
    number = number if counted else max(0, number - 1)
    seconds = claiming.backoff.after(number) if delay is None else delay
    now = (await connection.execute(select(store_now(connection)))).scalar_one()
    told = {"attempts": number, "rests_until": now + timedelta(seconds=seconds)}
    if error is not None:
        told["error"] = error
    await connection.execute(update(stage_attempts).where(_of(stage, work)).values(**told))
    return number


async def spend(connection: AsyncConnection, stage: Stage, work: Work, cap: int, error: str) -> None:
    """It has had all its attempts, however many that were."""
    row = {"stage": stage.name, "subject_id": subject_of(stage, work), "attempts": cap, "error": error}
    spent = upsert(connection, stage_attempts).values(**row)
    told = {"attempts": cap, "error": error}
    await connection.execute(spent.on_conflict_do_update(index_elements=["stage", "subject_id"], set_=told))


async def forgive(connection: AsyncConnection, stage: Stage, keys: list[int] | None) -> int:
    """Rows whose attempts begin at none again; those of these discoveries, or all. How many subjects that were."""
    mine: Any = stage_attempts.c.stage == stage.name
    if keys is not None:
        subject = discoveries.c.media_id if stage.shared else discoveries.c.id
        mine &= stage_attempts.c.subject_id.in_(select(subject).where(discoveries.c.id.in_(keys)))
    done = await connection.execute(delete(stage_attempts).where(mine))
    return int(done.rowcount)


async def spent_and_left(connection: AsyncConnection, stage: Stage, cap: int) -> list[int]:
    """Discoveries that have had all their attempts and have not ended: their worker died at the last."""
    subject = discoveries.c.media_id if stage.shared else discoveries.c.id
    gone = select(stage_attempts.c.subject_id).where(
        stage_attempts.c.stage == stage.name, stage_attempts.c.attempts >= cap
    )
    still: Any = literal_column(f"campaign_media_discoveries.{stage.lifecycle.column}")
    asked = select(discoveries.c.id).where(
        subject.in_(gone), func.coalesce(still, "pending").in_(("pending", "in_progress"))
    )
    return list((await connection.execute(asked)).scalars())


def _of(stage: Stage, work: Work) -> Any:
    return (stage_attempts.c.stage == stage.name) & (stage_attempts.c.subject_id == subject_of(stage, work))
