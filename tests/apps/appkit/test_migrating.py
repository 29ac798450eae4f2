"""DDL runs where something is missing or has changed, and never in front of everybody else's reads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text

from appkit import migrating
from appkit.commands import Unusable
from appkit.database import Database, open_database
from appkit.installed import names
from appkit.migrating import installed, migrate
from tests.apps.databases import empty_database

PATIENCE = 60.0
TRIGGER = {
    "postgres": """
        CREATE OR REPLACE FUNCTION notes_told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        DROP TRIGGER IF EXISTS notes_told ON notes;
        CREATE TRIGGER notes_told BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION notes_told();
    """,
    "sqlite": "CREATE TRIGGER IF NOT EXISTS notes_told BEFORE UPDATE ON notes BEGIN SELECT 1; END;",
}


def own(dialect: str) -> list[str]:
    concurrently = " CONCURRENTLY" if dialect == "postgres" else ""
    return [TRIGGER[dialect], f'CREATE INDEX{concurrently} IF NOT EXISTS "notes_by_note" ON notes (note);']


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return empty_database(request, tmp_path)


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "001_notes.sql").write_text("CREATE TABLE notes (number {identity}, note text NOT NULL);")
    return folder


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[None]:
    """A session that has read the table in a transaction which stays open, as that of a backup does."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.fetch("SELECT * FROM notes")
            yield
    finally:
        await connection.close()


async def write_everything(database: Database, *statements: str) -> None:
    async with database.transaction() as (connection, _):
        for one in statements:
            await connection.execute(text(one))


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_start_that_finds_everything_asks_for_no_lock(url: str, migrations: Path) -> None:
    """Every start waited for an exclusive lock, and every other session behind it."""
    async with open_database(url, migrations, own):
        pass
    async with reading(url), asyncio.timeout(PATIENCE), open_database(url, migrations, own) as database:
        assert (await installed(database.engine, migrations, own)).complete


async def test_what_is_missing_is_told_without_changing_anything(url: str, migrations: Path) -> None:
    async with open_database(url, migrations, own, migrating=False) as database:
        found = await installed(database.engine, migrations, own)
        assert (found.usable, found.migrations, found.unknown) == (False, ("001_notes",), True)
        assert "migration 001_notes has not been applied" in str(found)
        assert await migrate(database.engine, migrations, own) == ["001_notes"]
        assert (await installed(database.engine, migrations, own)).complete
        assert await migrate(database.engine, migrations, own) == []


async def test_what_was_dropped_is_installed_again(url: str, migrations: Path) -> None:
    async with open_database(url, migrations, own) as database:
        on = " ON notes" if database.dialect == "postgres" else ""
        await write_everything(database, f"DROP TRIGGER notes_told{on}", "DROP INDEX notes_by_note")
        found = await installed(database.engine, migrations, own)
        assert len(found.missing) == 2
        assert not found.usable
        await migrate(database.engine, migrations, own)
        assert (await installed(database.engine, migrations, own)).complete


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_what_was_changed_or_turned_off_is_installed_again(url: str, migrations: Path) -> None:
    """A release that finds another release's function works with it; one that migrates puts its own in place."""
    async with open_database(url, migrations, own) as database:
        await write_everything(
            database,
            "CREATE OR REPLACE FUNCTION notes_told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "ALTER TABLE notes DISABLE TRIGGER USER",
        )
        found = await installed(database.engine, migrations, own)
        assert len(found.changed) == 2
        assert found.usable
        assert not found.complete
        await migrate(database.engine, migrations, own)
        assert (await installed(database.engine, migrations, own)).complete


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_readers_pass_a_migration_that_waits_for_a_table(url: str, migrations: Path) -> None:
    async with open_database(url, migrations, own) as database:
        (migrations / "002_more.sql").write_text("ALTER TABLE notes ADD COLUMN more text;")
        async with reading(url):
            at_work = asyncio.create_task(migrate(database.engine, migrations, own))
            async with asyncio.timeout(PATIENCE):
                await _waits(url)
                async with database.read() as connection:
                    await connection.execute(text("SELECT count(*) FROM notes"))
            assert not at_work.done()
        assert await asyncio.wait_for(at_work, PATIENCE) == ["002_more"]


async def _waits(url: str) -> None:
    """Until a session is seen that waits for a lock."""
    connection = await asyncpg.connect(url)
    while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        pass
    await connection.close()


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_a_table_that_stays_in_use_is_one_line_for_the_user(
    url: str, migrations: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_TABLE_WAIT", "_TABLE_REST"):
        monkeypatch.setattr(migrating, name, 0.05)
    async with open_database(url, migrations, own) as database:
        (migrations / "002_more.sql").write_text("ALTER TABLE notes ADD COLUMN more text;")
        async with reading(url):
            with pytest.raises(Unusable, match="another session holds it"):
                await migrate(database.engine, migrations, own)
        assert (await installed(database.engine, migrations, own)).migrations == ("002_more",)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_an_index_that_was_left_invalid_is_made_again(url: str, migrations: Path) -> None:
    async with open_database(url, migrations, lambda _: []) as database:
        await write_everything(database, "INSERT INTO notes (note) VALUES ('one'), ('one')")
        connection = await asyncpg.connect(url)
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.execute('CREATE UNIQUE INDEX CONCURRENTLY "notes_by_note" ON notes (note)')
        await migrate(database.engine, migrations, own)
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'notes_by_note'::regclass"
        assert await connection.fetchval(valid)
        await connection.close()


def test_names_are_found_however_they_are_written() -> None:
    scripts = [
        'CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS "a ""b" ON t (x)',
        "CREATE OR REPLACE FUNCTION shop.told() RETURNS trigger …",
        'create trigger if not exists one after update on t; CREATE VIEW "shop"."seen" AS …',
    ]
    assert names(scripts) == {'a "b', "told", "one", "seen"}


async def test_a_process_that_needs_only_some_of_the_objects_finds_them(url: str, migrations: Path) -> None:
    """As during a deploy: the other process has installed these and more."""

    def fewer(dialect: str) -> list[str]:
        return own(dialect)[:1]

    async with open_database(url, migrations, own) as database:
        assert (await installed(database.engine, migrations, fewer)).complete
        await migrate(database.engine, migrations, fewer)
        assert (await installed(database.engine, migrations, own)).complete
