"""A provider that is away, rejects the key or has no quota left pauses its stages; no row loses an attempt. B4, B5, B7."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import select, text, update

from appkit.loops import Loops
from outreach import reading, reviewing
from outreach.api import outreach_app
from outreach.calls import TOLERATED
from outreach.discovery import add_campaign, discover
from outreach.forms import Form
from outreach.metrics import Metrics
from outreach.pauses import IN_A_ROW, Pauses
from outreach.service import Service, measure
from outreach.stages import AI_DESCRIPTION, ENRICHMENT, STAGES, VETTING
from outreach.tables import discoveries, pauses

from .conftest import KEY, Opening, RunningProvider, ScriptedProvider, run_all, running_provider, said

BOTH = pytest.mark.parametrize("form", list(Form), ids=str)
HOUR = 3600.0
KINDS = {
    "key": "Incorrect API key",
    "quota": "exceeded your current quota",
    "rate": "Rate limit reached",
    "down": "overloaded",
    "refused": "cannot be reached",
}


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningProvider]:
    with running_provider() as one:
        yield one


@pytest.fixture
def provider(shared: RunningProvider) -> Iterator[RunningProvider]:
    yield shared
    shared.outage("")


def nowhere() -> str:
    """An address where nothing listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{one.getsockname()[1]}/v1"


async def found(service: Service) -> None:
    """Nine podcasts that wait for their descriptions."""
    campaign = await add_campaign(service.database, "Startups", ["startup"], "Founders on pricing.")
    await discover(service.database, service.fetcher, campaign, "shipped:search-startups.json")
    await service.manager.run_until_idle(ENRICHMENT)


async def attempts(service: Service, stage: str = "ai_description") -> dict[tuple[str, int], int]:
    """How many discoveries have which status and so many attempts."""
    async with service.database.read() as connection:
        asked = select(discoveries.c[f"{stage}_status"], discoveries.c[f"{stage}_attempts"])
        counted: dict[tuple[str, int], int] = {}
        for status, number in await connection.execute(asked):
            counted[status, number] = counted.get((status, number), 0) + 1
    return counted


async def shown(service: Service, stage: str = "ai_description") -> dict[str, Any]:
    told = await reading.overview(service.database)
    return next(one for one in told["stages"] if one["stage"] == stage)


@BOTH
@pytest.mark.parametrize("kind", KINDS)
async def test_an_outage_pauses_the_stages_for_all_and_costs_no_attempt(
    opening: Opening, provider: RunningProvider, form: Form, kind: str
) -> None:
    """Every row was asked for five times, and then dead-lettered, until somebody retried each by its id."""
    told = provider.settings() | {"form": form, "ai_pause": HOUR, "ai_calls": 1}
    if kind == "refused":
        told["ai_url"] = nowhere()
    else:
        provider.outage(kind)
    before = provider.ledger()["calls"]
    async with opening(**told) as service:
        await found(service)
        rows = sum((await attempts(service)).values())
        for _ in range(7):
            await service.manager.run_until_idle(AI_DESCRIPTION)
        assert await attempts(service) == {("pending", 0): rows}
        asked = provider.ledger()["calls"] - before
        assert asked <= IN_A_ROW  # and not five for each row
        for stage in ("ai_description", "vetting"):
            pause = await shown(service, stage)
            assert pause["paused"]
            assert pause["changed_by"] == "the AI"
            assert KINDS[kind] in pause["reason"]
            assert "canary" not in pause["reason"]
            assert pause["until"] is not None
        # another process does not even ask
        async with opening(**told, instance="two") as second:
            worker = await second.manager.run_until_idle(AI_DESCRIPTION)
            assert (worker.finished, worker.failed) == (0, 0)
        assert provider.ledger()["calls"] - before == asked


@BOTH
@pytest.mark.parametrize("kind", ["refused", "rate"])
async def test_when_the_outage_is_over_the_stages_go_on_by_themselves(
    opening: Opening, provider: RunningProvider, form: Form, kind: str
) -> None:
    told = provider.settings() | {"form": form, "ai_pause": 0.02, "poll": 0.02}
    if kind == "refused":
        told["ai_url"] = nowhere()
    else:
        provider.outage(kind)
    async with opening(**told) as service:
        await found(service)
        rows = sum((await attempts(service)).values())
        await service.manager.run_until_idle(AI_DESCRIPTION)
        async with service.database.read() as connection:
            times = (await connection.execute(select(pauses.c.times).where(pauses.c.name == "ai"))).scalar_one()
        assert times > 0
    provider.outage("")
    async with opening(**{**told, "ai_url": provider.url}) as service:
        worker = service.manager.worker(AI_DESCRIPTION)
        running = asyncio.create_task(worker.run())
        async with asyncio.timeout(60):
            while set(await attempts(service)) != {("completed", 1)}:
                pass
        worker.stop()
        await running
        assert await attempts(service) == {("completed", 1): rows}
        assert not (await shown(service))["paused"]
        async with service.database.read() as connection:
            row = (await connection.execute(select(pauses).where(pauses.c.name == "ai"))).mappings().one()
        assert (row["failures"], row["times"]) == (0, 0)


async def test_a_run_by_the_clock_waits_for_the_end_of_a_short_pause(
    opening: Opening, provider: RunningProvider
) -> None:
    """It had ended with the pause, and the next run was ten minutes later."""
    async with opening(**provider.settings()) as service:
        await found(service)
        await Pauses(service.database, "ai", 0.5).failed("trouble", "overloaded", for_all=True)
        async with asyncio.timeout(60):
            await service.manager.run_by_the_clock(AI_DESCRIPTION)
        assert {status for status, _ in await attempts(service)} == {"completed"}


async def test_a_person_ends_a_pause_before_its_time(opening: Opening, provider: RunningProvider) -> None:
    provider.outage("key")
    async with opening(**provider.settings() | {"ai_pause": HOUR}) as service:
        await found(service)
        await service.manager.run_until_idle(AI_DESCRIPTION)
        provider.outage("")
        answer = await reviewing.switch(service.database, "vetting", False, "ann", "a new key")
        assert answer.reached
        assert not (await shown(service))["paused"]
        await service.manager.run_until_idle(AI_DESCRIPTION)
        assert {status for status, _ in await attempts(service)} == {"completed"}


async def test_pauses_grow_and_a_retry_after_is_obeyed(opening: Opening) -> None:
    async with opening() as service:
        tracked = Pauses(service.database, "ai", 5.0)
        lengths = []
        for _ in range(10):
            pause = await tracked.failed("trouble", "overloaded", for_all=True)
            assert pause is not None
            lengths.append(round(pause.seconds))
            again = await tracked.failed("trouble", "one that was under way", for_all=True)
            assert again is not None
            assert again.until == pause.until
            await _over(service)
        assert lengths == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]
        await tracked.worked()
        asked = await tracked.failed("rate", "slow down", for_all=True, seconds=7.5)
        assert asked is not None
        assert asked.seconds == pytest.approx(7.5, abs=0.1)
        await _over(service)
        assert await tracked.failed("rate", "come at once", for_all=True, seconds=0.0) is None


async def _over(service: Service) -> None:
    async with service.database.transaction() as (connection, _):
        await connection.execute(update(pauses).values(until=None))


async def test_single_failures_among_answers_pause_nothing(opening: Opening) -> None:
    async with opening() as service:
        tracked = Pauses(service.database, "ai", 5.0)
        for _ in range(5):
            for _ in range(IN_A_ROW - 1):
                assert await tracked.failed("trouble", "overloaded") is None
            await tracked.worked()
        for _ in range(IN_A_ROW - 1):
            assert await tracked.failed("trouble", "overloaded") is None
        assert await tracked.failed("trouble", "overloaded") is not None


@BOTH
async def test_a_row_that_the_provider_never_answers_is_dead_lettered_and_starves_no_other(
    opening: Opening, scripted: ScriptedProvider, form: Form
) -> None:
    """A 500 for one content is not an outage: others are answered meanwhile."""

    def reply(request: dict[str, Any]) -> Any:
        poison = "Growth Ledger" in request["messages"][-1]["content"]
        return (500, {}, {"error": {"message": "cannot process"}}) if poison else said("A show about pricing.")

    scripted.reply = reply
    told = scripted.settings() | {"form": form, "ai_pause": HOUR, "rest": HOUR}
    async with opening(**told) as service:
        await found(service)
        rows = sum((await attempts(service)).values())
        for _ in range(10):  # in each it is asked for once, and rests
            await service.manager.run_until_idle(AI_DESCRIPTION)
            await _hours_pass(service)
        assert await attempts(service) == {("completed", 1): rows - 1, ("failed", 5): 1}
    poisoned = [one for one in scripted.asked if "Growth Ledger" in one["messages"][-1]["content"]]
    assert len(poisoned) == TOLERATED + 5


async def _hours_pass(service: Service) -> None:
    """In which the provider answers others: rests and pauses are over."""
    is_postgres = service.database.dialect == "postgres"
    now = "clock_timestamp()" if is_postgres else "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    async with service.database.transaction() as (connection, _):
        await connection.execute(text(f"UPDATE ai_calls SET ended_at = {now} WHERE outcome = 'answered'"))
        await connection.execute(update(discoveries).values(ai_description_rests_until=None))
        await connection.execute(update(pauses).values(until=None, failures=0))


async def test_a_provider_that_hangs_is_an_outage_too(opening: Opening, silent: RunningProvider) -> None:
    told = silent.settings() | {"ai_timeout": 0.1, "ai_pause": HOUR, "drain": 1.0}
    async with opening(**told) as service:
        await found(service)
        rows = sum((await attempts(service)).values())
        for _ in range(3):
            await service.manager.run_until_idle(AI_DESCRIPTION)
        assert await attempts(service) == {("pending", 0): rows}
        pause = await shown(service)
        assert pause["paused"]
        assert "has not answered within 0.1 s" in pause["reason"]


@pytest.fixture(scope="module")
def silent() -> Iterator[RunningProvider]:
    with running_provider(slow=1e6) as one:
        yield one


async def test_a_machine_without_a_name_service_dead_letters_no_feed(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same mistake elsewhere: with the cable out, every feed had five failures."""

    def away(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    async with opening(ai_pause=HOUR) as service:
        campaign = await add_campaign(service.database, "Startups", ["startup"], "Founders.")
        for number in range(5):
            await _known_podcast(service, campaign, f"https://podcasts.example.com/{number}.xml")
        monkeypatch.setattr(socket, "getaddrinfo", away)
        for _ in range(7):
            await service.manager.run_until_idle(ENRICHMENT)
        assert await attempts(service, "enrichment") == {("pending", 0): 5}
        pause = await shown(service, "enrichment")
        assert (pause["paused"], pause["changed_by"]) == (True, "the network")


async def _known_podcast(service: Service, campaign: int, url: str) -> None:
    now = "clock_timestamp()" if service.database.dialect == "postgres" else "datetime('now')"
    async with service.database.transaction() as (connection, _):
        await connection.execute(
            text(f"INSERT INTO media (rss_url, name, created_at, updated_at) VALUES (:url, :url, {now}, {now})"),
            {"url": url},
        )
        await connection.execute(
            text(
                "INSERT INTO campaign_media_discoveries (campaign_id, media_id, discovered_at, created_at, updated_at)"
                f" SELECT :campaign, id, {now}, {now}, {now} FROM media WHERE rss_url = :url"
            ),
            {"campaign": campaign, "url": url},
        )


async def test_a_pause_is_seen_on_the_page_in_the_figures_and_by_every_command(
    opening: Opening, provider: RunningProvider, url: str
) -> None:
    provider.outage("quota")
    async with opening(**provider.settings() | {"ai_pause": HOUR}) as service:
        await found(service)
        await service.manager.run_until_idle(AI_DESCRIPTION)
        metrics = Metrics()
        await measure(service, metrics)
        app = outreach_app(service, Loops(), metrics)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            page = (await client.get("/")).text
            figures = (await client.get("/metrics")).text
            told = (await client.get("/api/overview")).json()
        app.state.stop_counting()
    assert "paused" in page
    assert "You exceeded your current quota" in page
    assert "then asked again" in page
    assert 'outreach_paused{stage="vetting"} 1.0' in figures
    assert 'outreach_pause_ends_seconds{stage="enrichment"} 0.0' in figures
    assert 'outreach_pause_ends_seconds{stage="vetting"} 0.0' not in figures
    assert [one["paused"] for one in told["stages"]] == [False, True, True, False]
    for command, code in (("doctor", 6), ("stages", 0)):
        done = await asyncio.to_thread(_outreach, url, command, "-o", "json")
        assert done.returncode == code, done.stderr
        assert "You exceeded your current quota" in done.stdout
        assert KEY not in done.stdout + done.stderr
    rows = json.loads((await asyncio.to_thread(_outreach, url, "calls", "-o", "json")).stdout)
    assert {row["outcome"] for row in rows} == {"failed"}
    assert {row["cost"] for row in rows} == {0.0}


def _outreach(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "OUTREACH_DATABASE": url}
    command = [sys.executable, "-m", "outreach", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


async def two_campaigns_failed(service: Service) -> None:
    """Two campaigns have found the same podcast, which could not be enriched, and one has another."""
    for name in ("One", "Two"):
        campaign = await add_campaign(service.database, name, ["soil"], "About soil.")
        await discover(service.database, service.fetcher, campaign, "shipped:coming-soon.xml")
    await discover(service.database, service.fetcher, campaign, "shipped:broken-mast.xml")
    for _ in range(6):
        await service.manager.run_until_idle(ENRICHMENT)


@BOTH
async def test_retry_tries_the_whole_line_of_a_podcast_again(opening: Opening, form: Form) -> None:
    """One discovery was tried again, and its podcast's other ones stayed failed."""
    async with opening(form=form) as service:
        await two_campaigns_failed(service)
        assert await attempts(service, "enrichment") == {("failed", 5): 2, ("failed", 0): 1}
        answers = await reviewing.try_again(service.database, service.claiming, "enrichment", [1])
        assert [answer.key for answer in answers if answer.won] == [1, 2]
        assert await attempts(service, "enrichment") == {("pending", 0): 2, ("failed", 5): 1}


@BOTH
async def test_everything_that_a_stage_has_dead_lettered_can_be_tried_again_at_once(
    opening: Opening, form: Form
) -> None:
    async with opening(form=form) as service:
        await two_campaigns_failed(service)
        answers = await reviewing.try_again(service.database, service.claiming, "enrichment", None)
        assert len(answers) == 3
        assert await attempts(service, "enrichment") == {("pending", 0): 3}
        async with service.database.read() as connection:
            resting = select(discoveries.c.enrichment_rests_until)
            assert set((await connection.execute(resting)).scalars()) == {None}


async def test_the_command_retries_all_or_some_and_never_neither(opening: Opening, url: str) -> None:
    async with opening() as service:
        await two_campaigns_failed(service)
    done = await asyncio.to_thread(_outreach, url, "retry", "enrichment", "--all")
    assert (done.returncode, done.stdout.strip()) == (0, "3 are tried again")
    for arguments in (("retry", "enrichment"), ("retry", "enrichment", "1", "--all")):
        assert (await asyncio.to_thread(_outreach, url, *arguments)).returncode == 2


async def test_the_budget_pauses_both_stages_until_there_is_more(opening: Opening, provider: RunningProvider) -> None:
    async with opening(**provider.settings() | {"ai_budget": 0.0, "ai_pause": 0.001}) as service:
        await found(service)
        for _ in range(3):
            await service.manager.run_until_idle(AI_DESCRIPTION)
        assert set(await attempts(service)) == {("pending", 0)}
        told = await reading.overview(service.database)
        assert (told["spent"], told["calls"]) == (0.0, 0)
        async with service.database.read() as connection:
            row = (await connection.execute(select(pauses).where(pauses.c.name == "ai"))).mappings().one()
        assert row["reason"] == "the budget of 0 USD is spent"
    await asyncio.sleep(0)
    async with opening(**provider.settings()) as service:
        await _over(service)
        await run_all(service, 2)
        assert set(await attempts(service)) == {("completed", 1)}


def test_stages_that_ask_are_paused_together() -> None:
    assert [stage.asks for stage in STAGES.values()] == ["feeds", "ai", "ai", ""]
    assert VETTING.asks == AI_DESCRIPTION.asks
