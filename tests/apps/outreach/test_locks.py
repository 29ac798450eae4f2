"""The note's four functions and its locks, in both forms: B2, B4, and the faults of note 002."""

import asyncio
import re
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from outreach import campaign_media_discoveries as the_note
from outreach.discovery import add_campaign, discover
from outreach.forms import Claiming, Form
from outreach.lifecycle import ATTEMPTS
from outreach.monitoring import active_processing, marked_at, stuck_locks
from outreach.opening import Purpose, opened
from outreach.outcomes import finish, put_back
from outreach.service import Service
from outreach.settings import Settings
from outreach.stages import AI_DESCRIPTION, ENRICHMENT, VETTING, Stage
from outreach.storm_clock import minutes_pass
from outreach.storm_rows import fill
from outreach.tables import discoveries, error_texts
from raceproof import DeadLettered, Lost, Released, sql

from .conftest import Opening

BOTH = pytest.mark.parametrize("form", list(Form), ids=str)
MARKER = re.compile(r"PROCESSING:AI_DESC:[0-9a-f]{32}:\d+\.\d+")


async def enriched(service: Service, podcasts: int = 3) -> None:
    """So many discoveries that wait for a description, with no text left in any column."""
    await fill(service, podcasts, 1)
    store = service.database.store
    await store.move_many(ENRICHMENT.move("share"), where=sql("TRUE"), set={"enrichment_error": None})
    async with service.database.transaction() as (connection, _):
        await connection.execute(error_texts.delete())


async def error_of(service: Service, key: int) -> str | None:
    async with service.database.read() as connection:
        found = select(discoveries.c.enrichment_error).where(discoveries.c.id == key)
        text: str | None = (await connection.execute(found)).scalar_one()
        return text


async def write_error(service: Service, key: int, text: str | None) -> None:
    async with service.database.transaction() as (connection, _):
        await connection.execute(update(discoveries).where(discoveries.c.id == key).values(enrichment_error=text))


async def kept(service: Service, key: int) -> list[str]:
    async with service.database.read() as connection:
        found = select(error_texts.c.text).where(error_texts.c.discovery_id == key)
        return list((await connection.execute(found)).scalars())


@BOTH
async def test_a_batch_has_twenty_rows_and_nobody_gets_one_twice(opening: Opening, form: Form) -> None:
    """Those that come at once divide the rows as luck will have it: each takes up to 20 of what nobody else is taking."""
    async with opening(form=form) as service:
        await enriched(service, 50)
        batches = await asyncio.gather(*(the_note.acquire_ai_description_work_batch() for _ in range(4)))
        assert max(map(len, batches)) == 20
        keys = [work.key for batch in batches for work in batch]
        assert len(set(keys)) == len(keys) == 50
        told = [await the_note.release_ai_description_lock(work) for batch in batches for work in batch]
        assert all(isinstance(one, Released) for one in told)
        in_turn = [await the_note.acquire_ai_description_work_batch() for _ in range(4)]
        assert [len(batch) for batch in in_turn] == [20, 20, 10, 0]
        assert {work.key for batch in in_turn for work in batch} == set(keys)


async def test_looking_first_and_locking_then_gives_a_row_to_two(opening: Opening) -> None:
    """The naive control: what the note replaced."""
    async with opening(form="marker") as service:
        await enriched(service, 3)
        both_have_looked = asyncio.Barrier(2)

        async def acquire() -> int:
            async with service.database.read() as connection:
                free = select(discoveries.c.id).where(discoveries.c.enrichment_error.is_(None)).limit(1)
                key = int((await connection.execute(free)).scalar_one())
            await both_have_looked.wait()
            await write_error(service, key, f"PROCESSING:AI_DESC:{uuid.uuid4()}:now")
            return key

        first, second = await asyncio.gather(acquire(), acquire())
        assert first == second


async def test_a_marker_is_written_as_the_note_says(opening: Opening) -> None:
    async with opening(form="marker") as service:
        await enriched(service)
        [work] = await the_note.acquire_ai_description_work_batch(limit=1)
        assert MARKER.fullmatch(work.fence)
        assert await error_of(service, work.key) == work.fence
        [lock] = await active_processing(service.database, service.claiming)
        assert (lock.discovery, lock.lock) == (work.key, work.fence)


@BOTH
async def test_only_the_holder_can_release(opening: Opening, form: Form) -> None:
    """The note's release was tied to nobody: a slow worker freed the lock of the next one."""
    async with opening(form=form, stale=0.001, lease=0.001, item_timeout=0.0001, batch=1) as service:
        await enriched(service)
        [slow] = await the_note.acquire_ai_description_work_batch(limit=1)
        [quick] = await _acquire_same(slow.key)
        assert isinstance(await the_note.release_ai_description_lock(slow, "too late"), Lost)
        assert await kept(service, slow.key) == []
        answer = await finish(service.database, service.claiming, AI_DESCRIPTION, slow, _nothing)
        assert isinstance(answer, Lost)
        assert isinstance(await the_note.release_ai_description_lock(quick, "HTTPError: 502"), Released)
        assert await error_of(service, quick.key) == "HTTPError: 502"


async def _acquire_same(key: int) -> list[the_note.Work]:
    while True:
        found = await the_note.acquire_ai_description_work_batch(limit=1)
        if [one.key for one in found] == [key]:
            return found


async def _nothing(*_: Any) -> None:
    return None


@BOTH
async def test_an_error_is_kept_through_every_claim(opening: Opening, form: Form) -> None:
    async with opening(form=form) as service:
        await enriched(service, 1)
        await write_error(service, 1, "HTTPError: 502 from the host")
        [work] = await the_note.acquire_ai_description_work_batch()
        assert isinstance(await the_note.release_ai_description_lock(work), Released)
        assert await error_of(service, 1) == "HTTPError: 502 from the host"
        for attempt in range(1, 6):
            [work] = await the_note.acquire_ai_description_work_batch()
            assert work.attempt == attempt
            answer = await the_note.release_ai_description_lock(work, f"the model said no, time {attempt}")
        assert isinstance(answer, DeadLettered)
        assert await error_of(service, 1) == "the model said no, time 5"
        assert set(await kept(service, 1)) == {
            "HTTPError: 502 from the host",
            *(f"the model said no, time {attempt}" for attempt in range(1, 5)),
        }
        assert await the_note.acquire_ai_description_work_batch() == []


MALFORMED = [
    "PROCESSING:AI_DESC:",
    "PROCESSING:AI_DESC:nonsense",
    "PROCESSING:AI_DESC::",
    f"PROCESSING:AI_DESC:{uuid.uuid4()}:yesterday",
    f"PROCESSING:AI_DESC:{uuid.uuid4()}:9999-99-99T99:99",
    f"PROCESSING:AI_DESC:{uuid.uuid4()}:9999-12-31T23:59:59",
    "PROCESSING:AI_DESC:a:b:c:d",
    "PROCESSING:AI_DESC:%s:%d",
]


@BOTH
async def test_malformed_markers_hold_nothing_and_stop_nothing(opening: Opening, form: Form) -> None:
    """One malformed lock stopped the note's cleanup for all rows."""
    async with opening(form=form) as service:
        await enriched(service, len(MALFORMED) + 1)
        for key, text in enumerate(MALFORMED, 1):
            await write_error(service, key, text)
        stuck = await stuck_locks(service.database, service.claiming)
        assert [one.discovery for one in stuck] == list(range(1, len(MALFORMED) + 1))
        assert {one.why for one in stuck} == {"malformed: it holds nothing"}
        assert await the_note.cleanup_stale_ai_description_locks() == len(MALFORMED)
        assert await stuck_locks(service.database, service.claiming) == []
        for key, text in enumerate(MALFORMED, 1):
            assert await kept(service, key) == [text]
        assert len(await the_note.acquire_ai_description_work_batch()) == len(MALFORMED) + 1


@BOTH
async def test_a_marker_of_an_older_version_holds_its_row_until_it_is_stale(opening: Opening, form: Form) -> None:
    now = datetime.now(UTC).replace(tzinfo=None)
    async with opening(form=form) as service:
        await enriched(service, 3)
        await write_error(service, 1, f"PROCESSING:AI_DESC:{uuid.uuid4()}:{now.isoformat()}")
        await write_error(service, 2, f"PROCESSING:AI_DESC:{uuid.uuid4()}:{now - timedelta(minutes=61)}")
        assert [one.discovery for one in await active_processing(service.database, service.claiming)] == [1]
        assert [work.key for work in await the_note.acquire_ai_description_work_batch()] == [2, 3]
        assert await the_note.acquire_ai_description_work_batch() == []


@BOTH
async def test_the_rows_of_a_dead_worker_are_taken_over_or_cleaned_up(opening: Opening, form: Form) -> None:
    async with opening(form=form) as service:
        await enriched(service, 2)
        await write_error(service, 1, "ReadTimeout: before")
        dead = await the_note.acquire_ai_description_work_batch()
        assert await the_note.acquire_ai_description_work_batch() == []
        await minutes_pass(service.database, 61, form)
        assert len(await stuck_locks(service.database, service.claiming)) == 2
        assert await the_note.cleanup_stale_ai_description_locks(stale_minutes=60) == 2
        assert await error_of(service, 1) == "ReadTimeout: before"
        assert await error_of(service, 2) is None
        alive = await the_note.acquire_ai_description_work_batch()
        assert [work.attempt for work in alive] == [2, 2]  # what has died in the middle counts
        for work in dead:
            assert isinstance(await the_note.release_ai_description_lock(work), Lost)


async def test_rows_whose_workers_died_five_times_are_dead_lettered_and_say_so(opening: Opening) -> None:
    async with opening(form="marker") as service:
        await enriched(service, 1)
        for _ in range(5):
            assert len(await the_note.acquire_ai_description_work_batch()) == 1
            await minutes_pass(service.database, 61, Form.MARKER)
        assert await the_note.acquire_ai_description_work_batch() == []
        row = await service.database.store.read(AI_DESCRIPTION.lifecycle, 1) or {}
        assert row["ai_description_status"] == "failed"
        assert "its workers died" in row["enrichment_error"]


async def test_vetting_waits_for_a_description_and_does_not_wipe_its_own_lock(opening: Opening) -> None:
    async with opening(form="marker") as service:
        await enriched(service, 2)
        assert await the_note.acquire_vetting_work_batch() == []
        await service.database.store.move_many(AI_DESCRIPTION.move("share"), where=sql("TRUE"))
        works = await the_note.acquire_vetting_work_batch()
        assert [work.fence.split(":")[1] for work in works] == ["VETTING", "VETTING"]
        row = await service.database.store.read(VETTING.lifecycle, works[0].key) or {}
        assert row["vetting_error"] == works[0].fence
        assert await the_note.acquire_vetting_work_batch() == []


async def test_the_two_forms_keep_out_of_each_others_rows(opening: Opening) -> None:
    """While a deploy goes on, workers of both kinds are at work on the same rows."""
    async with opening(form="marker") as service:
        await enriched(service, 4)
        database = service.database
        columns = Claiming(Form.COLUMNS, database.dialect)
        by_marker = await the_note.acquire_ai_description_work_batch(limit=2)
        for done in (("002_claim_columns",), ()):
            async with opened(Settings(database=service.settings.database), Purpose.MIGRATE) as found:
                assert found.done == done
        by_columns = await database.store.claim(columns.of(AI_DESCRIPTION), 10, returning=the_note.COLUMNS)
        held = {work.key for work in by_marker}, {work.key for work in by_columns}
        assert held == ({1, 2}, {3, 4})
        assert await the_note.acquire_ai_description_work_batch() == []
        # an older version's own SQL cannot take what is held by columns, either
        await write_error(service, 3, f"PROCESSING:AI_DESC:{uuid.uuid4()}:{datetime.now(UTC).timestamp()}")
        assert await error_of(service, 3) is None
        for work in (*by_marker, *by_columns):
            assert (await finish(database, service.claiming, AI_DESCRIPTION, work, _nothing)).won
        row = await database.store.read(AI_DESCRIPTION.lifecycle, 1) or {}
        assert (row["ai_description_status"], row["enrichment_error"]) == ("completed", None)


@BOTH
async def test_a_last_attempt_in_one_form_is_not_dead_lettered_in_the_other(opening: Opening, form: Form) -> None:
    """Whoever finds fewer rows than it wants dead-letters those that have had all their attempts and that nobody holds."""
    async with opening(form="columns") as service:
        await enriched(service, 1)
        database = service.database
        own = Claiming(form, database.dialect, rest=0.0).of(AI_DESCRIPTION)
        others = Claiming(next(one for one in Form if one is not form), database.dialect).of(AI_DESCRIPTION)
        for _ in range(ATTEMPTS):
            [work] = await database.store.claim(own, 1, returning=the_note.COLUMNS)
            assert await database.store.claim(others, 5) == []
            row = await database.store.read(AI_DESCRIPTION.lifecycle, 1) or {}
            assert row["ai_description_status"] == "in_progress"
            if work.attempt < ATTEMPTS:
                assert isinstance(
                    await put_back(database, service.claiming, AI_DESCRIPTION, work, "the model said no"),
                    Released,
                )
        assert (await finish(database, service.claiming, AI_DESCRIPTION, work, _nothing)).won


@BOTH
async def test_a_dead_lock_in_one_form_is_dead_lettered_in_the_other(opening: Opening, form: Form) -> None:
    async with opening(form="columns") as service:
        await enriched(service, 1)
        database = service.database
        own = Claiming(form, database.dialect).of(AI_DESCRIPTION)
        others = Claiming(next(one for one in Form if one is not form), database.dialect).of(AI_DESCRIPTION)
        for _ in range(ATTEMPTS):
            assert len(await database.store.claim(own, 1)) == 1
            await minutes_pass(database, 61)
        assert await database.store.claim(others, 5) == []
        row = await database.store.read(AI_DESCRIPTION.lifecycle, 1) or {}
        assert row["ai_description_status"] == "failed"
        assert "its workers died" in row["enrichment_error"]


async def test_the_migration_happens_while_workers_are_running(opening: Opening) -> None:
    """Workers that use markers go on, those that use columns join them, and each podcast is worked on once."""
    async with opening(form="marker", poll=0.02) as old:
        await fill(old, 60, 2)
        async with old.database.transaction() as (connection, _):
            await connection.execute(update(discoveries).values(enrichment_error=None))
        seen: list[int] = []
        begun = asyncio.Event()
        _count(old, seen, begun)
        first = old.manager.worker(ENRICHMENT)
        running = asyncio.create_task(first.run())
        await begun.wait()
        async with opening(form="columns", poll=0.02, limits={"enrichment": 5}) as new:
            _count(new, seen, begun)
            second = new.manager.worker(ENRICHMENT)
            await asyncio.wait_for(second.run(until_idle=True), 60)
            first.stop()
            await running
            last = new.manager.worker(ENRICHMENT)  # for what the first has given back
            await asyncio.wait_for(last.run(until_idle=True), 60)
            assert await stuck_locks(new.database, new.claiming) == []
            async with new.database.read() as connection:
                statuses = (await connection.execute(select(discoveries.c.enrichment_status))).scalars().all()
        assert first.lost == second.lost == last.lost == 0
        assert set(statuses) == {"completed"}
        assert len(seen) == len(set(seen)) == 60


def _count(service: Service, seen: list[int], begun: asyncio.Event) -> None:
    """Write down each podcast that is worked on."""
    working: Any = service.manager._working
    work = working.enrichment

    async def counted(stage: Stage, claim: the_note.Work) -> Any:
        seen.append(claim.row["media_id"])
        begun.set()
        return await work(stage, claim)

    working.enrichment = counted


def test_the_time_of_a_marker_is_read_in_both_ways_or_not_at_all() -> None:
    assert marked_at("PROCESSING:AI_DESC:0f:1769860800.5") == datetime.fromtimestamp(1769860800.5, UTC)
    assert marked_at("PROCESSING:VETTING:0f:2026-01-31T12:00:00.123+00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert [marked_at(text) for text in MALFORMED if "9999-12" not in text] == [None] * (len(MALFORMED) - 1)


async def test_a_new_discovery_of_a_podcast_in_work_waits_in_its_line(opening: Opening) -> None:
    async with opening() as service:
        first = await add_campaign(service.database, "One", ["soil"], "About soil.")
        second = await add_campaign(service.database, "Two", ["soil"], "About soil.")
        await discover(service.database, service.fetcher, first, "shipped:deep-soil.xml")
        claim = service.claiming.of(ENRICHMENT)
        [work] = await service.database.store.claim(claim, 5, returning=the_note.COLUMNS)
        await discover(service.database, service.fetcher, second, "shipped:deep-soil.xml")
        assert await service.database.store.claim(claim, 5) == []
        assert (await finish(service.database, service.claiming, ENRICHMENT, work, _nothing)).won
        row = await service.database.store.read(ENRICHMENT.lifecycle, 2) or {}
        assert row["enrichment_status"] == "completed"


@BOTH
async def test_a_lock_that_was_taken_over_in_one_form_is_over_in_the_other(opening: Opening, form: Form) -> None:
    """Its fence stood in another column, which the new holder did not touch: the late one could renew, and end the row."""
    async with opening(form="columns") as service:
        await enriched(service, 2)
        database = service.database
        await write_error(service, 1, "ReadTimeout: before")
        other_form = next(one for one in Form if one is not form)
        own = Claiming(form, database.dialect).of(AI_DESCRIPTION)
        others = Claiming(other_form, database.dialect).of(AI_DESCRIPTION)
        late = await database.store.claim(own, 2, by="late", returning=the_note.COLUMNS)
        await minutes_pass(database, 61)
        if form is Form.MARKER:  # as written before the hour passed
            late = [replace(one, fence=await error_of(service, int(one.key))) for one in late]
        other = await database.store.claim(others, 2, by="other", returning=the_note.COLUMNS)
        assert [one.key for one in other] == [one.key for one in late] == [1, 2]
        assert [type(one) for one in await database.store.renew(late)] == [Lost, Lost]
        answer = await finish(database, service.claiming, AI_DESCRIPTION, late[0], _nothing)
        assert isinstance(answer, Lost)
        answer = await put_back(database, service.claiming, AI_DESCRIPTION, late[1], "too late")
        assert isinstance(answer, Lost)
        assert all(one.won for one in await database.store.release(other))
        assert [await error_of(service, key) for key in (1, 2)] == ["ReadTimeout: before", None]
