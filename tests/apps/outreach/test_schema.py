"""Which command may change the schema, the one stale time, and databases with invented answers. B5, the deploy of 002."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy import select, text

from appkit.commands import Unusable
from appkit.storm import Instance, until
from outreach import campaign_media_discoveries as the_note
from outreach.cli import main
from outreach.discovery import add_campaign
from outreach.forms import Form
from outreach.opening import Purpose, opened
from outreach.settings import Settings
from outreach.storm_clock import minutes_pass
from outreach.tables import outreach_facts

from .conftest import KEY, Opening
from .test_locks import enriched

PATIENCE = 120.0
READING = (
    ("stuck",),
    ("active",),
    ("reviews",),
    ("campaigns",),
    ("podcasts",),
    ("discoveries",),
    ("stages",),
    ("calls",),
    ("doctor",),
    ("match", "1"),
)
BOTH = pytest.mark.parametrize("form", list(Form), ids=str)


@dataclass
class Done:
    """What a command has come to."""

    returncode: int
    stdout: str
    stderr: str


async def outreach(url: str, *arguments: str, **told: str) -> Done:
    """A command in a thread, with its own event loop: as its process would run it, and sooner."""
    settings = {"database": url, **told}
    environment = {f"OUTREACH_{name.upper()}": value for name, value in settings.items()}
    if arguments == ("work",):  # it wants signals
        command = [sys.executable, "-m", "outreach", *arguments]
        environment = {**os.environ, **environment}
        ended = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)
    result = await asyncio.to_thread(CliRunner().invoke, main, arguments, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[None]:
    """A session that has read every table in a transaction which stays open: it has ACCESS SHARE locks, as a backup has."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            for table in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
                await connection.execute(f'LOCK TABLE "{table[0]}" IN ACCESS SHARE MODE')
            yield
    finally:
        await connection.close()


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_commands_that_look_wait_for_no_reader_and_hold_up_none(url: str) -> None:
    """Each asked for an exclusive lock; every other session, and the next reader, waited behind it."""
    assert (await outreach(url, "migrate")).returncode == 0
    async with reading(url):
        for command in READING:
            done = await outreach(url, *command)
            assert done.returncode in (0, 4, 6), (command, done.stderr)
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0
        async with asyncio.timeout(PATIENCE):
            await connection.fetch("SELECT * FROM campaign_media_discoveries")
        await connection.close()


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_service_that_finds_everything_starts_beside_a_reader(url: str, tmp_path: Path) -> None:
    assert (await outreach(url, "migrate")).returncode == 0
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    environment = {"OUTREACH_DATABASE": url, "OUTREACH_PORT": port, "OUTREACH_FOLDER": str(tmp_path)}
    service = Instance("serve", ["outreach", "serve", "--no-work"], environment, tmp_path)
    async with reading(url), httpx.AsyncClient(trust_env=False) as client:

        async def healthy() -> bool:
            try:
                return (await client.get(f"http://127.0.0.1:{port}/health")).status_code == 200
            except httpx.HTTPError:
                return False

        service.start()
        try:
            assert await until(healthy, PATIENCE), service.tail(30)
        finally:
            code = await asyncio.to_thread(service.stop)
    assert code == 0


@BOTH
async def test_nothing_but_migrate_and_serve_makes_tables(url: str, tmp_path: Path, form: Form) -> None:
    for command in (*READING, ("work",), ("run",), ("cleanup",), ("retry", "vetting", "--all")):
        done = await outreach(url, *command, form=str(form), folder=str(tmp_path))
        assert done.returncode == 5, (command, done.stdout, done.stderr)
        assert "outreach migrate" in done.stderr
        assert "Traceback" not in done.stderr
        assert await tables(url) == set()
    assert (await outreach(url, "migrate", form=str(form))).stdout.startswith("done: 001_pipeline")
    assert "campaign_media_discoveries" in await tables(url)
    assert (await outreach(url, "migrate", form=str(form))).stdout.strip() == "everything was there"
    assert (await outreach(url, "stuck", form=str(form))).returncode == 0


async def tables(url: str) -> set[str]:
    if url.startswith("sqlite"):
        return _sqlite_tables(Path(url.removeprefix("sqlite:///")))
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    return {row[0] for row in rows}


def _sqlite_tables(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path)) as found:
        return {row[0] for row in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


async def test_a_worker_says_what_is_missing_and_leaves_it_to_migrate(opening: Opening, url: str) -> None:
    async with opening() as service:
        on = " ON campaign_media_discoveries" if service.database.dialect == "postgres" else ""
        async with service.database.transaction() as (connection, _):
            await connection.execute(text(f"DROP TRIGGER outreach_held_vetting{on}"))
    done = await outreach(url, "run")
    assert done.returncode == 5
    assert "outreach_held_vetting" in done.stderr
    assert "is missing" in done.stderr
    found = json.loads((await outreach(url, "doctor", "-o", "json")).stdout)
    [schema] = [one for one in found if one["check"] == "schema"]
    assert (schema["result"], schema["repair"]) == ("problem", "outreach migrate")
    assert (await outreach(url, "migrate")).returncode == 0
    assert (await outreach(url, "run")).returncode == 0


async def test_a_look_works_where_claims_have_no_columns_yet(url: str) -> None:
    """An operator's shell does not know the form of the workers."""
    assert (await outreach(url, "migrate", form="marker")).returncode == 0
    for command in READING:
        assert (await outreach(url, *command)).returncode in (0, 4, 6), command
    assert "002_claim_columns" in (await outreach(url, "run")).stderr


@BOTH
async def test_there_is_one_stale_time_for_all_who_look_clean_up_and_claim(
    opening: Opening, url: str, form: Form
) -> None:
    """OUTREACH_STALE=10800: `doctor --fix` and `cleanup` freed living locks that were 70 minutes old."""
    told = {"form": form, "stale": 10800.0, "lease": 10800.0}
    async with opening(**told) as service:
        await enriched(service, 2)
        held = await the_note.acquire_ai_description_work_batch()
        assert len(held) == 2
        await minutes_pass(service.database, 70, form)
        assert await the_note.cleanup_stale_ai_description_locks() == 0
        for command in (("doctor", "--fix"), ("cleanup",), ("stuck",)):
            # as from a shell that does not know of the setting
            done = await outreach(url, *command, form=str(form), lease="10800")
            assert done.returncode in (0, 6), done.stderr
            assert "stuck locks" not in done.stdout or "none" in done.stdout
        assert await the_note.acquire_ai_description_work_batch() == []  # they are still held
        await minutes_pass(service.database, 181, form)
        assert await the_note.cleanup_stale_ai_description_locks() == 2


async def test_the_triggers_have_the_same_stale_time(opening: Opening) -> None:
    """A lock of the other form that is 70 minutes old is alive, and its row is not dead-lettered."""
    async with opening(stale=10800.0) as service:
        await enriched(service, 1)
        database = service.database
        marked = type(service.claiming)(Form.MARKER, database.dialect, 10800.0)
        stage = service.claiming.stages["ai_description"]
        for _ in range(5):
            [work] = await database.store.claim(marked.of(stage), returning=the_note.COLUMNS)
            if work.attempt < 5:
                await database.store.fail(work, delay=0)
        await minutes_pass(database, 70)
        async with database.transaction() as (connection, _):
            await connection.execute(
                text("UPDATE campaign_media_discoveries SET ai_description_status = 'failed' WHERE id = 1")
            )
        row = await database.store.read(stage.lifecycle, 1) or {}
        assert row["ai_description_status"] == "in_progress"
        await minutes_pass(database, 120)
        async with database.transaction() as (connection, _):
            await connection.execute(
                text("UPDATE campaign_media_discoveries SET ai_description_status = 'failed' WHERE id = 1")
            )
        row = await database.store.read(stage.lifecycle, 1) or {}
        assert row["ai_description_status"] == "failed"


async def test_another_stale_time_is_refused_until_it_is_migrated(url: str, tmp_path: Path) -> None:
    told = {"folder": str(tmp_path)}
    assert (await outreach(url, "migrate", stale="7200")).returncode == 0
    for command in (("work",), ("run",), ("stuck",)):
        done = await outreach(url, *command, stale="3600", **told)
        assert done.returncode == 5
        assert "OUTREACH_STALE is 3600 here and 7200 in the database" in done.stderr
    assert (await outreach(url, "run", **told)).returncode == 0
    assert (await outreach(url, "migrate", stale="3600")).returncode == 0
    assert (await outreach(url, "run", stale="3600", **told)).returncode == 0


async def test_a_stale_time_that_is_too_short_for_markers_stops_a_worker(url: str) -> None:
    assert (await outreach(url, "migrate", stale="600")).returncode == 0
    done = await outreach(url, "run", form="marker")
    assert done.returncode == 5
    assert "stale=600 is too short" in done.stderr


@pytest.fixture
def served(url: str, tmp_path: Path) -> Iterator[Any]:
    """`serve` with other options, as a process."""
    running: list[Instance] = []

    def start(*options: str, **told: str) -> Instance:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = str(one.getsockname()[1])
        settings = {"database": url, "port": port, "folder": str(tmp_path), **told}
        environment = {f"OUTREACH_{name.upper()}": value for name, value in settings.items()}
        one_more = Instance("serve", ["outreach", "serve", *options], environment, tmp_path)
        one_more.start()
        running.append(one_more)
        return one_more

    yield start
    for one in running:
        one.signal(signal.SIGTERM)
        one.stop()


async def _said(instance: Instance, words: str) -> bool:
    async def ended() -> bool:
        return words in instance.said() or not instance.running

    await until(ended, PATIENCE)
    return words in instance.said()


async def test_invented_answers_are_not_written_into_a_database_that_has_others(opening: Opening, served: Any) -> None:
    async with opening() as service:
        await add_campaign(service.database, "Real", ["soil"], "About soil.")
    service_process = served("--simulate")
    assert await _said(service_process, "this database has campaigns that were not made by it")
    assert await until(lambda: _ended(service_process), PATIENCE)
    async with opening() as service, service.database.read() as connection:
        names = (await connection.execute(text("SELECT name FROM campaigns"))).scalars().all()
        assert names == ["Real"]


async def _ended(instance: Instance) -> bool:
    return not instance.running


async def test_a_simulated_database_is_shown_and_never_worked_on_for_real(
    url: str, served: Any, tmp_path: Path
) -> None:
    first = served("--simulate")
    assert await _said(first, "outreach: http://"), first.tail(30)
    assert first.stop() == 0
    for options in (("run",), ("work",)):
        done = await outreach(url, *options, folder=str(tmp_path))
        assert done.returncode == 5
        assert "serve --simulate" in done.stderr
    real = served(ai_url="https://api.example.com/v1", ai_key=KEY)
    assert await _said(real, "its descriptions and scores are invented")
    done = await outreach(url, "campaigns", "-o", "json")
    assert {one["name"] for one in json.loads(done.stdout)} >= {"Reliable databases"}
    again = served("--simulate")
    assert await _said(again, "outreach: http://"), again.tail(30)


async def test_an_empty_database_may_be_simulated_and_says_so_from_then_on(url: str) -> None:
    async with opened(Settings(database=url), Purpose.MIGRATE) as found:
        assert not found.facts.simulated
    async with opened(Settings(database=url), Purpose.SIMULATE) as found, found.database.read() as connection:
        facts = dict((await connection.execute(select(outreach_facts.c.name, outreach_facts.c.value))).all())
    assert facts["simulated"] == "yes"
    with pytest.raises(Unusable, match="invented"):
        async with opened(Settings(database=url), Purpose.SERVE):
            pass
    async with opened(Settings(database=url), Purpose.LOOK) as found:
        assert found.facts.simulated
