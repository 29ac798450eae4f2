"""8 and 64 callers at once through `connect(url)`, beside as many callers that each send a statement of their own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

import asyncpg
import redis.asyncio

from bench import ours, raw
from bench.commands import Commands, Turn, slices, walk, wander
from bench.measure import Block, block, not_none, typical
from bench.raw import Call
from bench.result import Comparison, Result, Run, by_latency, by_rate
from bench.tables import open_sqlite
from bench.world import World
from raceproof import connect
from raceproof.testing import Server

CALLERS = (8, 64)
CONNECTIONS = 8
_ROWS_OF_A_WANDERER = 20


@dataclass(frozen=True, slots=True)
class Crowd:
    """A store under many callers, and the reference for it."""

    table: Commands
    ours: Call
    reference: Call
    server: Server | None


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the callers meet; the goals are those for 64 callers."""

    name: str
    open: Callable[[World, bool], AbstractAsyncContextManager[Crowd]]
    goal: float


def comparisons(world: World) -> Iterator[Comparison]:
    for scene in _SCENES:
        for callers in CALLERS:
            for history in (False, True):
                name = f"{callers} callers · {scene.name} · history {'on' if history else 'off'}"
                yield Comparison(name, _measured(world, name, scene, callers, history, walk))
        name = f"{CALLERS[-1]} callers, two kinds of move mixed · {scene.name} · history off"
        yield Comparison(name, _measured(world, name, scene, CALLERS[-1], False, wander))


def _measured(
    world: World,
    name: str,
    scene: Scene,
    callers: int,
    history: bool,
    permits: Callable[[range], Iterator[Turn]],
) -> Run:
    async def run() -> list[Result]:
        async with scene.open(world, history) as crowd:
            mine, theirs = await rounds(world, crowd, callers, permits)
        mixed = permits is wander
        costs = [typical([one.cost for one in blocks]) for blocks in (mine, theirs)]
        return [
            by_rate(
                name,
                [one.rate for one in mine],
                [one.rate for one in theirs],
                goal=scene.goal if callers == CALLERS[-1] and not mixed else None,
                costs=costs,
            ),
            by_latency(
                f"{name} · p99 in ms, reference ÷ ours",
                [one.p99 for one in mine],
                [one.p99 for one in theirs],
                goal=None if mixed else 1.0,
            ),
        ]

    return run


async def rounds(
    world: World, crowd: Crowd, callers: int, permits: Callable[[range], Iterator[Turn]]
) -> tuple[list[Block], list[Block]]:
    """Blocks of ours and of the reference in turn, each first as often as the other."""
    rows = slices(crowd.table.ours, callers), slices(crowd.table.others, callers)
    if permits is wander:
        rows = [own[:_ROWS_OF_A_WANDERER] for own in rows[0]], [own[:_ROWS_OF_A_WANDERER] for own in rows[1]]
    sides = [
        (crowd.ours, [permits(own) for own in rows[0]], ours.won),
        (crowd.reference, [permits(own) for own in rows[1]], not_none),
    ]
    for call, own, moved in sides:
        await block(call, own, moved, world.scale.block / 2, crowd.server)
    found: tuple[list[Block], list[Block]] = [], []
    for number in range(world.scale.rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            call, own, moved = sides[which]
            found[which].append(await block(call, own, moved, world.scale.block, crowd.server))
    return found


@asynccontextmanager
async def on_postgres(world: World, history: bool) -> AsyncIterator[Crowd]:
    """The reference: raw asyncpg on warm connections, handed out in order, without a pool's reset."""
    table = world.on_postgres(world.scale.rows, history)
    async with AsyncExitStack() as stack:
        db = await stack.enter_async_context(connect(world.postgres_url))
        idle: list[Callable[[int, Any], Awaitable[Any]]] = []
        for _ in range(CONNECTIONS):
            connection = await asyncpg.connect(world.postgres_url)
            stack.push_async_callback(connection.close)
            idle.append(raw.with_asyncpg(connection, table))
        # a semaphore serves those who wait in their order; a queue would let a few callers starve the others
        places = asyncio.Semaphore(CONNECTIONS)

        async def reference(step: int, key: str) -> Any:
            async with places:
                call = idle.pop()
                try:
                    return await call(step, key)
                finally:
                    idle.append(call)

        yield Crowd(table, ours.one(db, table), reference, world.postgres)


@asynccontextmanager
async def _on_sqlite(world: World, history: bool) -> AsyncIterator[Crowd]:
    """The reference: one raw commit for each call, in this thread, the callers in a line."""
    table, path = world.on_sqlite(world.scale.rows, history)
    other, other_path = world.on_sqlite(world.scale.rows, history)
    with closing(open_sqlite(other_path)) as connection:
        async with connect(f"sqlite:///{path}") as db:
            call = raw.with_sqlite(connection, other)
            line = asyncio.Lock()

            async def reference(step: int, key: str) -> Any:
                async with line:
                    await asyncio.sleep(0)  # without it the first caller would never let the others begin
                    return call(step, key)

            yield Crowd(table, ours.one(db, table), reference, None)


@asynccontextmanager
async def _on_redis(world: World, history: bool) -> AsyncIterator[Crowd]:
    """The reference: redis.asyncio with its own pool, which has a connection for each caller."""
    table = world.on_redis(world.scale.rows, history)
    async with connect(world.valkey.url) as db, redis.asyncio.Redis.from_url(world.valkey.url) as client:
        reference = raw.with_redis(client, table, await client.script_load(raw.script(table)))
        yield Crowd(table, ours.one(db, table), reference, world.valkey)


_SCENES = (
    Scene("PostgreSQL ÷ asyncpg on 8 warm connections", on_postgres, 4.0),
    Scene("SQLite ÷ one commit for each", _on_sqlite, 5.0),
    Scene("Redis ÷ redis.asyncio's pool", _on_redis, 3.0),
)
