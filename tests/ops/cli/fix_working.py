"""Stores with the tables of `working`, and a library handle on each to make things happen."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from raceproof import Lease, Store, connect
from raceproof.declare import spec_of
from raceproof.schema import Dialect
from raceproof.testing import ValkeyServer
from tests.ddl import script
from tests.ops.cli import working

WORKING = "tests.ops.cli.working"
LONG_AGO = datetime.now(UTC) - timedelta(days=100)

_TABLES = """
CREATE TABLE work_jobs (
    id text PRIMARY KEY, status text NOT NULL, rev bigint NOT NULL DEFAULT 0, made_at integer, attempts integer,
    rests_until {time}, claimed_by text, claimed_until {time}, fence bigint
);
CREATE TABLE work_lines (
    id text PRIMARY KEY, status text NOT NULL, made_at integer, device text, attempts integer,
    claimed_by text, claimed_until {time}, fence bigint
);
CREATE TABLE work_drafts (id text PRIMARY KEY, status text NOT NULL, taken_at {time}, error text);
CREATE TABLE work_logins (
    id text PRIMARY KEY, status text NOT NULL, owner text NOT NULL, began_at {time}, superseded_by text
);
CREATE TABLE work_pictures (
    id text PRIMARY KEY, state text, sender text, send_error text, tries integer, delivering_at {time}, delivered_at {time}
);
"""


def tables(dialect: Dialect) -> str:
    """The DDL of a whole database, without the indexes of claims."""
    time = {"postgres": "timestamptz", "sqlite": "text"}[dialect]
    return (
        _TABLES.format(time=time)
        + script(spec_of(working.Job), dialect=dialect, only="tables")
        + script(Lease("any", table=working.bot_lease.table), dialect=dialect)
        + script(working.events, dialect=dialect)
    )


@dataclass
class Place:
    """One store: its URL for the command line, the library on it, and a way around the library."""

    url: str
    db: Store
    raw: Any

    @property
    def target(self) -> tuple[str, ...]:
        return ("--app", WORKING, "--url", self.url)

    def put(self, table: str, **columns: Any) -> None:
        """A row, written by somebody else."""
        if self.db.dialect == "redis":
            self.raw.hset(f"{table}:{columns['id']}", mapping=columns)
            return
        places = ", ".join(("%s" if self.db.dialect == "postgres" else "?",) * len(columns))
        text = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
        self.raw.execute(text, tuple(columns.values()))

    def job(self, key: str, made_at: int = 0, **columns: Any) -> None:
        self.put("work_jobs", id=key, status="QUEUED", made_at=made_at, **columns)
        self.db.offer(working.Job.work, [key])

    def line(self, key: str, device: str, made_at: int = 0) -> None:
        self.put("work_lines", id=key, status="QUEUED", made_at=made_at, device=device)
        self.db.offer(working.Line.work, [key])


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[Place]:
    path = tmp_path / "working.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.executescript(tables("sqlite"))
        with connect(f"sqlite:///{path}") as db:
            yield Place(f"sqlite:///{path}", db, raw)


@pytest.fixture
def postgres_place(empty_postgres: str) -> Iterator[Place]:
    with psycopg.connect(empty_postgres, autocommit=True) as raw, connect(empty_postgres) as db:
        raw.execute(tables("postgres").encode())
        yield Place(empty_postgres, db, raw)


@pytest.fixture
def valkey_place(valkey_server: ValkeyServer) -> Iterator[Place]:
    url = valkey_server.url.removesuffix("/0") + "/10"
    with redis.Redis.from_url(url, decode_responses=True) as raw, connect(url) as db:
        raw.flushdb()
        yield Place(url, db, raw)
        raw.flushdb()


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of store in turn."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def sql_place(request: pytest.FixtureRequest) -> Place:
    """The stores that can be searched."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found
