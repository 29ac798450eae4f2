"""How the work on a row ends: each end is one transaction that the row's fence decides.

A result and the row's new status are written together, or not at all. An error goes into the error column, where the
triggers keep the one that stood there before. Over an adopted table the attempts beside it are part of the same transaction.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from outreach import attempts
from outreach.forms import Claiming
from outreach.stages import Stage
from outreach.tables import discoveries
from raceproof import AsyncStore, Claim, DeadLettered, sql

LONGEST_ERROR = 2000

Work = Claim[Any, Any]
Write = Callable[[AsyncConnection, AsyncStore], Awaitable[dict[str, Any] | None]]
"""What belongs to the result; it returns columns of the discovery that are set along with its end."""


class _LostRow(Exception):
    """Rolls back what was written for a row that another worker has in the meantime."""


async def finish(database: Database, claiming: Claiming, stage: Stage, work: Work, write: Write) -> Any:
    """Write a result and finish its row under the row's fence; nothing is written if the row was lost."""
    answer: Any = None
    try:
        async with database.transaction() as (connection, store):
            columns = await write(connection, store) or {}
            if stage.stays:
                [answer] = await store.release(work)
            else:
                answer = await store.move(stage.finish, work, set={**columns, stage.error: None})
            if not answer.won:
                raise _LostRow
            if stage.stays:
                told = {**columns, "updated_at": store_now(connection)}
                await connection.execute(update(discoveries).where(discoveries.c.id == work.key).values(**told))
            if claiming.adopted:
                await attempts.end(connection, stage, work)
            if "share" in stage.lifecycle.moves and not stage.stays:
                await _share(store, stage, work)
    except _LostRow:
        pass
    return answer


async def put_back(
    database: Database,
    claiming: Claiming,
    stage: Stage,
    work: Work,
    error: str | None = None,
    *,
    delay: float | None = None,
    counted: bool = True,
) -> Any:
    """Give a row back: untouched without an error; otherwise it backs off, and is dead-lettered after its last attempt.

    If it is not `counted`, nothing was wrong with the row: it backs off, and has lost no attempt.
    """
    text = None if error is None else storable(error)
    counted = counted and text is not None
    async with database.transaction() as (connection, store):
        if claiming.adopted:
            return await _put_back_beside(connection, store, claiming, stage, work, text, delay, counted)
        if counted:
            [answer] = await store.fail(work, reason=str(text)[:500], delay=delay)
        else:
            [answer] = await store.release(work)
        if not answer.won:
            return answer
        if text is not None:
            await _write_error(connection, stage, [work.key], text)
        if not counted and delay:
            await _rest(connection, stage, work, delay)
        if isinstance(answer, DeadLettered) and stage.shared:
            await _give_up_line(connection, store, stage, work, str(text))
    return answer


async def dead_letter(database: Database, claiming: Claiming, stage: Stage, work: Work, error: str) -> Any:
    """It cannot be done as it is: no further attempt, nor for other discoveries of a podcast where the work is its own."""
    text = storable(error)
    answer: Any
    async with database.transaction() as (connection, store):
        if claiming.adopted:
            [answer] = await store.release(work)
            if answer.won:
                await _give_up_beside(connection, store, claiming, stage, work, text)
        else:
            answer = await store.move(stage.move("give_up"), work, set={stage.error: text})
            if answer.won and stage.shared:
                await _give_up_line(connection, store, stage, work, text)
    return answer


def storable(error: str) -> str:
    """A text that every database takes, whatever was raised."""
    return error.replace("\0", " ").encode(errors="replace").decode()[:LONGEST_ERROR]


async def _put_back_beside(
    connection: AsyncConnection,
    store: AsyncStore,
    claiming: Claiming,
    stage: Stage,
    work: Work,
    error: str | None,
    delay: float | None,
    counted: bool,
) -> Any:
    [answer] = await store.release(work)
    if not answer.won:
        return answer
    if error is None:
        delay = delay or 0.0
    number = await attempts.rest(connection, stage, work, claiming, error, delay, counted)
    if error is not None:
        await _write_error(connection, stage, [work.key], error)
    if not counted or number < claiming.max_attempts:
        return answer
    await _give_up_beside(connection, store, claiming, stage, work, str(error))
    return DeadLettered(work.key, work.declared, answer.status, number)


async def _give_up_beside(
    connection: AsyncConnection,
    store: AsyncStore,
    claiming: Claiming,
    stage: Stage,
    work: Work,
    error: str,
) -> None:
    """The row was just given back in this transaction, so it is still locked by it."""
    await attempts.spend(connection, stage, work, claiming.max_attempts, error)
    await _write_error(connection, stage, [work.key], error)
    if stage.stays:
        return
    keys = [int(work.key)]
    if stage.shared:
        asked = select(discoveries.c.id).where(discoveries.c.media_id == int(work.row["media_id"]))
        keys = list((await connection.execute(asked)).scalars())
    given_up = await store.move_many(stage.move("give_up"), keys, where=sql(f"t.{stage.status} = 'pending'"))
    await _write_error(connection, stage, [one.key for one in given_up if one.won], error)


async def _share(store: AsyncStore, stage: Stage, work: Work) -> None:
    """The other discoveries of the same podcast stand behind this one in its line: they have the result too."""
    await store.move_many(stage.move("share"), where=_same_podcast(work), set={stage.error: None})


async def _give_up_line(connection: AsyncConnection, store: AsyncStore, stage: Stage, work: Work, error: str) -> None:
    """What cannot be done for one discovery of a podcast cannot be done for those behind it: it is not paid for again."""
    told = await store.move_many(stage.move("give_up_too"), where=_same_podcast(work))
    await _write_error(connection, stage, [one.key for one in told if one.won], error)


def _same_podcast(work: Work) -> Any:
    return sql("t.media_id = {media} AND t.id <> {id}", media=int(work.row["media_id"]), id=int(work.key))


async def _rest(connection: AsyncConnection, stage: Stage, work: Work, seconds: float) -> None:
    now = (await connection.execute(select(store_now(connection)))).scalar_one()
    rests = {f"{stage.name}_rests_until": now + timedelta(seconds=seconds)}
    await connection.execute(update(discoveries).where(discoveries.c.id == work.key).values(rests))


async def _write_error(connection: AsyncConnection, stage: Stage, keys: list[Any], error: str) -> None:
    """In the transaction that has just decided about these rows, so they are ours."""
    if keys:
        await connection.execute(update(discoveries).where(discoveries.c.id.in_(keys)).values({stage.error: error}))
