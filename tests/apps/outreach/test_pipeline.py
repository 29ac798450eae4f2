"""The whole pipeline on the feeds that ship with it: B1, B6, B7."""

from typing import Any

import pytest
from sqlalchemy import func, select

from outreach import reading, reviewing
from outreach.discovery import add_campaign, discover
from outreach.service import Service
from outreach.stages import AI_DESCRIPTION, ENRICHMENT, STAGES
from outreach.tables import discoveries, episodes, match_suggestions, media, review_tasks
from raceproof import Already, Moved, Refused

from .conftest import Opening, run_all

STARTUPS = (
    "Startups",
    ["startup", "marketing", "pricing", "software"],
    "Founders of software startups on marketing and pricing.",
)
SOIL = (
    "Soil",
    ["soil", "farming", "climate"],
    "Conversations about agriculture, soil and farming with guests.",
)


async def two_campaigns(service: Service) -> None:
    first = await add_campaign(service.database, *STARTUPS)
    second = await add_campaign(service.database, *SOIL)
    await discover(service.database, service.fetcher, first, "shipped:subscriptions.opml", "startup")
    await discover(service.database, service.fetcher, second, "shipped:subscriptions.opml")
    await discover(service.database, service.fetcher, second, "shipped:search-startups.json")


async def results(service: Service) -> list[dict[str, Any]]:
    """Everything that the pipeline has found out, without what differs from run to run."""
    rows, _ = await reading.page_of_discoveries(service.database, limit=200)
    names = (
        "campaign",
        "name",
        "vetting_score",
        "vetting_reasoning",
        "criteria",
        "stages",
        "error",
        "match_created",
    )
    told = [{name: row[name] for name in names} for row in rows]
    for row, one in zip(rows, told, strict=True):
        found = await reading.one_discovery(service.database, row["id"])
        assert found is not None
        one["description"] = found["podcast"]["ai_description"]
        one["errors"] = [error["text"] for error in found["errors"]]
        one["attempts"] = {name: row[f"{name}_attempts"] for name in STAGES}
    return told


async def test_both_forms_give_the_same_results(
    opening: Opening, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    async with opening(form="marker") as service:
        await two_campaigns(service)
        await run_all(service)
        by_marker = await results(service)
    server = request.getfixturevalue("postgres_server") if service.database.dialect == "postgres" else None
    other = server.database() if server else f"sqlite:///{tmp_path / 'other.db'}"
    async with opening(form="columns", database=other) as service:
        await two_campaigns(service)
        await run_all(service)
        by_columns = await results(service)
    assert by_marker == by_columns
    matches = {(one["campaign"], one["name"]) for one in by_columns if one["match_created"]}
    assert {("Startups", "The Growth Ledger"), ("Soil", "Deep Soil")} <= matches
    assert ("Soil", "The Growth Ledger") not in matches
    ends = {one["name"]: one["stages"]["enrichment"] for one in by_columns}
    assert ends["Coming Soon"] == ends["Broken Mast"] == "failed"
    assert "no episodes" in next(one["error"] for one in by_columns if one["name"] == "Coming Soon")


async def open_rows(service: Service) -> int:
    """How many are not through their enrichment."""
    waiting = discoveries.c.enrichment_status.in_(("pending", "in_progress"))
    async with service.database.read() as connection:
        found: int = (await connection.execute(select(func.count()).where(waiting))).scalar_one()
    return found


async def test_a_podcast_in_two_campaigns_is_worked_on_once(opening: Opening) -> None:
    async with opening() as service:
        await two_campaigns(service)
        enriched = 0
        while await open_rows(service):  # one that rests after a failure is no work for a moment
            enriched += (await service.manager.run_until_idle(ENRICHMENT)).finished
        described = await service.manager.run_until_idle(AI_DESCRIPTION)
        async with service.database.read() as connection:
            podcasts = (await connection.execute(select(func.count()).select_from(media))).scalar_one()
            rows = (await connection.execute(select(func.count()).select_from(discoveries))).scalar_one()
            done = select(func.count()).where(discoveries.c.ai_description_status == "completed")
            completed = (await connection.execute(done)).scalar_one()
        # two feeds are none: each of them has five attempts for the first campaign, and none for the second
        assert enriched == podcasts - 2 + 2 * 5
        assert described.finished == podcasts - 2
        assert completed == rows - 2 * 2


async def test_discovering_again_adds_nothing(opening: Opening) -> None:
    async with opening() as service:
        campaign = await add_campaign(service.database, *STARTUPS)
        first = await discover(service.database, service.fetcher, campaign, "shipped:search-startups.json")
        second = await discover(service.database, service.fetcher, campaign, "shipped:search-startups.json")
        assert (first.new, first.known, second.new, second.known) == (9, 0, 0, 9)


async def test_a_match_exists_once_and_one_person_decides(opening: Opening) -> None:
    async with opening() as service:
        campaign = await add_campaign(service.database, *STARTUPS)
        await discover(service.database, service.fetcher, campaign, "shipped:growth-ledger.xml")
        await run_all(service, 1)
        async with service.database.read() as connection:
            assert len((await connection.execute(select(match_suggestions))).all()) == 1
            [task] = (await connection.execute(select(review_tasks.c.id))).scalars().all()
        assert isinstance(await reviewing.decide(service.database, task, True, "ann", "fits"), Moved)
        assert isinstance(await reviewing.decide(service.database, task, True, "bob", "fits too"), Already)
        assert isinstance(await reviewing.decide(service.database, task, False, "bob", "does not"), Refused)
        found = await reading.one_discovery(service.database, 1)
        assert found is not None
        assert (found["review_status"], found["review"]["decided_by"]) == ("approved", "ann")


async def test_what_was_dead_lettered_can_be_tried_again_and_keeps_its_errors(opening: Opening) -> None:
    async with opening() as service:
        campaign = await add_campaign(service.database, *STARTUPS)
        await discover(service.database, service.fetcher, campaign, "shipped:coming-soon.xml")
        await run_all(service, 5)
        assert (await service.database.store.read(ENRICHMENT.lifecycle, 1) or {})["enrichment_status"] == "failed"
        [answer] = await reviewing.try_again(service.database, service.claiming, "enrichment", [1])
        assert answer.won
        await run_all(service, 1)
        row = await service.database.store.read(ENRICHMENT.lifecycle, 1) or {}
        assert (row["enrichment_status"], row["enrichment_attempts"]) == ("failed", 5)
        assert "no episodes" in row["enrichment_error"]


async def test_failing_rows_never_starve_the_rest(opening: Opening) -> None:
    """The oldest twenty rows of the note failed for ever, and nothing behind them was ever tried."""
    async with opening(rest=3600.0, batch=2) as service:
        campaign = await add_campaign(service.database, *STARTUPS)
        for source in ("shipped:broken-mast.xml", "shipped:coming-soon.xml", "shipped:growth-ledger.xml"):
            await discover(service.database, service.fetcher, campaign, source)
        await service.manager.run_until_idle(ENRICHMENT)
        rows, _ = await reading.page_of_discoveries(service.database)
        assert [row["enrichment_status"] for row in rows] == ["pending", "pending", "completed"]
        assert [row["enrichment_attempts"] for row in rows] == [1, 1, 1]


async def test_a_paused_stage_gives_out_nothing(opening: Opening) -> None:
    async with opening() as service:
        campaign = await add_campaign(service.database, *STARTUPS)
        await discover(service.database, service.fetcher, campaign, "shipped:growth-ledger.xml")
        assert (await reviewing.switch(service.database, "enrichment", True, "ann", "the host asked us")).won
        assert (await service.manager.run_until_idle(ENRICHMENT)).finished == 0
        assert (await reviewing.switch(service.database, "enrichment", False, "ann", "agreed")).won
        assert (await service.manager.run_until_idle(ENRICHMENT)).finished == 1


async def test_episodes_of_a_feed_are_kept_once(opening: Opening) -> None:
    async with opening() as service:
        campaign = await add_campaign(service.database, *STARTUPS)
        await discover(service.database, service.fetcher, campaign, "shipped:growth-ledger.xml")
        await run_all(service, 1)
        async with service.database.read() as connection:
            assert (await connection.execute(select(func.count()).select_from(episodes))).scalar_one() == 6
