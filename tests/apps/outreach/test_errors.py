"""Storing an error never makes a claim, a failure or a result fail: B2, B7, and the fence in every write of a result: L7."""

import asyncio
import json
from typing import Any

import pytest
from sqlalchemy import select, text, update

from outreach import campaign_media_discoveries as the_note
from outreach.calls import Subject
from outreach.discovery import add_campaign, discover
from outreach.forms import Form
from outreach.outcomes import dead_letter, finish, put_back, storable
from outreach.service import Service
from outreach.stages import AI_DESCRIPTION, MATCHING, STAGES, VETTING, Stage
from outreach.storm_clock import minutes_pass
from outreach.tables import discoveries, error_texts, match_suggestions, media, review_tasks
from raceproof import DeadLettered, Lost, Released

from .conftest import Opening, run_all
from .test_locks import enriched, error_of, kept, write_error

BOTH = pytest.mark.parametrize("form", list(Form), ids=str)
HUGE = "".join(f"{number:x}ü{number * 7919 % 104729:x} " for number in range(20_000))
"""200 kB that do not compress to nothing, as the trace of an older tool."""


@BOTH
async def test_a_huge_error_text_stops_neither_claims_nor_results(opening: Opening, form: Form) -> None:
    """6 kB in one row of twenty kept all twenty from being claimed: the text was part of a key."""
    async with opening(form=form) as service:
        await enriched(service, 20)
        await write_error(service, 7, HUGE)
        works = await the_note.acquire_ai_description_work_batch()
        assert [work.key for work in works] == list(range(1, 21))
        [work] = [one for one in works if one.key == 7]
        answer = await finish(service.database, service.claiming, AI_DESCRIPTION, work, _nothing)
        assert answer.won
        assert await error_of(service, 7) is None
        assert await kept(service, 7) == [HUGE]


@BOTH
async def test_huge_errors_of_our_own_are_failures_like_others(opening: Opening, form: Form) -> None:
    async with opening(form=form) as service:
        await enriched(service, 1)
        for attempt in range(1, 6):
            [work] = await the_note.acquire_ai_description_work_batch()
            answer = await the_note.release_ai_description_lock(work, f"{attempt} {HUGE}")
        assert isinstance(answer, DeadLettered)
        assert (await error_of(service, 1) or "").startswith("5 ")
        assert len(await kept(service, 1)) == 4


@BOTH
async def test_an_error_of_any_characters_is_stored(opening: Opening, form: Form) -> None:
    """NUL and halves of characters are texts that no database takes."""
    async with opening(form=form) as service:
        await enriched(service, 1)
        [work] = await the_note.acquire_ai_description_work_batch()
        answer = await the_note.release_ai_description_lock(work, "odd \0 and \ud800 here")
        assert isinstance(answer, Released)
        assert await error_of(service, 1) == "odd   and ? here"


def test_an_error_is_cut_and_cleaned_before_it_is_stored() -> None:
    assert storable("a\0b\udfff" + "x" * 5000) == "a b?" + "x" * 1996


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_text_that_cannot_be_kept_is_a_warning_and_no_failure(opening: Opening) -> None:
    """Whatever is wrong with the table of old texts, work goes on."""
    async with opening(form="marker") as service:
        await enriched(service, 1)
        await write_error(service, 1, "HTTPError: 502")
        async with service.database.transaction() as (connection, _):
            await connection.execute(text("ALTER TABLE error_texts ADD CHECK (FALSE) NOT VALID"))
        [work] = await the_note.acquire_ai_description_work_batch()
        answer = await finish(service.database, service.claiming, AI_DESCRIPTION, work, _nothing)
        assert answer.won


async def test_the_same_text_is_kept_once_for_a_row(opening: Opening) -> None:
    async with opening() as service:
        await enriched(service, 1)
        for error in ("first", "second", "first", "second", "third"):
            await write_error(service, 1, error)
        assert await kept(service, 1) == ["first", "second"]


async def test_old_texts_move_along_when_a_database_is_migrated(opening: Opening, url: str) -> None:
    """Their table had a key with the text in it."""
    async with opening() as service:
        await enriched(service, 1)
        await write_error(service, 1, "before")
        await write_error(service, 1, None)
        async with service.database.read() as connection:
            names = (await connection.execute(text("SELECT name FROM applied_migrations"))).scalars().all()
            assert "004_beside" in names
            found = await connection.execute(select(error_texts.c.text))
            assert found.scalars().all() == ["before"]


async def _nothing(*_: Any) -> None:
    return None


class Shows:
    """Says the same about every podcast, at a moment that a test chooses."""

    name = "test"

    def __init__(self, when: asyncio.Event | None = None) -> None:
        self.begun = asyncio.Event()
        self._when = when

    async def _asked(self) -> None:
        self.begun.set()
        if self._when is not None:
            await self._when.wait()

    async def describe(self, podcast: Any, subject: Subject) -> str:
        await self._asked()
        return "A late description."

    async def score(self, podcast: Any, description: str, wanted: Any, subject: Subject) -> list[dict[str, Any]]:
        await self._asked()
        return [
            {"criterion": name, "weight": 0.5, "score": 90.0, "why": "late \0 words"} for name in ("topic", "ideal")
        ]


async def one_row(service: Service, stage: Stage) -> None:
    """A discovery that waits for this stage."""
    campaign = await add_campaign(service.database, "Soil", ["soil"], "About soil.")
    await discover(service.database, service.fetcher, campaign, "shipped:deep-soil.xml")
    for before in STAGES.values():
        if before is stage:
            return
        await service.manager.run_until_idle(before)


async def written(service: Service) -> dict[str, Any]:
    """Everything that a result may write."""
    async with service.database.read() as connection:
        return {
            table.name: [dict(row) for row in (await connection.execute(select(table))).mappings()]
            for table in (media, discoveries, match_suggestions, review_tasks)
        }


@BOTH
@pytest.mark.parametrize("stage", list(STAGES.values()), ids=lambda stage: str(stage.name))
async def test_a_late_worker_writes_nothing_in_any_stage(opening: Opening, form: Form, stage: Stage) -> None:
    """Its row was taken over while it worked: its result is refused, with everything that belongs to it."""
    async with opening(form=form) as service:
        await one_row(service, stage)
        working: Any = service.manager._working
        working._ai = Shows()
        handle = service.manager._handle
        [late] = await service.database.store.claim(
            service.claiming.of(stage), by="late", returning=["campaign_id", "media_id"]
        )
        await minutes_pass(service.database, 61, form)
        [other] = await service.database.store.claim(
            service.claiming.of(stage), by="other", returning=["campaign_id", "media_id"]
        )
        before = await written(service)
        result = await handle(stage, late)
        if isinstance(result, dict):  # the worker finishes such a row by the fence of its claim
            answer = await service.database.store.move(stage.finish, late, set=result)
            assert isinstance(answer, Lost)
        assert await written(service) == before
        # who has the row by now is not disturbed
        assert (await service.database.store.renew(other))[0].won


@BOTH
@pytest.mark.parametrize("stage", list(STAGES.values()), ids=lambda stage: str(stage.name))
async def test_a_late_failure_is_refused_too(opening: Opening, form: Form, stage: Stage) -> None:
    async with opening(form=form) as service:
        await one_row(service, stage)
        claim = service.claiming.of(stage)
        [late] = await service.database.store.claim(claim, by="late", returning=["campaign_id", "media_id"])
        await minutes_pass(service.database, 61, form)
        [other] = await service.database.store.claim(claim, by="other", returning=["campaign_id", "media_id"])
        before = await written(service)
        told = (service.database, service.claiming, stage, late)
        assert isinstance(await put_back(*told, "too late"), Lost)
        assert isinstance(await put_back(*told, "too late", counted=False, delay=9.0), Lost)
        assert isinstance(await put_back(*told), Lost)
        assert isinstance(await dead_letter(*told, "too late"), Lost)
        assert await written(service) == before
        assert (await service.database.store.renew(other))[0].won


@BOTH
@pytest.mark.parametrize(("seconds", "is_taken"), [(-60, False), (60, True)], ids=["before", "after"])
async def test_a_claim_itself_decides_what_is_stale(opening: Opening, form: Form, seconds: int, is_taken: bool) -> None:
    """By real claims of both forms, a minute before the stale time and a minute after."""
    stale = 7200
    async with opening(form=form, stale=stale, lease=stale) as service:
        await enriched(service, 1)
        [held] = await the_note.acquire_ai_description_work_batch()
        await minutes_pass(service.database, (stale + seconds) // 60, form)
        for other in Form if form is Form.COLUMNS else (Form.MARKER,):
            claiming = type(service.claiming)(other, service.database.dialect, stale, stale)
            found = await service.database.store.claim(claiming.of(AI_DESCRIPTION))
            if other is form:
                assert [one.key for one in found] == ([held.key] if is_taken else [])
            await service.database.store.release(found)


async def test_words_of_a_model_that_no_database_takes_do_not_cost_the_result(opening: Opening) -> None:
    """It was paid for: NUL in the reasons of a score failed the write, and it was bought again."""
    async with opening() as service:
        await one_row(service, VETTING)
        working: Any = service.manager._working
        working._ai = Shows()
        await service.manager.run_until_idle(VETTING)
        row = await service.database.store.read(VETTING.lifecycle, 1) or {}
        assert row["vetting_status"] == "completed"
        assert json.loads(row["vetting_criteria_met"])[0]["why"] == "late words"


async def test_a_row_that_other_code_vetted_without_a_score_is_no_match(opening: Opening) -> None:
    async with opening() as service:
        await one_row(service, VETTING)
        async with service.database.transaction() as (connection, _):
            await connection.execute(update(discoveries).values(vetting_status="completed"))
        await run_all(service, 1)
        row = await service.database.store.read(MATCHING.lifecycle, 1) or {}
        assert (row["matching_status"], bool(row["match_created"])) == ("completed", False)
