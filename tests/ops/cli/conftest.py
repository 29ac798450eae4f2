"""The command line in this process and in processes of its own, on tables and rows in each kind of store."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from click.testing import CliRunner, Result

from raceproof.declare import spec_of
from raceproof.ops.cli.program import program
from raceproof.testing import ValkeyServer
from tests.ddl import script
from tests.ops.cli import declared
from tests.ops.cli.declared import Command
from tests.ops.cli.fix_working import place, postgres_place, sql_place, sqlite_place, valkey_place

__all__ = ["place", "postgres_place", "sql_place", "sqlite_place", "valkey_place"]

Cli = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]

APP = "tests.ops.cli.declared"
UUID = "0e4b1b1c-8d3a-4c6e-9a55-6d1f3a1c2b7f"

TABLES = """
CREATE TABLE commands (
    cmd_id text PRIMARY KEY, status text NOT NULL, rev integer NOT NULL DEFAULT 0, duration_ms integer, note text
);
CREATE TABLE jobs (id integer PRIMARY KEY, status text NOT NULL, attempts integer NOT NULL);
CREATE TABLE tickets (id {uuid} PRIMARY KEY, status text NOT NULL);
CREATE TABLE lines (
    shop text, order_id integer, position integer, status text NOT NULL, PRIMARY KEY (shop, order_id, position)
);
CREATE TABLE payments (id integer PRIMARY KEY, status text NOT NULL, amount integer NOT NULL);
"""

ROWS: dict[str, list[dict[str, Any]]] = {
    "commands": [{"cmd_id": f"c-{i}", "status": "QUEUED", "rev": 0} for i in range(1, 6)],
    "jobs": [{"id": 42, "status": "NEW", "attempts": 0}, {"id": 43, "status": "NEW", "attempts": 3}],
    "tickets": [{"id": UUID, "status": "NEW"}],
    "lines": [{"shop": "acme", "order_id": 7, "position": 2, "status": "NEW"}],
    "payments": [{"id": 1, "status": "NEW", "amount": 10}],
}

REDIS_KEYS = {
    "commands": "{cmd_id}",
    "jobs": "{id}",
    "tickets": "{id}",
    "lines": "{shop}:{order_id}:{position}",
    "payments": "{id}",
}


@pytest.fixture
def cli() -> Cli:
    """Run the command line in this process; settings of whoever runs the tests do not reach it."""
    names = ("RACEPROOF_URL", "DATABASE_URL", "RACEPROOF_APP", "RACEPROOF_BY", "NO_COLOR", "FORCE_COLOR")
    runner = CliRunner(env=dict.fromkeys(names))

    def run(*args: str, **options: Any) -> Result:
        result = runner.invoke(program, list(args), **options)
        assert "Traceback" not in result.output
        return result

    return run


@pytest.fixture
def process(tmp_path: Path) -> Process:
    """Run `raceproof` as a process of its own, in a folder that has the module `declared`."""
    shutil.copy(declared.__file__, tmp_path / "declared.py")

    def run(*args: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        settings = {"capture_output": True, "text": True, "cwd": tmp_path, **options}
        settings["env"] = environment() | options.get("env", {})
        return subprocess.run(command_line(*args), **settings)

    return run


def command_line(*args: str) -> list[str]:
    return [str(Path(sys.executable).with_name("raceproof")), *args]


def environment() -> dict[str, str]:
    ours = ("RACEPROOF_", "DATABASE_URL", "NO_COLOR", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An SQLite file with the tables and rows."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES.format(uuid="text") + script(spec_of(Command), dialect="sqlite", only="tables"))
        for table, rows in ROWS.items():
            for row in rows:
                places = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))
        connection.commit()
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(empty_postgres: str) -> str:
    """A PostgreSQL database with the tables and rows."""
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute(TABLES.format(uuid="uuid").encode())
        connection.execute(script(spec_of(Command), dialect="postgres", only="tables").encode())
        for table, rows in ROWS.items():
            for row in rows:
                places = ", ".join(["%s"] * len(row))
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})".encode(), list(row.values())
                )
    return empty_postgres


@pytest.fixture
def valkey_url(valkey_server: ValkeyServer) -> Iterator[str]:
    """A database of Valkey with the rows as hashes."""
    url = valkey_server.url.removesuffix("/0") + "/9"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        for table, rows in ROWS.items():
            for row in rows:
                client.hset(f"{table}:{REDIS_KEYS[table].format(**row)}", mapping=row)
        yield url
        client.flushdb()


@pytest.fixture(params=["sqlite", "postgres", "valkey"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Each kind of store in turn, with the same rows."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
