"""The stores that the contract runs on: how a table is made there, how a row is put and read without the library.

A ground differs from another only here. The contract itself never asks which one it stands on.
"""

import inspect
import itertools
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio

from raceproof import AsyncStore, Inbox, Lease, Store, bind, connect
from raceproof.declare import Claimable, Spec
from raceproof.declare import claim_forms as forms
from raceproof.kernel.keys import key_text
from raceproof.kernel.quoting import identifier, qualified
from raceproof.ops.verify import Finding, verify
from raceproof.schema import Dialect
from raceproof.testing import PostgresServer, ValkeyServer
from tests.ddl import script

_numbers = itertools.count(1)

Columns = dict[str, str]


def fresh_name(base: str = "rows") -> str:
    """A table name that no other test has."""
    return f"{base}_{os.getpid()}_{next(_numbers)}"


class Caller:
    """A sync or async store, always called with await, so that one test serves both."""

    def __init__(self, store: Store | AsyncStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.store, name)

        async def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return call

    async def verify(self, declared: Any) -> list[Finding]:
        found: Any = verify(self.store, declared)
        result: list[Finding] = await found if inspect.isawaitable(found) else found
        return result

    def for_tenant(self, tenant: Any) -> "Caller":
        return Caller(self.store.for_tenant(tenant))


class Ground(Protocol):
    """One store, with a library handle on it and a way around the library."""

    db: Caller

    def table(self, spec: Spec[Any], types: Columns | None = None) -> None: ...
    def lease_table(self, table: str) -> None: ...
    def inbox_table(self, inbox: Inbox) -> None: ...
    def put(self, spec: Spec[Any], key: Any, status: str, **columns: Any) -> None: ...
    def get(self, spec: Spec[Any], key: Any) -> dict[str, Any]: ...
    def remove(self, spec: Spec[Any], key: Any) -> None: ...


class SqlGround:
    """What PostgreSQL and SQLite share."""

    dialect: Dialect
    number = "bigint"
    time: str
    mark: str

    def __init__(self, db: Caller, run: Callable[..., list[tuple[Any, ...]]]) -> None:
        self.db = db
        self.run = run

    def table(self, spec: Spec[Any], types: Columns | None = None) -> None:
        kinds = dict.fromkeys((*spec.key_columns, spec.column), "text")
        for one in spec.moves.values():
            kinds |= dict.fromkeys(one.stamp, self.time) | dict.fromkeys(one.sets, "text")
        kinds |= {column: self.number for column in (spec.revision, spec.fence) if column}
        for claim in spec.claims.values():
            kinds |= self._claim_columns(claim)
        kinds |= types or {}
        listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in kinds.items())
        keys = ", ".join(identifier(column) for column in spec.key_columns)
        self.run(f"CREATE TABLE {qualified(spec.table)} ({listed}, PRIMARY KEY ({keys}))")
        for statement in script(spec, dialect=self.dialect, only="tables").split(";"):
            if statement.strip():
                self.run(statement)

    def lease_table(self, table: str) -> None:
        self.run(script(Lease("any", table=table), dialect=self.dialect))

    def inbox_table(self, inbox: Inbox) -> None:
        for statement in script(inbox, dialect=self.dialect).split(";"):
            if statement.strip():
                self.run(statement)

    def _claim_columns(self, claim: Claimable[Any]) -> Columns:
        match claim.form:
            case forms.ClaimColumns(holder=holder, until=until, fence=fence):
                kinds = {holder: "text", until: self.time, fence: self.number}
            case forms.TimestampClaim(column=column):
                kinds = {column: self.time}
            case forms.TextMarker(column=column):
                kinds = {column: "text"}
        kinds |= {claim.attempts: "integer"} if claim.attempts else {}
        return kinds | ({claim.not_before: self.time} if claim.not_before else {})

    def put(self, spec: Spec[Any], key: Any, status: str, **columns: Any) -> None:
        values = {**self._key(spec, key), spec.column: status, **columns}
        if spec.revision:
            values.setdefault(spec.revision, 0)
        names = ", ".join(self._text(identifier(name)) for name in values)
        marks = ", ".join(self.mark for _ in values)
        table = self._text(qualified(spec.table))
        self.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(map(self._value, values.values())))

    def get(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        columns = sorted({spec.column, *self._written(spec)})
        names = ", ".join(self._text(identifier(name)) for name in columns)
        where = " AND ".join(f"{self._text(identifier(name))} = {self.mark}" for name in spec.key_columns)
        text = f"SELECT {names} FROM {self._text(qualified(spec.table))} WHERE {where}"
        (row,) = self.run(text, tuple(map(self._value, self._key(spec, key).values())))
        return {name: None if value is None else str(value) for name, value in zip(columns, row, strict=True)}

    def remove(self, spec: Spec[Any], key: Any) -> None:
        where = " AND ".join(f"{self._text(identifier(name))} = {self.mark}" for name in spec.key_columns)
        text = f"DELETE FROM {self._text(qualified(spec.table))} WHERE {where}"
        self.run(text, tuple(map(self._value, self._key(spec, key).values())))

    def _text(self, quoted: str) -> str:
        """A quoted name in a text with parameters of this driver's style."""
        return quoted.replace("%", "%%") if self.mark == "%s" else quoted

    def _written(self, spec: Spec[Any]) -> set[str]:
        columns = {column for one in spec.moves.values() for column in (*one.stamp, *one.sets)}
        return columns | {column for column in (spec.revision, spec.fence) if column} | claim_columns(spec)

    def _key(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        parts = key if isinstance(key, tuple) else (key,)
        return dict(zip(spec.key_columns, parts, strict=True))

    def _value(self, value: Any) -> Any:
        return value


class PostgresGround(SqlGround):
    dialect: Dialect = "postgres"
    time = "timestamptz"
    mark = "%s"


class SqliteGround(SqlGround):
    dialect: Dialect = "sqlite"
    time = "text"
    mark = "?"

    def _value(self, value: Any) -> Any:
        return str(value) if isinstance(value, UUID) else value


class RedisGround:
    """Rows are hashes: there is no table to make."""

    def __init__(self, db: Caller, client: Any) -> None:
        self.db = db
        self._client = client

    def table(self, spec: Spec[Any], types: Columns | None = None) -> None:
        """A hash needs no table."""

    def lease_table(self, table: str) -> None:
        """Nor does a lease."""

    def inbox_table(self, inbox: Inbox) -> None:
        """Nor does an inbox."""

    def put(self, spec: Spec[Any], key: Any, status: str, **columns: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        fields = dict(zip(spec.key_columns, map(str, parts), strict=True)) | {spec.column: status}
        if spec.revision:
            fields[spec.revision] = "0"
        fields |= {name: str(value) for name, value in columns.items() if value is not None}
        self._client.hset(f"{spec.table}:{key_text(parts)}", mapping=fields)

    def get(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        parts = key if isinstance(key, tuple) else (key,)
        found = self._client.hgetall(f"{spec.table}:{key_text(parts)}")
        columns = {column for one in spec.moves.values() for column in (*one.stamp, *one.sets)}
        columns |= {column for column in (spec.column, spec.revision, spec.fence) if column} | claim_columns(spec)
        return {name: found.get(name) for name in sorted(columns)}

    def remove(self, spec: Spec[Any], key: Any) -> None:
        self._client.delete(f"{spec.table}:{key_text(key if isinstance(key, tuple) else (key,))}")


def claim_columns(spec: Spec[Any]) -> set[str]:
    """The columns that the claims of a lifecycle write."""
    columns: set[str] = set()
    for claim in spec.claims.values():
        columns |= {*forms.form_columns(claim.form), *(c for c in (claim.attempts, claim.not_before) if c)}
    return columns


KINDS = (
    "sqlite3",
    "sqlite connect",
    "sqlite connect async",
    "asyncpg",
    "asyncpg pool",
    "psycopg",
    "psycopg async",
    "postgres connect",
    "postgres connect async",
    "redis",
    "redis async",
    "redis connect",
    "redis connect async",
)


@asynccontextmanager
async def open_ground(
    kind: str, postgres: Callable[[], PostgresServer], valkey: Callable[[], ValkeyServer], folder: Path
) -> AsyncIterator[Ground]:
    """A ground of one kind, for one test."""
    async with AsyncExitStack() as stack:
        if kind.startswith("sqlite"):
            path = folder / "ground.db"
            own = sqlite3.connect(path, isolation_level=None, timeout=30)
            stack.callback(own.close)
            own.execute("PRAGMA journal_mode = WAL")
            db = await _sqlite(kind, own, path, stack)
            yield SqliteGround(Caller(db), lambda text, params=(): own.execute(text, params).fetchall())
        elif kind.startswith("redis"):
            url = valkey().url
            client = redis.Redis.from_url(url, decode_responses=True)
            stack.callback(client.close)
            yield RedisGround(Caller(await _redis(kind, url, stack)), client)
        else:
            url = postgres().url
            admin = psycopg.connect(url, autocommit=True)
            stack.callback(admin.close)

            def run(text: str, params: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
                cursor = admin.execute(text, params)
                return cursor.fetchall() if cursor.description else []

            yield PostgresGround(Caller(await _postgres(kind, url, stack)), run)


def asked_ground(request: pytest.FixtureRequest, folder: Path) -> AbstractAsyncContextManager[Ground]:
    """A ground of the kind that the parameter of a fixture names, on the servers of the run."""
    return open_ground(
        request.param,
        lambda: request.getfixturevalue("postgres_server"),
        lambda: request.getfixturevalue("valkey_server"),
        folder,
    )


async def _sqlite(kind: str, own: sqlite3.Connection, path: Path, stack: AsyncExitStack) -> Store | AsyncStore:
    if kind == "sqlite3":
        return bind(own)
    if kind == "sqlite connect":
        return stack.enter_context(connect(f"sqlite:///{path}"))
    return await stack.enter_async_context(connect(f"sqlite:///{path}"))


async def _redis(kind: str, url: str, stack: AsyncExitStack) -> Store | AsyncStore:
    if kind == "redis":
        client = redis.Redis.from_url(url)
        stack.callback(client.close)
        return bind(client)
    if kind == "redis async":
        async_client = redis.asyncio.Redis.from_url(url)
        stack.push_async_callback(async_client.aclose)
        return bind(async_client)
    if kind == "redis connect":
        return stack.enter_context(connect(url))
    return await stack.enter_async_context(connect(url))


async def _postgres(kind: str, url: str, stack: AsyncExitStack) -> Store | AsyncStore:
    if kind == "asyncpg":
        connection = await asyncpg.connect(url)
        stack.push_async_callback(connection.close)
        return bind(connection)
    if kind == "asyncpg pool":
        return bind(await stack.enter_async_context(asyncpg.create_pool(url, min_size=1, max_size=4)))
    if kind == "psycopg":
        sync = psycopg.connect(url, autocommit=True)
        stack.callback(sync.close)
        return bind(sync)
    if kind == "psycopg async":
        return bind(await stack.enter_async_context(await psycopg.AsyncConnection.connect(url, autocommit=True)))
    if kind == "postgres connect":
        return stack.enter_context(connect(url))
    return await stack.enter_async_context(connect(url))
