"""Where the races are run: one URL for a store, and how to make rows there and look at them without the library."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from raceproof.declare import Spec
from raceproof.kernel.quoting import identifier, qualified
from tests.ddl import script


class Place:
    """A store that many processes reach by the same URL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def prepare(self, spec: Spec[Any], rows: dict[str, str]) -> None:
        """Make the table and the history of a lifecycle, with these rows in these statuses."""
        raise NotImplementedError

    def naive(self) -> tuple[Callable[[Spec[Any], str], str], Callable[[Spec[Any], str, str], None]]:
        """What people write: read the status; write a status. On a connection of the calling process."""
        raise NotImplementedError


class SqlPlace(Place):
    """What PostgreSQL and SQLite share."""

    def _schema(self, spec: Spec[Any], number: str) -> list[str]:
        table = qualified(spec.table)
        columns = f"id text PRIMARY KEY, {identifier(spec.column)} text NOT NULL, rev {number} NOT NULL DEFAULT 0"
        return [f"CREATE TABLE {table} ({columns})"]


class SqlitePlace(SqlPlace):
    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)

    def prepare(self, spec: Spec[Any], rows: dict[str, str]) -> None:
        connection = self._connect()
        connection.execute("PRAGMA journal_mode = WAL")
        for text in self._schema(spec, "integer"):
            connection.execute(text)
        connection.executescript(script(spec, dialect="sqlite", only="tables"))
        connection.execute("BEGIN")
        insert = f"INSERT INTO {qualified(spec.table)} (id, status) VALUES (?, ?)"
        connection.executemany(insert, list(rows.items()))
        connection.execute("COMMIT")
        connection.close()

    def naive(self) -> tuple[Callable[[Spec[Any], str], str], Callable[[Spec[Any], str, str], None]]:
        connection = self._connect()

        def read(spec: Spec[Any], key: str) -> str:
            text = f"SELECT status FROM {qualified(spec.table)} WHERE id = ?"
            return str(connection.execute(text, (key,)).fetchone()[0])

        def write(spec: Spec[Any], key: str, status: str) -> None:
            connection.execute(f"UPDATE {qualified(spec.table)} SET status = ? WHERE id = ?", (status, key))

        return read, write


class PostgresPlace(SqlPlace):
    def prepare(self, spec: Spec[Any], rows: dict[str, str]) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for text in (*self._schema(spec, "bigint"), script(spec, dialect="postgres", only="tables")):
                connection.execute(text)
            insert = f"INSERT INTO {qualified(spec.table)} (id, status) VALUES (%s, %s)"
            connection.cursor().executemany(insert, list(rows.items()))

    def naive(self) -> tuple[Callable[[Spec[Any], str], str], Callable[[Spec[Any], str, str], None]]:
        connection = psycopg.connect(self.url, autocommit=True)

        def read(spec: Spec[Any], key: str) -> str:
            text = f"SELECT status FROM {qualified(spec.table)} WHERE id = %s"
            row = connection.execute(text, (key,)).fetchone()
            assert row is not None
            return str(row[0])

        def write(spec: Spec[Any], key: str, status: str) -> None:
            connection.execute(f"UPDATE {qualified(spec.table)} SET status = %s WHERE id = %s", (status, key))

        return read, write


class RedisPlace(Place):
    def prepare(self, spec: Spec[Any], rows: dict[str, str]) -> None:
        with redis.Redis.from_url(self.url) as client, client.pipeline() as pipeline:
            for key, status in rows.items():
                pipeline.hset(f"{spec.table}:{key}", mapping={"status": status, "rev": "0"})
            pipeline.execute()

    def naive(self) -> tuple[Callable[[Spec[Any], str], str], Callable[[Spec[Any], str, str], None]]:
        client: Any = redis.Redis.from_url(self.url, decode_responses=True)

        def read(spec: Spec[Any], key: str) -> str:
            return str(client.hget(f"{spec.table}:{key}", "status"))

        def write(spec: Spec[Any], key: str, status: str) -> None:
            client.hset(f"{spec.table}:{key}", "status", status)

        return read, write


def open_place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    if kind == "sqlite":
        return SqlitePlace(f"sqlite:///{folder / 'race.db'}")
    if kind == "postgres":
        return PostgresPlace(request.getfixturevalue("postgres_server").url)
    return RedisPlace(request.getfixturevalue("valkey_server").url)
