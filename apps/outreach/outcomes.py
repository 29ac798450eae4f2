"""How the work on a row ends: each end is one transaction that the row's fence decides.

A result and the row's new status are written together, or not at all. An error goes into the error column, where the
triggers keep the one that stood there before.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database
from outreach.stages import Stage
from outreach.tables import discoveries
from raceproof import AsyncStore, Claim, SetAside, sql

LONGEST_ERROR = 2000

Write = Callable[[AsyncConnection, AsyncStore], Awaitable[dict[str, Any] | None]]
"""What belongs to the result; it returns columns that the finishing move sets."""


class _LostRow(Exception):
    """Rolls back what was written for a row that is somebody else's by now."""


async def finish(database: Database, stage: Stage, work: Claim[Any, Any], write: Write) -> Any:
    """Write a result and finish its row under the row's fence; nothing is written if the row was lost."""
    answer: Any = None
    try:
        async with database.transaction() as (connection, store):
            columns = await write(connection, store)
            answer = await store.move(stage.move("finish"), work, set={**(columns or {}), stage.error: None})
            if not answer.won:
                raise _LostRow
            if "share" in stage.lifecycle.moves:
                await _share(store, stage, work)
    except _LostRow:
        pass
    return answer


async def put_back(
    database: Database,
    stage: Stage,
    work: Claim[Any, Any],
    error: str | None = None,
    delay: float | None = None,
) -> Any:
    """Give a row back: untouched without an error; otherwise it rests, and is set aside after its last attempt."""
    if error is None:
        return (await database.store.release(work))[0]
    async with database.transaction() as (connection, store):
        [answer] = await store.fail(work, reason=error[:500], delay=delay)
        if answer.won:
            await _write_error(connection, stage, [work.key], error)
        if isinstance(answer, SetAside) and "share" in stage.lifecycle.moves:
            await _give_up_line(connection, store, stage, work, error)
    return answer


async def _share(store: AsyncStore, stage: Stage, work: Claim[Any, Any]) -> None:
    """The other discoveries of the same podcast stand behind this one in its line: they have the result too."""
    await store.move_many(stage.move("share"), where=_same_podcast(work), set={stage.error: None})


async def _give_up_line(
    connection: AsyncConnection, store: AsyncStore, stage: Stage, work: Claim[Any, Any], error: str
) -> None:
    """What cannot be done for one discovery of a podcast cannot be done for those behind it: it is not paid for again."""
    told = await store.move_many(stage.move("give_up_too"), where=_same_podcast(work))
    await _write_error(connection, stage, [one.key for one in told if one.won], error)


def _same_podcast(work: Claim[Any, Any]) -> Any:
    return sql("t.media_id = {media} AND t.id <> {id}", media=int(work.row["media_id"]), id=int(work.key))


async def _write_error(connection: AsyncConnection, stage: Stage, keys: list[Any], error: str) -> None:
    """In the transaction that has just decided about these rows, so they are ours."""
    await connection.execute(
        update(discoveries).where(discoveries.c.id.in_(keys)).values({stage.error: error[:LONGEST_ERROR]})
    )
