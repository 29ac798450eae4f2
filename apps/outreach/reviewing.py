"""What a person decides: approve or reject a match, pause or resume a stage, try a failed row again."""

from typing import Any

from sqlalchemy import update

from appkit.database import Database
from outreach.lifecycle import Review, StageSwitch
from outreach.stages import STAGES
from outreach.tables import discoveries, review_tasks
from raceproof import Answer


async def decide(database: Database, task: int, approve: bool, by: str, because: str) -> Answer[Any, Any]:
    """One decision for a match; the second person is told who was first."""
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


async def switch(database: Database, stage: str, pause: bool, by: str, reason: str) -> Answer[Any, Any]:
    """Pause a stage, or let it go on."""
    move = StageSwitch.pause if pause else StageSwitch.resume
    told = {"changed_by": by, "reason": reason}
    answer: Answer[Any, Any] = await database.store.move(move, stage, set=told, by=by, reason=reason)
    if answer.won and not pause and stage in STAGES:
        await database.store.offer(STAGES[stage].columns, [])
    return answer


async def try_again(database: Database, stage: str, keys: list[int]) -> list[Answer[Any, Any]]:
    """Rows that were set aside have their attempts anew; their errors stay."""
    move = STAGES[stage].move("again")
    return list(await database.store.move_many(move, keys, set={f"{stage}_attempts": 0}))
