"""The note's functions: acquire work, release it, clean up what was left behind. The same in both forms of a claim.

A lock belongs to whoever acquired it: `release_ai_description_lock` takes what `acquire_…` gave and is refused (`Lost`) when
somebody else has the row by now. Nothing depends on the cleanup: a stale lock is taken over by the next acquire.
`use(…)` says on which database; every function is one call of raceproof.
"""

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from sqlalchemy import update

from appkit.database import Database
from outreach.forms import Claiming
from outreach.lifecycle import BATCH
from outreach.outcomes import put_back
from outreach.stages import AI_DESCRIPTION, VETTING, Stage
from outreach.tables import discoveries
from raceproof import Claim, sql

Work = Claim[Any, Any]
"""A row that the caller holds: `key`, `fence` (the marker's text, or a number), `attempt`, and columns in `row`."""

COLUMNS = ("campaign_id", "media_id", "discovery_keyword")
_used: ContextVar[tuple[Database, Claiming]] = ContextVar("outreach_discoveries")


def use(database: Database, claiming: Claiming) -> None:
    """Where the functions below look, in this task and those that it starts."""
    _used.set((database, claiming))


async def acquire_ai_description_work_batch(limit: int = BATCH) -> list[Work]:
    """Up to so many discoveries whose podcast wants a description, each for this caller alone."""
    return await _acquire(AI_DESCRIPTION, limit)


async def acquire_vetting_work_batch(limit: int = BATCH) -> list[Work]:
    """Up to so many discoveries that are described and not vetted, each for this caller alone."""
    return await _acquire(VETTING, limit)


async def release_ai_description_lock(work: Work, error: str | None = None) -> Any:
    """Give a row back: untouched, or with an error, after which it rests. The answer is `Lost` if the row is not ours."""
    database, _ = _used.get()
    return await put_back(database, AI_DESCRIPTION, work, error)


async def cleanup_stale_ai_description_locks(stale_minutes: float = 60.0) -> int:
    """Free rows whose worker has died, and put aside markers that hold nothing; how many."""
    return await cleanup_stale_locks(AI_DESCRIPTION, stale_minutes)


async def cleanup_stale_locks(stage: Stage, stale_minutes: float = 60.0) -> int:
    """The same for any stage. A malformed marker is one of many rows here, and stops nothing."""
    database, claiming = _used.get()
    claim = replace(claiming, stale=stale_minutes * 60).of(stage)
    left_behind = sql(
        f"(t.{stage.status} = 'in_progress' OR t.{stage.error} LIKE 'PROCESSING:{stage.kind}:%')"
    )
    freed = 0
    while found := await database.store.claim(claim, 500, by="cleanup", where=left_behind):
        # only what nobody holds can be claimed, and what is released is as it was, without the lock
        async with database.transaction() as (connection, store):
            told = await store.release(found)
            keys = [one.key for one in told if one.won]
            broken = discoveries.c[stage.error].like(f"PROCESSING:{stage.kind}:%")
            await connection.execute(
                update(discoveries).where(discoveries.c.id.in_(keys), broken).values({stage.error: None})
            )
        if not keys:
            break
        freed += len(keys)
    return freed


async def _acquire(stage: Stage, limit: int) -> list[Work]:
    database, claiming = _used.get()
    return await database.store.claim(claiming.of(stage), limit, returning=COLUMNS)
