"""A bulk of 1000 rows by `move_many`, beside as many single moves on the same connection."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from typing import Any

import asyncpg
import psycopg
import redis
import redis.asyncio

from bench import ours
from bench.commands import Commands, even, key_of
from bench.measure import Side, interleave
from bench.result import Comparison, Result, Run, by_time
from bench.tables import open_sqlite
from bench.world import World
from raceproof import bind
from raceproof.testing import Server

GOAL = 25.0
_BULKS = 8

Opened = tuple[Commands, Any, Server | None]
Opening = Callable[[World, bool, AsyncExitStack], Awaitable[Opened]]


def comparisons(world: World) -> Iterator[Comparison]:
    for store, (opening, awaits) in _OPENINGS.items():
        for history in (False, True):
            name = f"bulk of {world.scale.bulk} ÷ singles, rows/s · {store} · history {'on' if history else 'off'}"
            yield Comparison(name, _measured(world, name, opening, awaits, history))


def _measured(world: World, name: str, opening: Opening, awaits: bool, history: bool) -> Run:
    async def run() -> list[Result]:
        async with AsyncExitStack() as stack:
            table, db, server = await opening(world, history, stack)
            single = ours.one(db, table)
            size = world.scale.bulk

            def singles(step: int, keys: list[str]) -> list[Any]:
                return [single(step, key) for key in keys]

            async def async_singles(step: int, keys: list[str]) -> list[Any]:
                return [await single(step, key) for key in keys]

            sides = [
                Side(ours.many(db, table), _batches(table.ours, size), ours.all_won, awaits, warm_up=1),
                Side(
                    async_singles if awaits else singles,
                    _batches(table.others, size),
                    ours.all_won,
                    awaits,
                    warm_up=1,
                ),
            ]
            scale = world.scale
            taken = await interleave(sides, scale.bulk_rounds, 0.0, scale.alone, server)
        bulks, singles_ = taken.medians
        return [by_time(name, bulks, singles_, GOAL, taken.costs, each=size)]

    return run


def _batches(rows: range, size: int) -> Iterator[tuple[int, list[str]]]:
    rows = even(rows)
    batches = [[key_of(row) for row in rows[start : start + size]] for start in range(0, len(rows), size)]
    while True:
        for step in (0, 1):
            for batch in batches:
                yield step, batch


async def _asyncpg(world: World, history: bool, stack: AsyncExitStack) -> Opened:
    connection = await asyncpg.connect(world.postgres_url)
    stack.push_async_callback(connection.close)
    return world.on_postgres(world.scale.bulk * _BULKS, history), bind(connection), world.postgres


async def _psycopg(world: World, history: bool, stack: AsyncExitStack) -> Opened:
    connection = stack.enter_context(psycopg.connect(world.postgres_url, autocommit=True))
    return world.on_postgres(world.scale.bulk * _BULKS, history), bind(connection), world.postgres


async def _sqlite(world: World, history: bool, stack: AsyncExitStack) -> Opened:
    table, path = world.on_sqlite(world.scale.bulk * _BULKS, history)
    return table, bind(stack.enter_context(closing(open_sqlite(path)))), None


async def _redis(world: World, history: bool, stack: AsyncExitStack) -> Opened:
    client = stack.enter_context(redis.Redis.from_url(world.valkey.url))
    return world.on_redis(world.scale.bulk * _BULKS, history), bind(client), world.valkey


async def _async_redis(world: World, history: bool, stack: AsyncExitStack) -> Opened:
    client = await stack.enter_async_context(redis.asyncio.Redis.from_url(world.valkey.url))
    return world.on_redis(world.scale.bulk * _BULKS, history), bind(client), world.valkey


_OPENINGS: dict[str, tuple[Opening, bool]] = {
    "PostgreSQL, asyncpg": (_asyncpg, True),
    "PostgreSQL, psycopg": (_psycopg, False),
    "SQLite, sqlite3": (_sqlite, False),
    "Redis, redis-py": (_redis, False),
    "Redis, redis.asyncio": (_async_redis, True),
}
