"""The note's own table, made as its project has it, is adopted as it is, beside the note's own code. B2, B5, B7."""

import asyncio
import json
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select, text

from outreach import campaign_media_discoveries as the_note
from outreach import reading, reviewing
from outreach.discovery import add_campaign, discover
from outreach.monitoring import active_processing, stuck_locks
from outreach.opening import Purpose
from outreach.outcomes import put_back
from outreach.service import Service
from outreach.stages import STAGES_OF, Layout
from outreach.tables import discovery_stages, match_suggestions, review_tasks, stage_attempts
from raceproof import DeadLettered, Lost, Released

from .conftest import Opening, ScriptedProvider, run_all, said
from .test_answers import SCORES, kind_of
from .test_schema import outreach

STAGES = STAGES_OF[Layout.ADOPTED]
SCHEMA = {
    "postgres": """
CREATE TABLE campaigns (
    id SERIAL PRIMARY KEY, name VARCHAR(255) NOT NULL, keywords TEXT[], ideal_podcast_description TEXT,
    created_at TIMESTAMPTZ DEFAULT NOW());
CREATE TABLE media (
    id SERIAL PRIMARY KEY, name TEXT, description TEXT, ai_description TEXT, rss_url TEXT, host_names TEXT,
    latest_episode_at TIMESTAMPTZ, quality_score NUMERIC(5, 2), created_at TIMESTAMPTZ DEFAULT NOW(),
    updated_at TIMESTAMPTZ DEFAULT NOW());
CREATE TABLE match_suggestions (
    id SERIAL PRIMARY KEY, campaign_id INTEGER NOT NULL, media_id INTEGER NOT NULL, status VARCHAR(50) DEFAULT 'pending',
    UNIQUE (campaign_id, media_id));
CREATE TABLE campaign_media_discoveries (
    id SERIAL PRIMARY KEY,
    campaign_id INTEGER NOT NULL REFERENCES campaigns (id),
    media_id INTEGER NOT NULL REFERENCES media (id),
    discovery_keyword TEXT,
    discovered_at TIMESTAMPTZ DEFAULT NOW(),
    enrichment_status VARCHAR(50) DEFAULT 'pending',
    enrichment_completed_at TIMESTAMPTZ,
    enrichment_error TEXT,
    vetting_status VARCHAR(50) DEFAULT 'pending',
    vetting_score NUMERIC(4, 2),
    vetting_reasoning TEXT,
    vetting_criteria_met JSONB,
    topic_match_analysis TEXT,
    vetted_at TIMESTAMPTZ,
    vetting_error TEXT,
    match_created BOOLEAN DEFAULT FALSE,
    match_suggestion_id INTEGER,
    review_status VARCHAR(50),
    created_at TIMESTAMPTZ DEFAULT NOW(),
    updated_at TIMESTAMPTZ DEFAULT NOW(),
    UNIQUE (campaign_id, media_id));
CREATE INDEX idx_cmd_enrichment ON campaign_media_discoveries (enrichment_status);
""",
}
SCHEMA["sqlite"] = (
    SCHEMA["postgres"]
    .replace("SERIAL PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT")
    .replace("TIMESTAMPTZ DEFAULT NOW()", "TEXT DEFAULT CURRENT_TIMESTAMP")
    .replace("TIMESTAMPTZ", "TEXT")
    .replace("TEXT[]", "TEXT")
    .replace("JSONB", "TEXT")
)
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(hours=3)
NOTE_ACQUIRE = """
WITH candidates AS (
    SELECT id FROM campaign_media_discoveries
    WHERE vetting_status = 'pending'
      AND enrichment_status = 'completed'
      AND media_id IN (SELECT id FROM media WHERE ai_description IS NOT NULL)
      AND (vetting_error IS NULL OR vetting_error NOT LIKE 'PROCESSING:%%')
    LIMIT 3
    FOR UPDATE SKIP LOCKED
)
UPDATE campaign_media_discoveries
SET vetting_error = %s, updated_at = NOW()
FROM candidates
WHERE campaign_media_discoveries.id = candidates.id
RETURNING campaign_media_discoveries.id
"""
NOTE_END = """
UPDATE campaign_media_discoveries
SET vetting_status = 'completed', vetting_score = 77, vetting_reasoning = 'by the note', vetting_error = NULL,
    vetted_at = NOW(), updated_at = NOW()
WHERE id = %s
"""
MONITORING = (
    """SELECT COUNT(*) as stuck_ai_locks FROM campaign_media_discoveries
       WHERE enrichment_error LIKE 'PROCESSING:AI_DESC:%' AND updated_at < NOW() - INTERVAL '60 minutes'""",
    """SELECT COUNT(*) as stuck_vetting_locks FROM campaign_media_discoveries
       WHERE vetting_error LIKE 'PROCESSING:VETTING:%' AND updated_at < NOW() - INTERVAL '60 minutes'""",
    """SELECT id, media_id, enrichment_error, updated_at FROM campaign_media_discoveries
       WHERE enrichment_error LIKE 'PROCESSING:AI_DESC:%' ORDER BY updated_at DESC""",
)


def on_the_side(url: str, statement: str, *values: Any) -> list[Any]:
    """As the note's project, or its operator, talks to the database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            if not values:
                if statement.lstrip().upper().startswith("SELECT"):
                    return connection.execute(statement).fetchall()
                connection.executescript(statement)
                return []
            return connection.execute(statement.replace("%s", "?"), values).fetchall()
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(statement, values or None)
        return done.fetchall() if done.description else []


@pytest.fixture
def theirs(url: str) -> str:
    """The note's project, with three campaigns and no row of work."""
    kind = "sqlite" if url.startswith("sqlite") else "postgres"
    on_the_side(url, SCHEMA[kind])
    keywords = '["soil"]' if kind == "sqlite" else "{soil}"
    for name in ("One", "Two", "Three"):
        on_the_side(
            url,
            "INSERT INTO campaigns (name, keywords, ideal_podcast_description) VALUES (%s, %s, 'About soil.')",
            name,
            keywords,
        )
    return url


def podcast(url: str, name: str, described: bool = False) -> int:
    """A podcast with a feed of ours; returns its id."""
    on_the_side(
        url,
        "INSERT INTO media (name, rss_url, ai_description) VALUES (%s, %s, %s)",
        name,
        f"stored:{name}",
        "A show about soil." if described else None,
    )
    return int(on_the_side(url, "SELECT max(id) FROM media")[0][0])


def discovery(url: str, media: int, campaign: int = 1, **columns: Any) -> int:
    names = ["campaign_id", "media_id", *columns]
    places = ", ".join(["%s"] * len(names))
    values = [one.strftime("%Y-%m-%d %H:%M:%S+00") if isinstance(one, datetime) else one for one in columns.values()]
    on_the_side(
        url,
        f"INSERT INTO campaign_media_discoveries ({', '.join(names)}) VALUES ({places})",
        campaign,
        media,
        *values,
    )
    return int(on_the_side(url, "SELECT max(id) FROM campaign_media_discoveries")[0][0])


def shape(url: str) -> Any:
    """Everything that the table is made of."""
    if url.startswith("sqlite"):
        return on_the_side(
            url, "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = 'campaign_media_discoveries'"
        )
    table = "'campaign_media_discoveries'::regclass"
    return [
        on_the_side(url, statement)
        for statement in (
            f"SELECT attname, atttypid::regtype::text, attnotnull, atthasdef FROM pg_attribute WHERE attrelid = {table}"
            " AND attnum > 0 ORDER BY attnum",
            f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = {table} ORDER BY 1",
            f"SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = {table} ORDER BY 1",
            f"SELECT tgname FROM pg_trigger WHERE tgrelid = {table} AND NOT tgisinternal",
        )
    ]


async def feeds_of(service: Service) -> None:
    """Feeds for all podcasts, so that nothing is fetched."""
    async with service.database.transaction() as (connection, _):
        names = (await connection.execute(text("SELECT name FROM media"))).scalars().all()
        now = "clock_timestamp()" if service.database.dialect == "postgres" else "datetime('now')"
        for name in names:
            item = f"<item><title>Soil with {name}</title><guid>1</guid><description>Soil.</description></item>"
            feed = f'<?xml version="1.0"?><rss version="2.0"><channel><title>{name}</title>'
            feed += f"<description>All about soil.</description><language>en</language>{item}</channel></rss>"
            stored = text(
                f"INSERT INTO stored_feeds (url, body, stored_at) VALUES (:url, :body, {now}) ON CONFLICT DO NOTHING"
            )
            await connection.execute(stored, {"url": f"stored:{name}", "body": feed.encode()})


def stages_of(url: str) -> dict[int, tuple[str, str, str, str]]:
    rows = on_the_side(
        url,
        "SELECT id, enrichment_status, ai_description_status, vetting_status, matching_status"
        " FROM discovery_stages ORDER BY id",
    )
    return {row[0]: tuple(row[1:]) for row in rows}


async def test_the_table_is_adopted_without_a_change_and_everything_runs(opening: Opening, theirs: str) -> None:
    """`CREATE TABLE` met a table, and every command ended with a traceback."""
    for number in range(4):
        discovery(theirs, podcast(theirs, f"show-{number}"))
    before = shape(theirs)
    async with opening(form="marker") as service:
        assert service.claiming.adopted
        await feeds_of(service)
        await run_all(service, 1)
        rows, _ = await reading.page_of_discoveries(service.database)
        assert [row["at"] for row in rows] == ["done"] * 4
        assert all(row["vetting_score"] > 50 and row["match_created"] for row in rows)
        assert all(row["criteria"] for row in rows)
        async with service.database.read() as connection:
            assert len((await connection.execute(select(match_suggestions.c.id))).all()) == 4
            tasks = (await connection.execute(select(review_tasks))).mappings().all()
        assert (await reviewing.decide(service.database, tasks[0]["id"], True, "ann", "fits")).won
    assert shape(theirs) == before
    columns = "enrichment_status, vetting_status, enrichment_error, vetting_error, match_created"
    told = on_the_side(theirs, f"SELECT {columns} FROM campaign_media_discoveries")
    assert [(*row[:4], bool(row[4])) for row in told] == [("completed", "completed", None, None, True)] * 4
    assert all(row[0] for row in on_the_side(theirs, "SELECT ai_description FROM media"))
    # what a table with NUMERIC(4, 2) cannot hold is not written
    assert (
        max(float(row[0]) for row in on_the_side(theirs, "SELECT vetting_score FROM campaign_media_discoveries"))
        <= 99.99
    )


async def test_rows_in_every_state_are_what_they_are(opening: Opening, theirs: str) -> None:
    def marker(kind: str, at: float | str) -> str:
        return f"PROCESSING:{kind}:{uuid.uuid4()}:{at}"

    iso, old = NOW.replace(tzinfo=None).isoformat(), LONG_AGO.replace(tzinfo=None).isoformat()
    done: dict[str, Any] = {"enrichment_status": "completed"}
    rows = {
        "new": discovery(theirs, podcast(theirs, "new")),
        "enriched elsewhere now": discovery(theirs, podcast(theirs, "a"), enrichment_status="in_progress"),
        "enriched elsewhere, dead": discovery(
            theirs, podcast(theirs, "b"), enrichment_status="in_progress", updated_at=LONG_AGO
        ),
        "enrichment failed": discovery(
            theirs, podcast(theirs, "c"), enrichment_status="failed", enrichment_error="HTTPError: 404"
        ),
        "described elsewhere": discovery(
            theirs, podcast(theirs, "d"), **done, enrichment_error=marker("AI_DESC", iso)
        ),
        "described elsewhere, seconds": discovery(
            theirs, podcast(theirs, "e"), **done, enrichment_error=marker("AI_DESC", time.time())
        ),
        "description, dead": discovery(
            theirs, podcast(theirs, "f"), **done, enrichment_error=marker("AI_DESC", old), updated_at=LONG_AGO
        ),
        "description, malformed": discovery(
            theirs, podcast(theirs, "g"), **done, enrichment_error="PROCESSING:AI_DESC:nonsense"
        ),
        "an old error": discovery(theirs, podcast(theirs, "h"), **done, enrichment_error="ReadTimeout"),
        "vetted elsewhere": discovery(
            theirs, podcast(theirs, "i", True), **done, vetting_error=marker("VETTING", iso)
        ),
        "vetting, dead": discovery(
            theirs, podcast(theirs, "j", True), **done, vetting_error=marker("VETTING", old)
        ),
        "vetting in progress elsewhere": discovery(
            theirs, podcast(theirs, "k", True), **done, vetting_status="in_progress"
        ),
        "vetting failed": discovery(theirs, podcast(theirs, "l", True), **done, vetting_status="failed"),
        "vetted, a match": discovery(
            theirs, podcast(theirs, "m", True), **done, vetting_status="completed", vetting_score=80
        ),
        "vetted, none": discovery(
            theirs, podcast(theirs, "n", True), **done, vetting_status="completed", vetting_score=30
        ),
        "vetted without a score": discovery(
            theirs, podcast(theirs, "o", True), **done, vetting_status="completed"
        ),
    }  # fmt: skip
    before = {row[0]: row[1:] for row in on_the_side(theirs, "SELECT * FROM campaign_media_discoveries")}
    async with opening(form="marker") as service:
        await feeds_of(service)
        await run_all(service, 1)
    after = {row[0]: row[1:] for row in on_the_side(theirs, "SELECT * FROM campaign_media_discoveries")}
    ends = stages_of(theirs)
    whole = ("completed",) * 4
    for name in (
        "new",
        "enriched elsewhere, dead",
        "description, dead",
        "description, malformed",
        "an old error",
        "vetting, dead",
        "vetted, a match",
        "vetted, none",
        "vetted without a score",
    ):
        assert ends[rows[name]] == whole, name
    for name in (
        "enriched elsewhere now",
        "enrichment failed",
        "described elsewhere",
        "described elsewhere, seconds",
        "vetted elsewhere",
        "vetting in progress elsewhere",
        "vetting failed",
        "vetted, none",
        "vetted without a score",
    ):
        assert after[rows[name]] == before[rows[name]], name
    texts = {row[0] for row in on_the_side(theirs, "SELECT text FROM error_texts")}
    assert texts >= {"HTTPError: 404", "ReadTimeout"}


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_the_notes_own_sql_works_on_the_same_rows_at_the_same_time(opening: Opening, theirs: str) -> None:
    """A gradual rollout: each row is vetted once, by the one or by the other."""
    number = 60
    for place in range(number):
        discovery(theirs, podcast(theirs, f"show-{place}", True), enrichment_status="completed")
    seen: list[int] = []

    def the_notes_worker() -> None:
        with psycopg.connect(theirs, autocommit=True) as connection:
            while True:
                lock = f"PROCESSING:VETTING:{uuid.uuid4()}:{datetime.now(UTC).replace(tzinfo=None).isoformat()}"
                rows = connection.execute(NOTE_ACQUIRE, (lock,)).fetchall()
                if not rows:
                    return
                for (key,) in rows:
                    seen.append(key)
                    time.sleep(0.002)
                    connection.execute(NOTE_END, (key,))

    async with opening(form="marker", poll=0.01) as service:
        working: Any = service.manager._working
        score = working._ai.score

        async def scored(*told: Any) -> Any:
            seen.append(int(told[-1].discovery))
            await asyncio.sleep(0.002)
            return await score(*told)

        working._ai.score = scored
        await asyncio.gather(asyncio.to_thread(the_notes_worker), service.manager.run_until_idle(STAGES["vetting"]))
        await service.manager.run_until_idle(STAGES["vetting"])
        ours, theirs_done = _by_whom(theirs)
        assert ours + theirs_done == number == len(seen) == len(set(seen))
        assert min(ours, theirs_done) > 0
        # what the note's code has vetted becomes a match here
        await service.manager.run_until_idle(STAGES["matching"])
    assert on_the_side(theirs, "SELECT count(*) FROM match_suggestions") == [(number,)]


def _by_whom(url: str) -> tuple[int, int]:
    rows = on_the_side(
        url,
        "SELECT count(*) FILTER (WHERE vetting_reasoning <> 'by the note'),"
        " count(*) FILTER (WHERE vetting_reasoning = 'by the note') FROM campaign_media_discoveries",
    )
    return int(rows[0][0]), int(rows[0][1])


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_the_notes_queries_see_our_locks_and_the_notes_code_passes_them_over(
    opening: Opening, theirs: str
) -> None:
    for place in range(3):
        discovery(theirs, podcast(theirs, f"show-{place}"), enrichment_status="completed", updated_at=LONG_AGO)
    async with opening(form="marker") as service:
        works = await the_note.acquire_ai_description_work_batch()
        assert [work.key for work in works] == [1, 2, 3]
        stuck_ai, stuck_vetting, active = (on_the_side(theirs, query) for query in MONITORING)
        # by `updated_at`, which every claim has to move on, or the note's cleanup would free living locks
        assert (stuck_ai, stuck_vetting) == ([(0,)], [(0,)])
        assert sorted((row[0], row[2]) for row in active) == [(work.key, work.fence) for work in works]
        assert len(await active_processing(service.database, service.claiming)) == 3
        assert await stuck_locks(service.database, service.claiming) == []
        took = on_the_side(
            theirs,
            NOTE_ACQUIRE.replace("vetting_status = 'pending'", "enrichment_status = 'completed'")
            .replace("vetting_error", "enrichment_error")
            .replace("AND media_id IN (SELECT id FROM media WHERE ai_description IS NOT NULL)", ""),
            "PROCESSING:AI_DESC:x:y",
        )
        assert took == []
        for work in works:
            assert isinstance(await the_note.release_ai_description_lock(work), Released)


async def test_our_own_table_lets_the_notes_code_end_its_vetting(opening: Opening) -> None:
    """The guard knew in_progress → completed only: "Vetting may not go from pending to completed"."""
    async with opening(form="marker") as service:
        campaign = await add_campaign(service.database, "Soil", ["soil"], "About soil.")
        await discover(service.database, service.fetcher, campaign, "shipped:deep-soil.xml")
        for name in ("enrichment", "ai_description"):
            await service.manager.run_until_idle(service.claiming.stages[name])
        async with service.database.transaction() as (connection, _):
            claimed = "UPDATE campaign_media_discoveries SET vetting_error = 'PROCESSING:VETTING:x:2026-01-31T12:00:00'"
            await connection.execute(text(claimed))
        async with service.database.transaction() as (connection, _):
            ended = "SET vetting_status = 'completed', vetting_score = 77, vetting_error = NULL"
            await connection.execute(text(f"UPDATE campaign_media_discoveries {ended}"))
        await service.manager.run_until_idle(service.claiming.stages["matching"])
        rows, _ = await reading.page_of_discoveries(service.database)
        assert [bool(row["match_created"]) for row in rows] == [True]


async def test_failures_rest_and_end_without_a_column_for_them(opening: Opening, theirs: str) -> None:
    """The oldest rows failed for ever, were paid for each time, and starved the rest."""
    first = podcast(theirs, "bad")
    for campaign in (1, 2):
        discovery(theirs, first, campaign, enrichment_status="completed")
    discovery(theirs, podcast(theirs, "good"), enrichment_status="completed")
    asked: list[str] = []
    async with opening(form="marker", batch=1) as service:
        working: Any = service.manager._working
        describe = working._ai.describe

        async def described(show: Any, subject: Any) -> str:
            asked.append(show.name)
            if show.name == "bad":
                raise ValueError("the model said no")
            return str(await describe(show, subject))

        working._ai.describe = described
        for _ in range(9):
            await service.manager.run_until_idle(STAGES["ai_description"])
        # five attempts for the podcast, not for each campaign that found it
        assert (asked.count("bad"), asked.count("good")) == (5, 1)
        ends = stages_of(theirs)
        assert [ends[key][1] for key in (1, 2, 3)] == ["failed", "failed", "completed"]
        found = on_the_side(
            theirs, "SELECT enrichment_status, enrichment_error FROM campaign_media_discoveries WHERE id = 1"
        )
        assert found == [("completed", "ValueError: the model said no")]
        answers = await reviewing.try_again(service.database, service.claiming, "ai_description", [1])
        assert len(answers) == 2
        await service.manager.run_until_idle(STAGES["ai_description"])
        assert asked.count("bad") == 10


async def test_a_failing_row_rests_and_others_go_first(opening: Opening, theirs: str) -> None:
    for name in ("bad", "good"):
        discovery(theirs, podcast(theirs, name, True), enrichment_status="completed")
    async with opening(form="marker", rest=3600.0) as service:
        working: Any = service.manager._working
        score = working._ai.score

        async def scored(show: Any, *told: Any) -> Any:
            if show.name == "bad":
                raise ValueError("no")
            return await score(show, *told)

        working._ai.score = scored
        for _ in range(3):
            await service.manager.run_until_idle(STAGES["vetting"])
        async with service.database.read() as connection:
            rows = (await connection.execute(select(stage_attempts))).mappings().all()
        assert [(row["stage"], row["subject_id"], row["attempts"]) for row in rows] == [("vetting", 1, 1)]
        assert [ends[2] for ends in stages_of(theirs).values()] == ["pending", "completed"]


async def test_a_row_that_kills_its_workers_is_dead_lettered(opening: Opening, theirs: str) -> None:
    discovery(theirs, podcast(theirs, "deadly", True), enrichment_status="completed")
    async with opening(form="marker"):
        for attempt in range(1, 6):
            assert len(await the_note.acquire_vetting_work_batch()) == 1, attempt
            assert await the_note.acquire_vetting_work_batch() == []
            an_hour_ago = f"PROCESSING:VETTING:{uuid.uuid4().hex}:{time.time() - 3700:.3f}"
            on_the_side(theirs, "UPDATE campaign_media_discoveries SET vetting_error = %s", an_hour_ago)
        assert await the_note.acquire_vetting_work_batch() == []
        freed = await the_note.cleanup_stale_locks(STAGES["vetting"])
        assert freed > 0
        row = on_the_side(theirs, "SELECT vetting_status, vetting_error FROM campaign_media_discoveries")
        assert row == [("failed", "given up: its workers died")]


async def test_outages_and_turns_cost_no_attempt_here_either(
    opening: Opening, theirs: str, scripted: ScriptedProvider
) -> None:
    scripted.reply = lambda _: (401, {}, {"error": {"message": "Incorrect API key"}})
    discovery(theirs, podcast(theirs, "show"), enrichment_status="completed")
    async with opening(form="marker", **scripted.settings() | {"ai_pause": 0.01}) as service:
        for _ in range(7):
            await service.manager.run_until_idle(STAGES["ai_description"])
        async with service.database.read() as connection:
            rows = (await connection.execute(select(stage_attempts))).mappings().all()
        assert {row["attempts"] for row in rows} == {0}
        scripted.reply = lambda request: said(SCORES if kind_of(request) == "vet" else "A show.")
        async with service.database.transaction() as (connection, _):
            await connection.execute(text("UPDATE pauses SET until = NULL"))
        await run_all(service, 1)
        assert set(stages_of(theirs).values()) == {("completed",) * 4}


async def test_a_refusal_sets_a_description_aside_at_once(
    opening: Opening, theirs: str, scripted: ScriptedProvider
) -> None:
    scripted.reply = lambda _: said("I'm sorry, I can't help with that.")
    discovery(theirs, podcast(theirs, "show"), enrichment_status="completed")
    async with opening(form="marker", **scripted.settings()) as service:
        for _ in range(3):
            await service.manager.run_until_idle(STAGES["ai_description"])
        assert [ends[1] for ends in stages_of(theirs).values()] == ["failed"]
        assert len(scripted.asked) == 1
        assert (await reading.overview(service.database))["stages"][1]["counts"] == {"failed": 1}


async def test_a_late_worker_writes_nothing_here_either(opening: Opening, theirs: str) -> None:
    discovery(theirs, podcast(theirs, "show"), enrichment_status="completed")
    async with opening(form="marker") as service:
        stage = STAGES["ai_description"]
        claim = service.claiming.of(stage)
        [late] = await service.database.store.claim(claim, returning=the_note.COLUMNS)
        another = f"PROCESSING:AI_DESC:{uuid.uuid4().hex}:{time.time():.3f}"
        on_the_side(theirs, "UPDATE campaign_media_discoveries SET enrichment_error = %s", another)
        before = on_the_side(theirs, "SELECT * FROM campaign_media_discoveries, media")
        await service.manager._handle(stage, late)
        assert isinstance(await the_note.release_ai_description_lock(late, "too late"), Lost)
        assert on_the_side(theirs, "SELECT * FROM campaign_media_discoveries, media") == before


async def test_a_podcast_is_described_for_one_discovery_at_a_time(opening: Opening, theirs: str) -> None:
    """Also where the note's code holds another discovery of it."""
    shared = podcast(theirs, "show")
    first = discovery(theirs, shared, 1, enrichment_status="completed")
    second = discovery(theirs, shared, 2, enrichment_status="completed")
    async with opening(form="marker"):
        living = f"PROCESSING:AI_DESC:{uuid.uuid4()}:{datetime.now(UTC).replace(tzinfo=None).isoformat()}"
        update = "UPDATE campaign_media_discoveries SET enrichment_error = %s WHERE id = %s"
        on_the_side(theirs, update, living, second)
        assert await the_note.acquire_ai_description_work_batch() == []
        on_the_side(theirs, update, None, second)
        assert [work.key for work in await the_note.acquire_ai_description_work_batch()] == [first]


async def test_what_is_discovered_here_is_a_row_as_the_note_writes_it(opening: Opening, theirs: str) -> None:
    async with opening(form="marker") as service:
        done = await discover(service.database, service.fetcher, 2, "shipped:deep-soil.xml", "soil")
        assert done.new == 1
        await run_all(service, 1)
    rows = on_the_side(
        theirs, "SELECT discovery_keyword, enrichment_status, vetting_status FROM campaign_media_discoveries"
    )
    assert rows == [("soil", "completed", "completed")]


async def test_an_adopted_table_has_one_form_and_every_command_works(theirs: str, tmp_path: Path) -> None:
    discovery(theirs, podcast(theirs, "show", True), enrichment_status="completed", vetting_status="failed")
    told = {"folder": str(tmp_path)}
    for form in ({}, {"form": "columns"}):
        done = await outreach(theirs, "migrate", **form)
        assert done.returncode == 5
        assert "OUTREACH_FORM=marker outreach migrate" in done.stderr
    for name in ("work", "stuck"):
        assert (await outreach(theirs, name, **told)).returncode == 5
    done = await outreach(theirs, "migrate", form="marker")
    assert (done.returncode, "adopted as it is" in done.stderr) == (0, True)
    assert (await outreach(theirs, "migrate", form="marker")).stdout.strip() == "everything was there"
    for command in (
        ("stuck",),
        ("active",),
        ("discoveries",),
        ("stages",),
        ("match", "1"),
        ("run",),
        ("cleanup",),
        ("doctor", "--fix"),
        ("retry", "vetting", "--all"),
        ("campaigns",),
    ):
        done = await outreach(theirs, *command)
        assert done.returncode in (0, 6), (command, done.stderr)
    done = await outreach(theirs, "run", form="columns")
    assert "set OUTREACH_FORM=marker" in done.stderr


@pytest.mark.parametrize(
    ("change", "said_so"),
    [
        (
            "ALTER TABLE campaign_media_discoveries DROP COLUMN vetting_reasoning",
            "no column vetting_reasoning",
        ),
        ("ALTER TABLE campaign_media_discoveries ADD COLUMN owner TEXT NOT NULL DEFAULT 'x'", ""),
        ("CREATE TABLE stages (id INTEGER)", "a table stages is there"),
        (
            "UPDATE campaign_media_discoveries SET vetting_status = 'queued'",
            "1 rows have another vetting_status",
        ),
    ],
)
async def test_what_is_in_the_way_is_named_before_anything_is_changed(theirs: str, change: str, said_so: str) -> None:
    discovery(theirs, podcast(theirs, "show"))
    on_the_side(theirs, change)
    before = shape(theirs)
    done = await outreach(theirs, "migrate", form="marker")
    assert done.returncode == (5 if said_so else 0), done.stderr
    assert said_so in done.stderr
    assert shape(theirs) == before


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_table_that_outreach_cannot_write_to_is_named(theirs: str) -> None:
    on_the_side(theirs, "CREATE TABLE review_tasks (id SERIAL PRIMARY KEY, task_type TEXT NOT NULL)")
    on_the_side(theirs, "ALTER TABLE media ALTER COLUMN host_names TYPE TEXT[] USING NULL")
    on_the_side(
        theirs,
        "ALTER TABLE campaign_media_discoveries DROP CONSTRAINT campaign_media_discoveries_campaign_id_media_id_key",
    )
    done = await outreach(theirs, "migrate", form="marker")
    assert done.returncode == 5
    for words in (
        "review_tasks.task_type needs a default",
        "media.host_names is an array",
        "campaign_media_discoveries has no UNIQUE (campaign_id, media_id)",
    ):
        assert words in done.stderr


async def test_both_layouts_give_the_same_results(
    opening: Opening, theirs: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_server") if not theirs.startswith("sqlite") else None
    other = server.database() if server else f"sqlite:///{tmp_path / 'other.db'}"
    found = []
    for told in ({"form": "marker"}, {"form": "columns", "database": other}):
        async with opening(**told) as service:
            campaign = await add_campaign(service.database, "Same", ["soil", "farming"], "Talks about soil.")
            await discover(service.database, service.fetcher, campaign, "shipped:subscriptions.opml")
            await run_all(service, 6)
            rows, _ = await reading.page_of_discoveries(service.database, campaign=campaign)
            names = ("name", "vetting_score", "criteria", "stages", "match_created", "vetting_reasoning")
            found.append([json.dumps([row[name] for name in names], sort_keys=True) for row in rows])
    assert found[0] == found[1]


async def test_the_adopted_rows_that_stand_at_failed_can_be_dead_lettered_and_come_back(
    opening: Opening, theirs: str
) -> None:
    discovery(theirs, podcast(theirs, "show", True), enrichment_status="completed")
    async with opening(form="marker", purpose=Purpose.MIGRATE) as service:
        for _ in range(5):
            [work] = await the_note.acquire_vetting_work_batch()
            stage = STAGES["vetting"]
            answer = await _put_back(service, stage, work)
        assert isinstance(answer, DeadLettered)
        assert [ends[2] for ends in stages_of(theirs).values()] == ["failed"]
        [again] = await reviewing.try_again(service.database, service.claiming, "vetting", None)
        assert again.won
        assert [ends[2] for ends in stages_of(theirs).values()] == ["pending"]
        async with service.database.read() as connection:
            assert (await connection.execute(select(discovery_stages.c.vetting_attempts))).scalar_one() == 0


async def _put_back(service: Service, stage: Any, work: Any) -> Any:
    return await put_back(service.database, service.claiming, stage, work, "no")
