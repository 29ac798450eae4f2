"""The cost of a move in a big table, as a ratio to the same in a table of 1000 rows; random rows, history off.

The raw driver is measured in the same tables: what grows with it is the store's, what grows beyond it is ours.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing

import asyncpg
import redis

from bench import ours, raw
from bench.commands import wander
from bench.measure import Side, interleave, not_none
from bench.result import Comparison, Result, Run, by_cost
from bench.tables import open_sqlite
from bench.world import World
from raceproof import bind

Opening = Callable[[World, AsyncExitStack], Awaitable[list[Side]]]


def comparisons(world: World) -> Iterator[Comparison]:
    stores: list[tuple[str, Opening, Sequence[int]]] = [
        ("PostgreSQL, asyncpg", _on_postgres, world.scale.sizes),
        ("SQLite, sqlite3", _on_sqlite, world.scale.sizes),
        ("Redis, redis-py", _on_redis, world.scale.redis_sizes),
    ]
    for store, opening, sizes in stores:
        name = f"cost of a move in a bigger table · {store}"
        yield Comparison(name, _measured(world, name, opening, sizes))


def _measured(world: World, name: str, opening: Opening, sizes: Sequence[int]) -> Run:
    async def run() -> list[Result]:
        async with AsyncExitStack() as stack:
            sides = await opening(world, stack)
            taken = await interleave(sides, world.scale.rounds, world.scale.permits * 2)
        results = []
        for which, whose in enumerate(("ours", "raw driver")):
            small, *bigger = taken.medians[which::2]
            for rows, times in zip(sizes[1:], bigger, strict=True):
                told = f"{name} · {whose} · cost at {_short(rows)} ÷ at {_short(sizes[0])} rows"
                results.append(by_cost(told, times, small))
        return results

    return run


def _short(rows: int) -> str:
    return f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1_000}k"


async def _on_postgres(world: World, stack: AsyncExitStack) -> list[Side]:
    connection = await asyncpg.connect(world.postgres_url)
    stack.push_async_callback(connection.close)
    db = bind(connection)
    sides = []
    for rows in world.scale.sizes:
        table = world.on_postgres(rows)
        stack.callback(world.drop_from_postgres, table)
        sides.append(Side(ours.one(db, table), wander(table.ours), ours.won, awaits=True))
        sides.append(Side(raw.with_asyncpg(connection, table), wander(table.others), not_none, awaits=True))
    await connection.execute("CHECKPOINT")
    return sides


async def _on_sqlite(world: World, stack: AsyncExitStack) -> list[Side]:
    sides = []
    for rows in world.scale.sizes:
        table, path = world.on_sqlite(rows)
        connection = stack.enter_context(closing(open_sqlite(path)))
        sides.append(Side(ours.one(bind(connection), table), wander(table.ours), ours.won))
        sides.append(Side(raw.with_sqlite(connection, table), wander(table.others), not_none))
    return sides


async def _on_redis(world: World, stack: AsyncExitStack) -> list[Side]:
    client = stack.enter_context(redis.Redis.from_url(world.valkey.url))
    db = bind(client)
    sides = []
    for rows in world.scale.redis_sizes:
        table = world.on_redis(rows)
        sha = client.script_load(raw.script(table))
        sides.append(Side(ours.one(db, table), wander(table.ours), ours.won))
        sides.append(Side(raw.with_redis(client, table, sha), wander(table.others), not_none))
    return sides
