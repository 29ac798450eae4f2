"""What AI calls have cost, and that no answer is bought twice: reserved before, corrected after, stored at once. B4, B6."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from appkit.storm import until
from outreach.ai import OpenAiCompatible
from outreach.built_in import CHECKLIST, Podcast
from outreach.calls import DOUBT, Answer, Begun, BudgetSpent, Calls, Subject
from outreach.failures import Busy, ProviderFailed
from outreach.forms import Form
from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.pauses import Pauses
from outreach.service import Service, prepared
from outreach.settings import Settings
from outreach.stages import AI_DESCRIPTION, ENRICHMENT
from outreach.storm_clock import minutes_pass
from outreach.tables import ai_answers, ai_budget, ai_calls, discoveries, media
from raceproof.testing import PostgresServer, postgres

from .conftest import KEY, Opening, RunningProvider, ScriptedProvider, running_provider, said
from .test_ai import found

BOTH = pytest.mark.parametrize("form", list(Form), ids=str)
SHOW = Podcast("Deep Soil", "Soil.", [], [], "en", 0.0, {}, [])
ABOUT = Subject("podcast-1", "ai_description", None, 1, 1)
PRICE = round(1000 * 0.15 + 100 * 0.60)
"""In millionths, of an answer as `said` counts it."""


@pytest.fixture(scope="module")
def good() -> Iterator[RunningProvider]:
    with running_provider() as one:
        yield one


async def calls_of(service: Service) -> list[dict[str, Any]]:
    async with service.database.read() as connection:
        rows = await connection.execute(select(ai_calls).order_by(ai_calls.c.id))
        return [dict(row) for row in rows.mappings()]


async def spent(service: Service) -> tuple[int, int]:
    async with service.database.read() as connection:
        row = (await connection.execute(select(ai_budget))).mappings().one()
    return row["spent"], row["calls"]


def ai_of(service: Service) -> OpenAiCompatible:
    working: Any = service.manager._working
    ai = working._ai
    assert isinstance(ai, OpenAiCompatible)
    return ai


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(500, "failed"), (503, "failed"), (429, "failed"), (401, "failed"), (422, "rejected")],
)
async def test_what_was_not_answered_costs_nothing(
    opening: Opening, scripted: ScriptedProvider, status: int, outcome: str
) -> None:
    """An outage was booked as money."""
    scripted.reply = lambda _: (status, {}, {"error": {"message": "no"}})
    async with opening(**scripted.settings()) as service:
        with pytest.raises(ProviderFailed):
            await ai_of(service).describe(SHOW, ABOUT)
        assert await spent(service) == (0, 1)
        [row] = await calls_of(service)
        assert (row["outcome"], row["cost"], row["message"]) == (outcome, 0, f"the API answered {status}: no")


async def test_a_call_that_was_never_sent_is_none(opening: Opening, good: RunningProvider) -> None:
    """78 "calls" and 0.037 "spent" where nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{one.getsockname()[1]}/v1"
    async with opening(**good.settings() | {"ai_url": nowhere}) as service:
        with pytest.raises(ProviderFailed, match="cannot be reached"):
            await ai_of(service).describe(SHOW, ABOUT)
        assert await spent(service) == (0, 0)
        assert [(row["outcome"], row["cost"]) for row in await calls_of(service)] == [("not sent", 0)]


async def test_what_nobody_knows_the_end_of_stays_reserved(opening: Opening) -> None:
    with running_provider(slow=1e6) as silent:
        told = silent.settings() | {"ai_timeout": 0.2, "drain": 1.0}
        async with opening(**told) as service:
            with pytest.raises(ProviderFailed, match="not answered"):
                await ai_of(service).describe(SHOW, ABOUT)
            [row] = await calls_of(service)
            assert row["outcome"] == "unknown"
            assert await spent(service) == (row["cost"], 1)
            assert row["cost"] > 0


@pytest.mark.parametrize("when", ["in the call", "before it was sent"])
async def test_a_caller_that_is_cancelled_leaves_a_true_ledger(opening: Opening, when: str) -> None:
    with running_provider(slow=1e6) as silent:
        rate = 0.001 if when == "before it was sent" else 1000.0
        async with opening(**silent.settings() | {"ai_rate": rate}) as service:
            if when == "before it was sent":  # the rate has given the only turn of the hour away
                async with service.database.transaction() as (connection, _):
                    ahead = "SET next_at = next_at + 30 + " + _now_seconds(service)
                    await connection.execute(text(f"UPDATE ai_budget {ahead}"))
            asking = asyncio.create_task(ai_of(service).describe(SHOW, ABOUT))
            async with asyncio.timeout(60):
                while not await calls_of(service) or (when == "in the call" and not silent.ledger()["calls"]):
                    pass
            asking.cancel()
            await asyncio.wait([asking])
            [row] = await calls_of(service)
            if when == "in the call":
                assert row["outcome"] == "lost"
                assert await spent(service) == (row["cost"], 1)
            else:
                assert row["outcome"] == "not sent"
                assert await spent(service) == (0, 0)


def _now_seconds(service: Service) -> str:
    if service.database.dialect == "postgres":
        return "extract(epoch FROM clock_timestamp())"
    return "(julianday('now') - 2440587.5) * 86400.0"


async def test_an_answer_costs_what_the_provider_has_counted(opening: Opening, scripted: ScriptedProvider) -> None:
    scripted.reply = lambda _: said("A show about soil.")
    told = scripted.settings() | {"ai_currency": "EUR", "instance": "seven", "ai_model": "small-1"}
    async with opening(**told) as service:
        await ai_of(service).describe(SHOW, Subject("podcast-9", "ai_description", 3, 9, 12))
        assert await spent(service) == (PRICE, 1)
        [row] = await calls_of(service)
    assert {name: row[name] for name in row if name not in ("id", "began_at", "ended_at", "intent")} == {
        "kind": "describe",
        "stage": "ai_description",
        "campaign_id": 3,
        "media_id": 9,
        "discovery_id": 12,
        "model": "small-1",
        "made_by": "seven",
        "outcome": "answered",
        "tokens_in": 1000,
        "tokens_out": 100,
        "cost": PRICE,
        "currency": "EUR",
        "message": None,
        "doubted_at": None,
    }
    assert scripted.keys == [row["intent"]]


async def test_a_budget_is_never_exceeded_by_calls_that_come_at_once(opening: Opening) -> None:
    async with opening() as service:
        calls = Calls(service.database, Pauses(service.database, "ai", 1.0), "one", budget=0.001, currency="USD")

        async def begin(number: int) -> Begun | None:
            with suppress(BudgetSpent):
                return await calls.begin("describe", f"intent-{number}", ABOUT, "m", 300, 0.0, 60.0)
            return None

        begun = await asyncio.gather(*(begin(number) for number in range(10)))
        assert sum(one is not None for one in begun) == 3
        assert (await spent(service))[0] == 900


@BOTH
async def test_an_answer_that_was_paid_for_is_not_bought_again(
    opening: Opening, scripted: ScriptedProvider, form: Form
) -> None:
    """Its worker died between the answer and the result: whoever takes the row over finds the answer."""
    scripted.reply = lambda _: said("A show about soil.")
    async with opening(**scripted.settings(), form=form) as service:
        await found(service, "shipped:deep-soil.xml")
        await service.manager.run_until_idle(ENRICHMENT)
        returning = ["campaign_id", "media_id"]
        claim = service.claiming.of(AI_DESCRIPTION)
        [late] = await service.database.store.claim(claim, by="late", returning=returning)
        await minutes_pass(service.database, 61, form)
        [other] = await service.database.store.claim(claim, by="other", returning=returning)
        await service.manager._handle(AI_DESCRIPTION, late)  # its answer is stored, its result is refused
        async with service.database.read() as connection:
            assert (await connection.execute(select(media.c.ai_description))).scalar_one() is None
        await service.manager._handle(AI_DESCRIPTION, other)
        async with service.database.read() as connection:
            found_text = (await connection.execute(select(media.c.ai_description))).scalar_one()
        assert found_text == "A show about soil."
        assert await spent(service) == (PRICE, 1)
    assert len(scripted.asked) == 1


async def test_an_answer_that_comes_while_the_database_is_away_is_kept() -> None:
    """PostgreSQL was killed between the answer and its row: nothing is asked for again when it is back."""
    with postgres() as server, running_provider(slow=0.0) as provider:
        settings = Settings(database=server.database(), rest=0.0, poll=0.05, lease=2.0, **provider.settings())
        async with prepared(settings, Metrics(), Purpose.MIGRATE) as service:
            await found(service)
            await service.manager.run_until_idle(ENRICHMENT)
            gone = _kill_after_the_next_answer(ai_of(service), server)
            worker = service.manager.worker(AI_DESCRIPTION)
            running = asyncio.create_task(worker.run())

            async def is_storing() -> bool:
                return ai_of(service).storing and gone.is_set()

            assert await until(is_storing, 60, every=0.01)
            await asyncio.to_thread(server.restart)
            assert await until(lambda: _all_described(service), 60)
            worker.stop()
            await running
            ledger = provider.ledger()
            rows = await calls_of(service)
            assert (await spent(service))[0] == sum(row["cost"] for row in rows)
        assert ledger["answered"] == ledger["products"]


def _kill_after_the_next_answer(ai: OpenAiCompatible, server: PostgresServer) -> asyncio.Event:
    chat: Any = ai._chat
    send, gone = chat.send, asyncio.Event()

    async def sent(*told: Any) -> bytes:
        body: bytes = await send(*told)
        if chat.send is not send:
            chat.send = send
            await asyncio.to_thread(server.kill)
            gone.set()
        return body

    chat.send = sent
    return gone


async def _all_described(service: Service) -> bool:
    waiting = discoveries.c.ai_description_status != "completed"
    with suppress(DBAPIError, OSError):
        async with service.database.read() as connection:
            asked = select(func.count()).where(waiting)
            return (await connection.execute(asked)).scalar_one() == 0
    return False


async def test_what_is_being_asked_for_is_not_asked_for_by_another(opening: Opening) -> None:
    """Nor right after: a call counts as lost when it was missed twice, and its money stays spent."""
    async with opening() as service:
        told = (service.database, Pauses(service.database, "ai", 1.0))
        first = Calls(*told, "first", budget=1.0, currency="USD")
        second = Calls(*told, "second", budget=1.0, currency="USD")
        asked = ("describe", "intent", ABOUT, "m", 500, 0.0)
        begun = await first.begin(*asked, 60.0)
        with pytest.raises(Busy, match="first asks the same"):
            await second.begin(*asked, 60.0)
        assert await spent(service) == (500, 1)
        with pytest.raises(Busy, match="was not heard of since"):
            await second.begin(*asked, 0.0)
        with pytest.raises(Busy, match="was not heard of since"):
            await second.begin(*asked, 0.0)
        async with service.database.transaction() as (connection, _):
            earlier = _earlier(service, DOUBT + 1)
            await connection.execute(text(f"UPDATE ai_calls SET doubted_at = {earlier}"))
        again = await second.begin(*asked, 0.0)
        assert [row["outcome"] for row in await calls_of(service)] == ["lost", "under way"]
        assert await spent(service) == (1000, 2)
        # the first was only slow: both were paid for, and the first answer stays
        await first.answered(begun, "intent", ABOUT, Answer("early"), 70, None)
        await second.answered(again, "intent", ABOUT, Answer("late"), 80, None)
        await second.answered(again, "intent", ABOUT, Answer("late"), 80, None)  # its acknowledgement was lost
        assert await spent(service) == (150, 2)
        answer = await first.found("intent")
        assert answer is not None
        assert answer.text == "early"


def _earlier(service: Service, seconds: float) -> str:
    if service.database.dialect == "postgres":
        return f"clock_timestamp() - interval '{seconds} seconds'"
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-{seconds} seconds')"


async def test_the_words_of_an_answer_are_stored_as_they_were_bought(
    opening: Opening, scripted: ScriptedProvider
) -> None:
    scores = {"scores": [{"criterion": one.name, "score": 50, "why": "it \0 is"} for one in CHECKLIST]}
    scripted.reply = lambda _: said(f"```json\n{json.dumps(scores)}\n```")
    async with opening(**scripted.settings()) as service:
        await ai_of(service).describe(SHOW, ABOUT)
        async with service.database.read() as connection:
            row = (await connection.execute(select(ai_answers))).mappings().one()
        assert row["text"].startswith("```json")
        assert row["unusable"] is None


async def test_the_turn_of_a_call_is_the_stores_and_survives_a_clock_that_was_set_back(
    opening: Opening,
) -> None:
    async with opening() as service:
        told = (service.database, Pauses(service.database, "ai", 1.0))
        calls = [Calls(*told, name, budget=1.0, currency="USD") for name in ("one", "two")]
        waits = [
            (await calls[number % 2].begin("describe", f"intent-{number}", ABOUT, "m", 1, 10.0, 60.0)).wait
            for number in range(4)
        ]
        assert waits == [pytest.approx(10.0 * number, abs=5.0) for number in range(4)]
        async with service.database.transaction() as (connection, _):
            await connection.execute(update(ai_budget).values(next_at=ai_budget.c.next_at + 1e6))
        assert (await calls[0].begin("describe", "intent-9", ABOUT, "m", 1, 10.0, 60.0)).wait < 5.0


def test_the_canary_is_the_key() -> None:
    assert "canary" in KEY
