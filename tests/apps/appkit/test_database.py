"""Migrations are applied once, however many instances start together; moments are the same on both databases."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, String, Table, insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from appkit.database import Moment, moment_value, open_database, store_now
from tests.apps.databases import empty_database


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return empty_database(request, tmp_path)


@pytest.fixture
def migrations(tmp_path: Path) -> Path:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "001_notes.sql").write_text(
        "CREATE TABLE notes (number {identity}, note text NOT NULL, at {moment} NOT NULL DEFAULT {now});\n"
        "INSERT INTO notes (note) VALUES ('a; b');"
    )
    (folder / "002_more.sql").write_text("INSERT INTO notes (note) VALUES ('second');")
    return folder


async def test_each_migration_is_applied_once_also_by_many_at_once(url: str, migrations: Path) -> None:
    async def start() -> list[str]:
        async with open_database(url, migrations, lambda _: []) as database, database.read() as connection:
            return list((await connection.execute(text("SELECT note FROM notes ORDER BY number"))).scalars())

    assert await asyncio.gather(*(start() for _ in range(6))) == [["a; b", "second"]] * 6
    (migrations / "003_third.sql").write_text("INSERT INTO notes (note) VALUES ('third');")
    assert (await start())[-1] == "third"


async def test_a_migration_that_fails_leaves_nothing_behind(url: str, migrations: Path) -> None:
    (migrations / "003_broken.sql").write_text(
        "INSERT INTO notes (note) VALUES ('half');\nINSERT INTO nowhere VALUES (1);"
    )
    with pytest.raises(Exception, match="nowhere"):
        async with open_database(url, migrations, lambda _: []):
            pass
    (migrations / "003_broken.sql").unlink()
    async with open_database(url, migrations, lambda _: []) as database, database.read() as connection:
        assert list((await connection.execute(text("SELECT note FROM notes ORDER BY number"))).scalars()) == [
            "a; b",
            "second",
        ]


async def test_a_moment_comes_back_as_it_was_given(url: str, migrations: Path) -> None:
    notes = Table("notes", MetaData(), Column("note", String), Column("at", Moment()))
    noon = datetime(2026, 1, 31, 12, 0, 0, 5000, UTC)
    async with open_database(url, migrations, lambda _: []) as database:
        async with database.transaction() as (connection, _):
            await connection.execute(insert(notes).values(note="noon", at=noon))
            await connection.execute(insert(notes).values(note="now", at=store_now(connection)))
        async with database.read() as connection:
            found = dict((await connection.execute(select(notes.c.note, notes.c.at))).all())
            now = (await connection.execute(select(store_now(connection)))).scalar_one()
        assert found["noon"] == noon
        assert abs((now - found["now"]).total_seconds()) < 60
        assert moment_value(database, noon) in (noon, "2026-01-31 12:00:00.005")


async def test_a_transaction_that_raises_is_rolled_back(url: str, migrations: Path) -> None:
    async with open_database(url, migrations, lambda _: []) as database:

        async def interrupted() -> None:
            async with database.transaction() as (connection, _):
                await connection.execute(text("INSERT INTO notes (note) VALUES ('never')"))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            await interrupted()
        async with database.read() as connection:
            assert "never" not in (await connection.execute(text("SELECT note FROM notes"))).scalars().all()


def test_another_database_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="mysql"):
        _engine("mysql://here")


def _engine(url: str) -> AsyncEngine:
    from appkit.database import _driver_url

    return create_async_engine(_driver_url(url))
