"""The thirteen kinds of connection that the contract runs on, each opened for one test."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio

from raceproof import AsyncStore, Store, bind, connect
from raceproof.testing import PostgresServer, ValkeyServer
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, RedisGround, SqliteGround

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
