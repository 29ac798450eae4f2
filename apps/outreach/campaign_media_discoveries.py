"""The note's functions: acquire work, release it, clean up what was left behind. The same in both forms of a claim.

A lock belongs to whoever acquired it: `release_ai_description_lock` takes what `acquire_…` gave and is refused (`Lost`) when
another worker has the row in the meantime. Nothing depends on the cleanup: a stale lock is taken over by the next acquire.
`use(…)` says on which database; every function is one call of raceproof.
"""

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from sqlalchemy import update

from appkit.database import Database
from outreach.attempts import begin, spent_and_left
from outreach.forms import Claiming
from outreach.lifecycle import BATCH
from outreach.outcomes import put_back
from outreach.stages import Stage
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
    """Up to this many discoveries whose podcast wants a description, each for this caller alone."""
    return await _acquire(_stage("ai_description"), limit)


async def acquire_vetting_work_batch(limit: int = BATCH) -> list[Work]:
    """Up to this many discoveries that are described and not vetted, each for this caller alone."""
    return await _acquire(_stage("vetting"), limit)


async def release_ai_description_lock(work: Work, error: str | None = None) -> Any:
    """Give a row back: untouched, or with an error, then it backs off. The answer is `Lost` if the row is not ours."""
    database, claiming = _used.get()
    return await put_back(database, claiming, _stage("ai_description"), work, error)


async def cleanup_stale_ai_description_locks(stale_minutes: float | None = None) -> int:
    """Free rows whose worker has died, and put aside markers that hold nothing; how many.

    Stale is what every worker takes for stale (OUTREACH_STALE, 60 minutes), unless the caller says something else.
    """
    return await cleanup_stale_locks(_stage("ai_description"), stale_minutes)


async def cleanup_stale_locks(stage: Stage, stale_minutes: float | None = None) -> int:
    """The same for any stage. A malformed marker is one of many rows here, and stops nothing."""
    database, claiming = _used.get()
    if stale_minutes is not None:
        claiming = replace(claiming, stale=stale_minutes * 60)
    claim = claiming.of(stage, rested=False)
    in_work = "" if stage.stays else f"t.{stage.lifecycle.column} = 'in_progress' OR "
    left_behind = sql(f"({in_work}t.{stage.error} LIKE 'PROCESSING:{stage.kind}:%')")
    freed = 0
    while found := await database.store.claim(claim, 500, by="cleanup", where=left_behind):
        # only what is not held can be claimed, and what is released is as it was, without the lock
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
    if claiming.adopted and not stage.stays:
        freed += await _dead_letter_what_killed_its_workers(database, stage, claiming.max_attempts)
    return freed


async def _dead_letter_what_killed_its_workers(database: Database, stage: Stage, cap: int) -> int:
    """Over an adopted table: rows that have had all their attempts, and whose locks are gone."""
    async with database.transaction() as (connection, store):
        keys = await spent_and_left(connection, stage, cap)
        free = sql(f"COALESCE(t.{stage.error}, '') NOT LIKE 'PROCESSING:{stage.kind}:%'")
        gone = await store.move_many(
            stage.move("give_up"), keys, where=free, set={stage.error: "given up: its workers died"}
        )
        return sum(one.won for one in gone)


def _stage(name: str) -> Stage:
    _, claiming = _used.get()
    return claiming.stages[name]


async def _acquire(stage: Stage, limit: int) -> list[Work]:
    database, claiming = _used.get()
    found = await database.store.claim(claiming.of(stage), limit, returning=COLUMNS)
    if not claiming.adopted:
        return found
    # what waits for its turn shows that it is in work, by the time that the note's queries go by
    return [work for work in found if await begin(database, stage, work) is not None]
