"""Claims in a big table, and between eight workers.

- The cost of a claim of ten rows and its release, with the same backlog at the end of a bigger table; told as a speed
  beside that in the smaller one, so that the goal of at most 1.3 times the cost is a ratio of 0.77.
- Eight connections, or eight stores by `connect`, empty a table in batches of ten, beside as many connections that do so by
  hand (FOR UPDATE SKIP LOCKED); on either side every row must come up exactly once, or the run fails.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, repeat
from time import perf_counter
from typing import Any

import asyncpg
import psycopg

from bench.measure import Side, interleave
from bench.result import Comparison, Result, Run, by_rate, by_time
from bench.tables import open_sqlite
from bench.world import World
from raceproof import Lifecycle, bind, claimable, connect, ddl, move
from raceproof.declare import Move
from raceproof.declare.spec import Claimable
from raceproof.schema import Dialect

BATCH = 10
WORKERS = 8
LEASE = 30
BIGGEST_COST = 1.3
GOAL = 0.9

_BACKLOG = {"full": 10_000, "short": 10_000, "smoke": 500}
_SIZES = {"full": (100_000, 5_000_000), "short": (100_000, 1_000_000), "smoke": (1_000, 2_000)}
_CONTENDED = {"full": 16_000, "short": 6_000, "smoke": 160}
_numbers = count(1)


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class Jobs:
    """A table of work, and what is done with its rows."""

    table: str
    work: Claimable[Status]
    finish: Move[Status]


def jobs() -> Jobs:
    """Declare the lifecycle on a table of its own."""
    name = f"jobs_{next(_numbers)}"

    class Job(Lifecycle[Status], table=name):
        start = move(Status.QUEUED, to=Status.RUNNING)
        requeue = move(Status.RUNNING, to=Status.QUEUED)
        finish = move(Status.RUNNING, to=Status.DONE)
        work = claimable(start, lease=LEASE, back=requeue)

    return Jobs(name, Job.work, Job.finish)


def comparisons(world: World) -> Iterator[Comparison]:
    for store, opening in _BIGGER.items():
        name = f"claim of {BATCH} and release in a bigger table · {store}"
        yield Comparison(name, _grown(world, name, opening))
    for how in ("bind", "connect"):
        name = f"{WORKERS} workers, batches of {BATCH}, rows/s · PostgreSQL, asyncpg · {how} ÷ SKIP LOCKED by hand"
        yield Comparison(name, _contended(world, name, how))


# A bigger table: what waits is the newest, as in a table that is worked on from its old end.

Opening = Callable[[World, int, AsyncExitStack], Awaitable[Side]]


def _grown(world: World, name: str, opening: Opening) -> Run:
    async def run() -> list[Result]:
        small, big = _SIZES[world.scale.name]
        async with AsyncExitStack() as stack:
            sides = [await opening(world, rows, stack) for rows in (big, small)]
            taken = await interleave(sides, world.scale.rounds, world.scale.permits)
        bigger, smaller = taken.medians
        told = f"{name} · speed at {_short(big)} ÷ at {_short(small)} rows"
        return [by_time(told, bigger, smaller, round(1 / BIGGEST_COST, 2), each=BATCH)]

    return run


def _short(rows: int) -> str:
    return f"{rows // 1_000_000}M" if rows >= 1_000_000 else f"{rows // 1_000}k"


def _all_released(answers: Any) -> bool:
    return len(answers) == BATCH and all(answer.outcome == "released" for answer in answers)


async def _on_postgres(world: World, rows: int, stack: AsyncExitStack) -> Side:
    made = jobs()
    _create_on_postgres(world, made, rows, _BACKLOG[world.scale.name])
    stack.callback(_drop, world, made)
    db = await stack.enter_async_context(connect(world.postgres_url))

    async def call(step: int, key: Any) -> Any:
        return await db.release(await db.claim(made.work, BATCH))

    return Side(call, repeat((0, None)), _all_released, awaits=True)


async def _on_sqlite(world: World, rows: int, stack: AsyncExitStack) -> Side:
    made = jobs()
    connection = stack.enter_context(closing(open_sqlite(str(world.folder / f"{made.table}.db"))))
    _create_on_sqlite(connection, made, rows, _BACKLOG[world.scale.name])
    db = bind(connection)
    return Side(
        lambda step, key: db.release(db.claim(made.work, BATCH)),
        repeat((0, None)),
        _all_released,
    )


_BIGGER: dict[str, Opening] = {
    "PostgreSQL, asyncpg · connect": _on_postgres,
    "SQLite, sqlite3 · bind": _on_sqlite,
}


def _create_on_postgres(world: World, made: Jobs, rows: int, waiting: int) -> None:
    with psycopg.connect(world.postgres_url, autocommit=True) as connection:
        connection.execute(_table(made, "bigint", "timestamptz"))
        connection.execute(
            f"INSERT INTO {made.table} SELECT i, CASE WHEN i < {rows - waiting} THEN 'DONE' ELSE 'QUEUED' END"
            f" FROM generate_series(0, {rows - 1}) AS i"
        )
        connection.execute(_index(made, "postgres"))
        connection.execute(f"VACUUM ANALYZE {made.table}")
        connection.execute("CHECKPOINT")


def _create_on_sqlite(connection: sqlite3.Connection, made: Jobs, rows: int, waiting: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_table(made, "integer", "text"))
    connection.execute(
        f"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {rows - 1})"
        f" INSERT INTO {made.table} (id, status)"
        f" SELECT i, CASE WHEN i < {rows - waiting} THEN 'DONE' ELSE 'QUEUED' END FROM n"
    )
    connection.execute(_index(made, "sqlite"))
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _table(made: Jobs, number: str, time: str) -> str:
    return (
        f"CREATE TABLE {made.table} (id {number} PRIMARY KEY, status text NOT NULL,"
        f" claimed_by text, claimed_until {time}, fence {number})"
    )


def _index(made: Jobs, dialect: Dialect) -> Any:
    return "\n".join(ddl(made.work, dialect=dialect, only="indexes"))


def _drop(world: World, made: Jobs) -> None:
    world.postgres.psql(f"DROP TABLE {made.table}", world.postgres_url)


# Eight workers.

_CLAIM = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM {{table}}
    WHERE status IN ('QUEUED', 'RUNNING') AND (claimed_until IS NULL OR claimed_until <= statement_timestamp())
    ORDER BY id
    LIMIT {BATCH}
    FOR UPDATE SKIP LOCKED
)
UPDATE {{table}} AS t
SET status = 'RUNNING', claimed_by = $1, claimed_until = statement_timestamp() + interval '{LEASE} seconds',
    fence = COALESCE(t.fence, 0) + 1
FROM due
WHERE t.id = due.id
RETURNING t.id, t.fence
"""
_FINISH = """
UPDATE {table} AS t
SET status = 'DONE', claimed_by = NULL, claimed_until = NULL
FROM unnest($1::bigint[], $2::bigint[]) AS w (id, fence)
WHERE t.id = w.id AND t.fence = w.fence AND t.status = 'RUNNING'
RETURNING t.id
"""

Emptying = Callable[[Any, Jobs, int], Coroutine[Any, Any, list[int]]]
"""One worker on its connection or store, until nothing is left; returns the rows that it has finished."""


class NotOnce(RuntimeError):
    """Some row was finished twice, or never: the figure would be of something else."""


async def _ours(db: Any, made: Jobs, number: int) -> list[int]:
    found: list[int] = []
    while claims := await db.claim(made.work, BATCH, by=f"worker-{number}"):
        found += [answer.key for answer in await db.move_many(made.finish, claims) if answer.won]
    return found


async def _by_hand(connection: Any, made: Jobs, number: int) -> list[int]:
    claiming, finishing = _CLAIM.format(table=made.table), _FINISH.format(table=made.table)
    found: list[int] = []
    while rows := await connection.fetch(claiming, f"worker-{number}"):
        keys, fences = [row[0] for row in rows], [row[1] for row in rows]
        found += [row[0] for row in await connection.fetch(finishing, keys, fences)]
    return found


def _contended(world: World, name: str, how: str) -> Run:
    async def run() -> list[Result]:
        rates: dict[Emptying, list[float]] = {_ours: [], _by_hand: []}
        async with AsyncExitStack() as stack:
            places: dict[Emptying, list[Any]] = {_ours: [], _by_hand: []}
            for _ in range(WORKERS):
                connection = await asyncpg.connect(world.postgres_url)
                stack.push_async_callback(connection.close)
                places[_by_hand].append(connection)
                if how == "bind":
                    places[_ours].append(bind(connection))
                else:
                    places[_ours].append(await stack.enter_async_context(connect(world.postgres_url)))
            for number in range(world.scale.rounds):
                for emptying in (_ours, _by_hand) if number % 2 == 0 else (_by_hand, _ours):
                    rates[emptying].append(await _emptied(world, places[emptying], emptying))
        return [by_rate(name, rates[_ours], rates[_by_hand], GOAL)]

    return run


async def _emptied(world: World, places: list[Any], emptying: Emptying) -> float:
    """Rows a second, of a table that is new for each run."""
    made, rows = jobs(), _CONTENDED[world.scale.name]
    await asyncio.to_thread(_create_on_postgres, world, made, rows, rows)
    try:
        began = perf_counter()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(emptying(place, made, number)) for number, place in enumerate(places)]
        taken = perf_counter() - began
    finally:
        _drop(world, made)
    found = sorted(key for worker in workers for key in worker.result())
    if found != list(range(rows)):
        raise NotOnce(f"of {rows} rows {len(set(found))} were finished, in {len(found)} answers")
    return rows / taken
