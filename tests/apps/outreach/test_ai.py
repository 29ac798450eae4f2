"""The AI behind the stages; the provider is a server of its own that is slow, fails, answers twice and charges: B4, B6."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from outreach import reading
from outreach.discovery import add_campaign, discover
from outreach.service import Service
from outreach.settings import Settings
from outreach.stages import AI_DESCRIPTION, ENRICHMENT
from outreach.tables import ai_budget, ai_calls, discoveries
from raceproof import Worker

from .conftest import KEY, Opening, RunningProvider, run_all, running_provider


@pytest.fixture(scope="module")
def flaky() -> Iterator[RunningProvider]:
    """Fails often, and often answers twice."""
    with running_provider(fail=0.2, twice=0.5) as one:
        yield one


@pytest.fixture(scope="module")
def good() -> Iterator[RunningProvider]:
    """Answers every call."""
    with running_provider() as one:
        yield one


@pytest.fixture(scope="module")
def silent() -> Iterator[RunningProvider]:
    """Takes every call and answers none."""
    with running_provider(slow=1e6) as one:
        yield one


@pytest.fixture
def url(tmp_path: Path) -> str:
    """What is asked here does not depend on the kind of database."""
    return f"sqlite:///{tmp_path / 'outreach.db'}"


async def found(service: Service, source: str = "shipped:search-startups.json") -> None:
    campaign = await add_campaign(service.database, "Startups", ["startup", "pricing"], "Founders on pricing.")
    await discover(service.database, service.fetcher, campaign, source)


async def budget(service: Service) -> dict[str, Any]:
    async with service.database.read() as connection:
        return dict((await connection.execute(select(ai_budget))).mappings().one())


async def test_a_provider_that_fails_and_answers_twice_is_asked_until_it_is_done(
    opening: Opening, flaky: RunningProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with opening(**flaky.settings()) as service:
        await found(service)
        async with asyncio.timeout(120):
            await run_all(service, 1)
            while await open_rows(service):
                await run_all(service, 1)
        told = await reading.overview(service.database)
        ledger = flaky.ledger()
        spent = await budget(service)
        async with service.database.read() as connection:
            rows = (await connection.execute(select(ai_calls))).mappings().all()
    ended = {one["stage"]: one["counts"] for one in told["stages"]}
    assert set(ended["vetting"]) == {"completed"}
    assert ledger["overlaps"] == 0
    assert ledger["charged"] == ledger["answered"] == ledger["products"]
    assert spent["calls"] == ledger["calls"] == len(rows)
    assert spent["spent"] == sum(row["cost"] for row in rows)
    assert KEY not in caplog.text


async def open_rows(service: Service) -> int:
    """How many are enriched, and not vetted."""
    async with service.database.read() as connection:
        waiting = discoveries.c.vetting_status.in_(("pending", "in_progress"))
        asked = select(func.count()).where(waiting, discoveries.c.enrichment_status == "completed")
        return int((await connection.execute(asked)).scalar_one())


async def test_without_money_the_stage_is_paused_and_no_attempt_is_lost(
    opening: Opening, good: RunningProvider
) -> None:
    async with opening(**good.settings(), ai_budget=0.0008) as service:
        await found(service)
        await run_all(service, 1)
        told = await reading.overview(service.database)
        description = next(one for one in told["stages"] if one["stage"] == "ai_description")
        assert description["paused"]
        assert (description["changed_by"], description["until"] is None) == ("the budget", False)
        assert "budget" in description["reason"]
        assert description["counts"]["pending"] > 0
        assert description["counts"].get("failed", 0) == description["counts"].get("in_progress", 0) == 0
        assert 0 < (await budget(service))["spent"] <= 800
        async with service.database.read() as connection:
            waiting = select(discoveries.c.ai_description_attempts).where(
                discoveries.c.ai_description_status == "pending"
            )
            assert set((await connection.execute(waiting)).scalars()) == {0}


@pytest.mark.parametrize("form", ["marker", "columns"])
async def test_work_that_takes_too_long_costs_an_attempt_and_never_the_row(opening: Opening, form: str) -> None:
    async def for_ever(*_: Any) -> Any:
        await asyncio.Event().wait()

    async with opening(item_timeout=0.2, rest=3600.0, form=form) as service:
        await found(service, "shipped:deep-soil.xml")
        await service.manager.run_until_idle(ENRICHMENT)
        working: Any = service.manager._working
        working.ai_description = for_ever
        await service.manager.run_until_idle(AI_DESCRIPTION)
        row = await service.database.store.read(AI_DESCRIPTION.lifecycle, 1) or {}
    assert (row["ai_description_status"], row["ai_description_attempts"]) == ("pending", 1)
    assert "not done within 0.2 s" in row["enrichment_error"]


async def test_a_batch_has_its_cap_and_is_given_back(opening: Opening, silent: RunningProvider) -> None:
    """The note's 45 minutes, here two seconds, in which it has begun for sure."""
    async with opening(**silent.settings(), batch_timeout=2.0, rest=3600.0, form="marker") as service:
        await found(service, "shipped:deep-soil.xml")
        await service.manager.run_until_idle(ENRICHMENT)
        await service.manager.run_until_idle(AI_DESCRIPTION)
        row = await service.database.store.read(AI_DESCRIPTION.lifecycle, 1) or {}
    assert (row["ai_description_status"], row["ai_description_attempts"]) == ("pending", 1)
    assert row["enrichment_error"] is None


@pytest.mark.parametrize("form", ["marker", "columns"])
async def test_a_worker_that_is_cancelled_gives_its_rows_back(
    opening: Opening, silent: RunningProvider, form: str
) -> None:
    async with opening(**silent.settings(), form=form) as service:
        await found(service)
        await service.manager.run_until_idle(ENRICHMENT)
        worker = service.manager.worker(AI_DESCRIPTION)
        before = silent.ledger()["calls"]
        at_work = asyncio.create_task(worker.run())
        async with asyncio.timeout(30):
            await _called(silent, before + 3)
        at_work.cancel()
        await asyncio.wait([at_work])
        async with service.database.read() as connection:
            statuses = set((await connection.execute(select(discoveries.c.ai_description_status))).scalars())
            texts = set((await connection.execute(select(discoveries.c.enrichment_error))).scalars())
        assert (statuses, texts) == ({"pending"}, {None})
        assert silent.ledger()["calls"] == before + 3  # at most three at once


async def _called(running: RunningProvider, calls: int) -> None:
    while (await asyncio.to_thread(running.ledger))["calls"] < calls:
        pass


async def test_one_worker_of_a_kind_works_at_a_time_over_all_processes(
    opening: Opening, silent: RunningProvider
) -> None:
    """Semaphores around create_task guarded nothing; this limit holds for the work itself."""
    async with opening(**silent.settings(), instance="one") as first:
        await found(first)
        await first.manager.run_until_idle(ENRICHMENT)
        async with opening(**silent.settings(), instance="two", poll=0.01) as second:
            workers: list[Worker] = [service.manager.worker(AI_DESCRIPTION) for service in (first, second)]
            before = silent.ledger()["calls"]
            tasks = [asyncio.create_task(worker.run()) for worker in workers]
            async with asyncio.timeout(30):
                await _called(silent, before + 3)
                held = await first.database.store.claims(first.claiming.of(AI_DESCRIPTION))
                for _ in range(20):  # the other one asks for a slot again and again meanwhile
                    held += await first.database.store.claims(first.claiming.of(AI_DESCRIPTION))
            assert len({one.holder for one in held}) == 1
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def test_an_address_without_a_key_or_without_tls_is_refused() -> None:
    for told in (
        {"ai_url": "https://api.example.com/v1"},
        {"ai_url": "http://api.example.com/v1", "ai_key": "a key of some length"},
        {"ai_url": "https://me:secret@api.example.com/v1", "ai_key": "a key of some length"},
        {"host": "0.0.0.0"},
        {"form": "marker", "stale": 600},
        {"limits": {"cooking": 1}},
        {"ai_url": "https://api.example.com/v1", "ai_key": "a key of some length", "drain": 30},
        {"ai_url": "https://api.example.com/v1", "ai_key": "a key of some length", "item_timeout": 60},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            Settings(**told)
