"""Guards run on both databases that have triggers."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import fresh_name
from tests.library.guard.fix_guarded import Guarded, GuardedPostgres, GuardedSqlite


@pytest.fixture
def on_postgres(postgres_server: PostgresServer) -> Iterator[GuardedPostgres]:
    """PostgreSQL with a connection and a schema of this test's own: guards are called after their lifecycle."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        schema = fresh_name("guarded")
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path = {schema}".encode())
        yield GuardedPostgres(connection)


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[GuardedSqlite]:
    """SQLite with a file of this test's own."""
    connection = sqlite3.connect(tmp_path / "guarded.db", isolation_level=None)
    yield GuardedSqlite(connection)
    connection.close()


@pytest.fixture(params=["postgres", "sqlite"])
def at(request: pytest.FixtureRequest) -> Guarded:
    """Either of them."""
    found: Guarded = request.getfixturevalue(f"on_{request.param}")
    return found
