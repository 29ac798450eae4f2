"""One caller: ours beside the raw driver on the same connection (`bind`) and beside a connection of its own (`connect`)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any

import asyncpg
import psycopg
import redis
import redis.asyncio

from bench import ours, raw
from bench.commands import Commands, walk
from bench.measure import Side, interleave, not_none
from bench.raw import Call
from bench.result import Comparison, Result, Run, by_time
from bench.tables import open_sqlite
from bench.world import World
from raceproof import bind, connect
from raceproof.testing import Server

GOAL = 0.90
GOAL_WITH_HISTORY = 0.85
_ROWS = 400


class Pair:
    """Our call and the reference's, and where they run."""

    def __init__(
        self,
        table: Commands,
        ours: Call,
        reference: Call,
        server: Server | None,
        awaits: bool = False,
    ) -> None:
        self.table = table
        self.ours = ours
        self.reference = reference
        self.server = server
        self.awaits = awaits


Opening = Callable[[World, bool, AsyncExitStack], Awaitable[Pair]]


def comparisons(world: World) -> Iterator[Comparison]:
    for name, opening in _OPENINGS.items():
        for history in (False, True):
            told = f"one caller · {name} · history {'on' if history else 'off'}"
            yield Comparison(told, _measured(world, told, opening, history))


def _measured(world: World, name: str, opening: Opening, history: bool) -> Run:
    async def run() -> list[Result]:
        async with AsyncExitStack() as stack:
            pair = await opening(world, history, stack)
            sides = [
                Side(pair.ours, walk(pair.table.ours), ours.won, pair.awaits),
                Side(pair.reference, walk(pair.table.others), not_none, pair.awaits),
            ]
            scale = world.scale
            taken = await interleave(sides, scale.rounds, scale.permits, scale.alone, pair.server)
        goal = GOAL_WITH_HISTORY if history else GOAL
        mine, theirs = taken.medians
        return [by_time(name, mine, theirs, goal, taken.costs)]

    return run


async def _sqlite_bind(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table, path = world.on_sqlite(_ROWS, history)
    connection = stack.enter_context(closing(open_sqlite(path)))
    return Pair(table, ours.one(bind(connection), table), raw.with_sqlite(connection, table), None)


async def _sqlite_connect(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    # a file for each: two connections that write to one file would throw away each other's page cache
    table, path = world.on_sqlite(_ROWS, history)
    other, other_path = world.on_sqlite(_ROWS, history)
    db = stack.enter_context(connect(f"sqlite:///{path}"))
    connection = stack.enter_context(closing(open_sqlite(other_path)))
    return Pair(table, ours.one(db, table), raw.with_sqlite(connection, other), None)


async def _sqlite_async(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table, path = world.on_sqlite(_ROWS, history)
    other, other_path = world.on_sqlite(_ROWS, history)
    db = await stack.enter_async_context(connect(f"sqlite:///{path}"))
    loop = asyncio.get_running_loop()
    thread = stack.enter_context(ThreadPoolExecutor(1))
    connection = stack.enter_context(closing(open_sqlite(other_path)))
    call = raw.with_sqlite(connection, other)
    return Pair(
        table,
        ours.one(db, table),
        lambda step, key: loop.run_in_executor(thread, call, step, key),
        None,
        awaits=True,
    )


@asynccontextmanager
async def _asyncpg(world: World) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(world.postgres_url)
    try:
        yield connection
    finally:
        await connection.close()


async def _asyncpg_bind(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_postgres(_ROWS, history)
    connection = await stack.enter_async_context(_asyncpg(world))
    reference = raw.with_asyncpg(connection, table)
    return Pair(table, ours.one(bind(connection), table), reference, world.postgres, awaits=True)


async def _asyncpg_connect(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_postgres(_ROWS, history)
    db = await stack.enter_async_context(connect(world.postgres_url))
    connection = await stack.enter_async_context(_asyncpg(world))
    reference = raw.with_asyncpg(connection, table)
    return Pair(table, ours.one(db, table), reference, world.postgres, awaits=True)


async def _psycopg_bind(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_postgres(_ROWS, history)
    connection = stack.enter_context(psycopg.connect(world.postgres_url, autocommit=True))
    return Pair(table, ours.one(bind(connection), table), raw.with_psycopg(connection, table), world.postgres)


async def _psycopg_connect(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_postgres(_ROWS, history)
    db = stack.enter_context(connect(world.postgres_url))
    connection = stack.enter_context(psycopg.connect(world.postgres_url, autocommit=True))
    return Pair(table, ours.one(db, table), raw.with_psycopg(connection, table), world.postgres)


async def _psycopg_async(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_postgres(_ROWS, history)
    connection = await stack.enter_async_context(
        await psycopg.AsyncConnection.connect(world.postgres_url, autocommit=True)
    )
    reference = raw.with_async_psycopg(connection, table)
    return Pair(table, ours.one(bind(connection), table), reference, world.postgres, awaits=True)


async def _redis_bind(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_redis(_ROWS, history)
    client = stack.enter_context(redis.Redis.from_url(world.valkey.url))
    reference = raw.with_redis(client, table, client.script_load(raw.script(table)))
    return Pair(table, ours.one(bind(client), table), reference, world.valkey)


async def _redis_connect(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_redis(_ROWS, history)
    db = stack.enter_context(connect(world.valkey.url))
    client = stack.enter_context(redis.Redis.from_url(world.valkey.url))
    reference = raw.with_redis(client, table, client.script_load(raw.script(table)))
    return Pair(table, ours.one(db, table), reference, world.valkey)


async def _redis_async_bind(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_redis(_ROWS, history)
    client = await stack.enter_async_context(redis.asyncio.Redis.from_url(world.valkey.url))
    reference = raw.with_redis(client, table, await client.script_load(raw.script(table)))
    return Pair(table, ours.one(bind(client), table), reference, world.valkey, awaits=True)


async def _redis_async_connect(world: World, history: bool, stack: AsyncExitStack) -> Pair:
    table = world.on_redis(_ROWS, history)
    db = await stack.enter_async_context(connect(world.valkey.url))
    client = await stack.enter_async_context(redis.asyncio.Redis.from_url(world.valkey.url))
    reference = raw.with_redis(client, table, await client.script_load(raw.script(table)))
    return Pair(table, ours.one(db, table), reference, world.valkey, awaits=True)


_OPENINGS: dict[str, Opening] = {
    "SQLite, sqlite3 · bind": _sqlite_bind,
    "SQLite, sqlite3 · connect": _sqlite_connect,
    "SQLite, sqlite3 in a thread · async connect": _sqlite_async,
    "PostgreSQL, asyncpg · bind": _asyncpg_bind,
    "PostgreSQL, asyncpg · connect": _asyncpg_connect,
    "PostgreSQL, psycopg · bind": _psycopg_bind,
    "PostgreSQL, psycopg · connect": _psycopg_connect,
    "PostgreSQL, async psycopg · bind": _psycopg_async,
    "Redis, redis-py · bind": _redis_bind,
    "Redis, redis-py · connect": _redis_connect,
    "Redis, redis.asyncio · bind": _redis_async_bind,
    "Redis, redis.asyncio · connect": _redis_async_connect,
}
