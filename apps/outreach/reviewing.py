"""What a person decides: approve or reject a match, pause or resume a stage, try a failed row again."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database
from outreach.attempts import forgive
from outreach.forms import Claiming
from outreach.lifecycle import Review, StageSwitch
from outreach.pauses import end_pause
from outreach.stages import STAGES, Stage
from outreach.tables import ai_answers, ai_calls, discoveries, discovery_stages, review_tasks
from raceproof import AsyncStore, Moved, sql
from raceproof.moves import Answer

MANY = 500
"""Keys of one statement."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A stage goes on that was paused after failures; no person had paused it."""

    key: str
    outcome: ClassVar[str] = "moved"
    status: ClassVar[str] = "running"
    won: ClassVar[Literal[True]] = True
    reached: ClassVar[Literal[True]] = True

    def __str__(self) -> str:
        return f"{self.key} is asked again at once"


async def decide(database: Database, task: int, approve: bool, by: str, because: str) -> Answer[Any, Any]:
    """One decision for a match; the second person learns who was first."""
    move = Review.approve if approve else Review.reject
    told = {"decided_by": by, "decided_because": because}
    async with database.transaction() as (connection, store):
        answer: Answer[Any, Any] = await store.move(move, task, set=told, by=by, reason=because)
        if answer.won:
            match = review_tasks.select().where(review_tasks.c.id == task)
            row = (await connection.execute(match)).mappings().one()
            shown = update(discoveries).where(discoveries.c.match_suggestion_id == row["match_suggestion_id"])
            await connection.execute(shown.values(review_status=move.target))
    return answer


async def switch(database: Database, stage: str, pause: bool, by: str, reason: str) -> Answer[Any, Any] | Resumed:
    """Pause a stage, or let it go on; that ends a pause after failures of what it asks as well."""
    move = StageSwitch.pause if pause else StageSwitch.resume
    told = {"changed_by": by, "reason": reason}
    ended = False
    async with database.transaction() as (connection, store):
        answer: Answer[Any, Any] = await store.move(move, stage, set=told, by=by, reason=reason)
        if not pause and stage in STAGES and STAGES[stage].asks:
            ended = await end_pause(connection, STAGES[stage].asks)
    if (answer.won or ended) and not pause and stage in STAGES:
        await database.store.offer(STAGES[stage].columns, [])
    return Resumed(stage) if ended and not answer.won else answer


async def try_again(
    database: Database, claiming: Claiming, stage_name: str, keys: list[int] | None
) -> list[Answer[Any, Any]]:
    """Give dead-lettered rows all their attempts again, and ask about them again; their errors stay.

    Without keys all dead letters of the stage. Where the work is the podcast's, its other discoveries come along.
    """
    stage = claiming.stages[stage_name]
    async with database.transaction() as (connection, store):
        if keys is not None and stage.shared:
            keys = await _with_siblings(connection, stage, keys)
        if claiming.adopted:
            return await _try_again_beside(connection, store, stage, keys)
        reset = {f"{stage_name}_attempts": 0, f"{stage_name}_rests_until": None}
        if keys is None:
            answers = await store.move_many(stage.move("again"), where=sql("TRUE"), set=reset)
        else:
            answers = await store.move_many(stage.move("again"), keys, set=reset)
        await _forget_unusable(connection, stage, [int(one.key) for one in answers if one.won])
    return list(answers)


async def _try_again_beside(
    connection: AsyncConnection, store: AsyncStore, stage: Stage, keys: list[int] | None
) -> list[Answer[Any, Any]]:
    """Over an adopted table, where a stage may have no status that says that it has failed."""
    if keys is None:
        failed = select(discovery_stages.c.id).where(discovery_stages.c[stage.status] == "failed")
        keys = list((await connection.execute(failed)).scalars())
    await forgive(connection, stage, keys)
    await _forget_unusable(connection, stage, keys)
    if stage.stays:
        return [Moved(key, stage.finish, "failed", None, None) for key in keys]
    return list(await store.move_many(stage.move("again"), keys))


async def _with_siblings(connection: AsyncConnection, stage: Stage, keys: list[int]) -> list[int]:
    """And the discoveries of the same podcasts that the stage has dead-lettered with them."""
    podcasts = select(discoveries.c.media_id).where(discoveries.c.id.in_(keys))
    failed = discovery_stages.c[stage.status] == "failed"
    asked = select(discovery_stages.c.id).where(discovery_stages.c.media_id.in_(podcasts), failed)
    found = (await connection.execute(asked.order_by(discovery_stages.c.id))).scalars()
    return list(dict.fromkeys((*keys, *found)))


async def _forget_unusable(connection: AsyncConnection, stage: Stage, keys: list[int]) -> None:
    """What nothing could be done with is bought once more, and what was rejected is sent once more: a person says so."""
    for begin in range(0, len(keys), MANY):
        products = keys[begin : begin + MANY]
        if stage.shared:
            mine = discoveries.c.id.in_(products)
            asked = select(discoveries.c.media_id).where(mine).distinct()
            products = [int(key) for key in (await connection.execute(asked)).scalars()]
        kind, column = ("podcast", "media_id") if stage.shared else ("discovery", "discovery_id")
        subjects = ai_answers.c.subject.in_([f"{kind}-{key}" for key in products])
        await connection.execute(delete(ai_answers).where(subjects, ai_answers.c.unusable.is_not(None)))
        rejected = (ai_calls.c.stage == stage.name) & (ai_calls.c.outcome == "rejected")
        theirs = update(ai_calls).where(rejected, ai_calls.c[column].in_(products))
        await connection.execute(theirs.values(outcome="forgiven"))
