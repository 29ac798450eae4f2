"""Servers for the tests: started when the first test asks, one of each for the whole run.

A test that kills or pauses its server starts its own, with `raceproof.testing.postgres()` or `valkey()`.
"""

import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psycopg
import pytest

from raceproof.testing import PostgresServer, ServerMissing, ValkeyServer, postgres, valkey
from raceproof.testing.binaries import find_postgres, find_valkey, version_of

DRIVERS = ("asyncpg", "psycopg", "redis", "sqlalchemy", "aiosqlite", "django")

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Bytes that have to be free there; a run needs less than one GiB."""


def pytest_configure() -> None:
    _keep_files_in_memory()
    # a run in the background of a shell ignores Ctrl-C, and so would the programs that the tests interrupt
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_files_in_memory() -> None:
    """Databases sync as in production, but to a file system in memory where there is one; TMPDIR decides otherwise."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return
    if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return  # servers may have to be copied there
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # to be looked up once more


def pytest_report_header() -> list[str]:
    """Which versions a result is about."""
    newest = _version(lambda: find_postgres() / "postgres")
    older = _version(lambda: find_postgres(16) / "postgres")
    return [
        f"servers: PostgreSQL {newest} and {older}, Valkey {_version(find_valkey)}",
        f"drivers: SQLite {sqlite3.sqlite_version}, " + ", ".join(f"{name} {_version(name)}" for name in DRIVERS),
    ]


def _version(of: str | Callable[[], Path]) -> str:
    try:
        return version(of) if isinstance(of, str) else version_of(of())
    except (PackageNotFoundError, ServerMissing):
        return "(missing)"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The newest PostgreSQL that there is. Take a database of your own: `postgres_server.database()`."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def _emptied_again_and_again(postgres_server: PostgresServer) -> str:
    return postgres_server.database()


@pytest.fixture
def empty_postgres(_emptied_again_and_again: str) -> str:
    """The URL of a database with nothing in it, which is had sooner than one of your own: what others made there is gone."""
    with psycopg.connect(_emptied_again_and_again, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute("GRANT USAGE ON SCHEMA public TO public")
    return _emptied_again_and_again


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """A Valkey for everybody. Take keys of your own."""
    with valkey() as server:
        yield server
