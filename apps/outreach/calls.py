"""The ledger of AI calls: what each has cost, and the answers that were paid for.

The cost of a call is reserved before it is made and corrected when its end is known: nothing for one that was never sent,
what the provider counted for one that was answered, and all of it for one with an unknown outcome. An answer is stored
before anything else happens to it, under its intent (what was asked, word for word), and an intent that has an answer is
never bought again. Nor is one that is being answered for somebody else: a call that was not heard of for longer than it
may take, twice, counts as lost.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import Float, case, exists, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from outreach.failures import Busy, Paused, one_line
from outreach.pauses import Pauses, current_pause, end_row_of_failures
from outreach.tables import ai_answers, ai_budget, ai_calls, upsert

DOUBT = 5.0
"""Seconds between the two looks after which a call counts as lost; whoever has its answer stores it meanwhile."""
TOLERATED = 2
"""Failures of one intent that count as the provider's, whatever else it has answered meanwhile."""
LOOKED_AT = 12
"""Failures of one intent to look at, at most."""
_SECONDS = {
    "postgresql": "extract(epoch FROM clock_timestamp())::float8",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}


class BudgetSpent(Exception):
    """The next call could cost more than is left."""


@dataclass(frozen=True, slots=True)
class Subject:
    """For what is asked; `name` is the same for the same product, such as `podcast-7`."""

    name: str
    stage: str
    campaign: int | None = None
    media: int | None = None
    discovery: int | None = None


BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the provider answered, as it is stored; of one that is `BROKEN` the text says why."""

    text: str
    finish: str = "stop"
    refusal: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that may be made."""

    key: int
    wait: float
    """Seconds until the rate allows it."""
    reserved: int


class Calls:
    """The ledger of one database."""

    def __init__(self, database: Database, pauses: Pauses, by: str, *, budget: float, currency: str) -> None:
        self._database = database
        self._pauses = pauses
        self._by = by
        self._most = round(budget * 1_000_000)
        self._currency = currency

    async def found(self, intent: str) -> Answer | None:
        """The stored answer to this intent, if it was bought before."""
        async with self._database.read() as connection:
            asked = select(ai_answers).where(ai_answers.c.intent == intent)
            row = (await connection.execute(asked)).mappings().first()
        return Answer(row["text"], row["finish"], row["refusal"]) if row else None

    async def begin(
        self, kind: str, intent: str, subject: Subject, model: str, reserve: int, gap: float, limit: float
    ) -> Begun:
        """Write the call down, with its cost and its turn; raises why it may not be made."""
        missed: str | None = None
        async with self._database.transaction() as (connection, _):
            wait = await self._reserve(connection, reserve, gap)
            # the row of the budget is locked from here on: calls begin one after the other
            if (pause := await current_pause(connection, self._pauses.name)) is not None:
                raise Paused(str(pause), delay=0.0)
            missed = await self._under_way(connection, intent, limit)
            if missed is None:
                row = {
                    "intent": intent,
                    "kind": kind,
                    "stage": subject.stage,
                    "campaign_id": subject.campaign,
                    "media_id": subject.media,
                    "discovery_id": subject.discovery,
                    "model": model,
                    "made_by": self._by,
                    "outcome": "under way",
                    "cost": reserve,
                    "currency": self._currency,
                    "began_at": store_now(connection),
                }
                key = await connection.execute(ai_calls.insert().values(**row).returning(ai_calls.c.id))
                return Begun(key.scalar_one(), wait, reserve)
            await _spend(connection, -reserve, -1)
        raise Busy(missed, delay=DOUBT / 2)

    async def answered(
        self, call: Begun, intent: str, subject: Subject, answer: Answer, cost: int, unusable: str | None
    ) -> None:
        """Store an answer and what it has cost; the first answer to an intent stays. May be repeated."""
        async with self._database.transaction() as (connection, _):
            told = {"subject": subject.name, "text": answer.text, "finish": answer.finish}
            told["refusal"] = answer.refusal
            stored = upsert(connection, ai_answers).values(
                intent=intent, stored_at=store_now(connection), unusable=unusable, **told
            )
            await connection.execute(stored.on_conflict_do_nothing())
            outcome = "answered" if unusable is None else "unusable"
            tokens = {"tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out}
            await _end(connection, call, outcome, cost, unusable, tokens)
            await end_row_of_failures(connection, self._pauses.name)

    async def ended(self, call: Begun, outcome: str, cost: int, message: str) -> None:
        """A call without an answer: `not sent`, `failed`, `rejected`, `unknown` after a time-out, `lost` with its caller."""
        async with self._database.transaction() as (connection, _):
            if await _end(connection, call, outcome, cost, message, {}) and outcome == "not sent":
                await _spend(connection, 0, -1)

    async def is_the_rows_fault(self, intent: str) -> bool:
        """Whether a failure that was just written down is the question's own, and not an outage's.

        It is, if others were answered between it and the failure before; or if they were twice so before, when this question
        may be the only one that is left.
        """
        asked = (
            select(ai_calls.c.ended_at)
            .where(ai_calls.c.intent == intent, ai_calls.c.outcome.in_(("failed", "unknown")))
            .order_by(ai_calls.c.ended_at.desc())
            .limit(LOOKED_AT)
        )
        async with self._database.read() as connection:
            failures = list((await connection.execute(asked)).scalars())
            # the first failures of a question may have begun an outage, whatever was answered meanwhile
            pairs = list(pairwise(failures))[: -TOLERATED + 1]
            answered = [await _others_were_answered(connection, earlier, later) for later, earlier in pairs]
        return answered[:1] == [True] or sum(answered) >= 2

    async def rejection(self, intent: str) -> str | None:
        """With which words the provider has rejected exactly this request, if it has answered others since."""
        asked = (
            select(ai_calls.c.message, ai_calls.c.ended_at)
            .where(ai_calls.c.intent == intent, ai_calls.c.outcome == "rejected")
            .order_by(ai_calls.c.ended_at.desc())
            .limit(1)
        )
        async with self._database.read() as connection:
            row = (await connection.execute(asked)).mappings().first()
            if row is None or not await _others_were_answered(connection, row["ended_at"]):
                return None
        return str(row["message"])

    async def _reserve(self, connection: AsyncConnection, reserve: int, gap: float) -> float:
        now: Any = literal_column(_SECONDS[connection.dialect.name], Float)
        # a time far ahead was written by a clock that has been set back since
        ahead = ai_budget.c.next_at.between(now, now + 60 + 20 * gap)
        turn = case((ahead, ai_budget.c.next_at), else_=now)
        change = update(ai_budget).where(ai_budget.c.name == "all", ai_budget.c.spent + reserve <= self._most)
        told = {"spent": ai_budget.c.spent + reserve, "calls": ai_budget.c.calls + 1, "next_at": turn + gap}
        done = await connection.execute(change.values(**told).returning(ai_budget.c.next_at - gap - now))
        row = done.first()
        if row is None:
            raise BudgetSpent(f"the budget of {self._most / 1_000_000:g} {self._currency} is spent")
        return max(0.0, float(row[0]))

    async def _under_way(self, connection: AsyncConnection, intent: str, limit: float) -> str | None:
        """Why to wait for a call that was begun for the same intent; None if there is none, or it is lost."""
        asked = select(ai_calls.c.id, ai_calls.c.made_by, ai_calls.c.began_at, ai_calls.c.doubted_at).where(
            ai_calls.c.intent == intent, ai_calls.c.outcome == "under way"
        )
        row = (await connection.execute(asked)).mappings().first()
        if row is None:
            return None
        now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
        mine = update(ai_calls).where(ai_calls.c.id == row["id"])
        if row["began_at"] + timedelta(seconds=limit) > now:
            return f"{row['made_by']} asks the same"
        if row["doubted_at"] is None:
            await connection.execute(mine.values(doubted_at=now))
            return f"{row['made_by']} asked the same, and was not heard of since"
        if row["doubted_at"] + timedelta(seconds=DOUBT) > now:
            return f"{row['made_by']} asked the same, and was not heard of since"
        # its cost is unknown: all that was reserved for it stays spent
        await connection.execute(mine.values(outcome="lost", message="its caller was not heard of again", ended_at=now))
        return None


async def _end(
    connection: AsyncConnection,
    call: Begun,
    outcome: str,
    cost: int,
    message: str | None,
    more: dict[str, Any],
) -> bool:
    """Write down how a call has ended; False if that is known already, as when the acknowledgement was lost."""
    told = {"outcome": outcome, "cost": cost, "ended_at": store_now(connection), **more}
    told["message"] = None if message is None else one_line(message)
    still_open = ai_calls.c.outcome.in_(("under way", "lost"))
    done = await connection.execute(update(ai_calls).where(ai_calls.c.id == call.key, still_open).values(**told))
    if done.rowcount == 1:
        await _spend(connection, cost - call.reserved, 0)
    return bool(done.rowcount)


async def _others_were_answered(connection: AsyncConnection, since: datetime, until: datetime | None = None) -> bool:
    others = exists().where(ai_calls.c.outcome == "answered", ai_calls.c.ended_at > since)
    if until is not None:
        others = others.where(ai_calls.c.ended_at < until)
    return bool((await connection.execute(select(others))).scalar_one())


async def _spend(connection: AsyncConnection, millionths: int, calls: int) -> None:
    if millionths or calls:
        told = {"spent": ai_budget.c.spent + millionths, "calls": ai_budget.c.calls + calls}
        await connection.execute(update(ai_budget).where(ai_budget.c.name == "all").values(**told))
