"""What it costs to be watched: one caller's move with metrics, with traces and with a ledger, beside the same without.

The ledger is a history that keeps the losers too. It is another statement in the same transaction, so it costs what the
store takes for it; metrics and traces are work of this process alone.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing

import asyncpg
import redis
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry

from bench import ours
from bench.commands import Commands, walk
from bench.measure import Side, interleave
from bench.raw import Call
from bench.result import Comparison, Result, Run, by_time
from bench.tables import open_sqlite
from bench.world import World
from raceproof import bind
from raceproof.kernel import events
from raceproof.ops.metrics import count_decisions
from raceproof.ops.tracing import trace_decisions

_ROWS = 400
_WAYS = ("metrics", "traces", "a ledger")

Made = tuple[Commands, Call]
Opening = Callable[[World, AsyncExitStack], Awaitable[tuple[Made, Made, bool]]]
"""The call without a history, the same with one, and whether they are awaited."""


class _Nowhere(SpanExporter):
    """Where spans end here: what an exporter does with them is not ours."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def comparisons(world: World) -> Iterator[Comparison]:
    for store, opening in _OPENINGS.items():
        for way in _WAYS:
            name = f"one caller · {store} · with {way} ÷ without"
            yield Comparison(name, _measured(world, name, opening, way))


def _measured(world: World, name: str, opening: Opening, way: str) -> Run:
    async def run() -> list[Result]:
        async with AsyncExitStack() as stack:
            (plain, call), (ledger, noted), awaits = await opening(world, stack)
            watched = (
                Side(noted, walk(ledger.ours), ours.won, awaits)
                if way == "a ledger"
                else Side(_while_told(call, _subscribers(way, stack), awaits), walk(plain.others), ours.won, awaits)
            )
            sides = [watched, Side(call, walk(plain.ours), ours.won, awaits)]
            taken = await interleave(sides, world.scale.rounds, world.scale.permits)
        mine, theirs = taken.medians
        return [by_time(name, mine, theirs)]

    return run


def _subscribers(way: str, stack: AsyncExitStack) -> tuple[events.Subscriber, ...]:
    """Whoever would be told of decisions; nobody is told yet."""
    before = events.subscribers
    if way == "metrics":
        stop = count_decisions(CollectorRegistry())
    else:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
        stack.callback(provider.shutdown)
        stop = trace_decisions(provider)
    told = events.subscribers
    stack.callback(stop)
    events.subscribers = before
    return told


def _while_told(call: Call, told: tuple[events.Subscriber, ...], awaits: bool) -> Call:
    """The call with subscribers; the other side, which takes turns with it, has none."""

    def sync(step: int, key: object) -> object:
        events.subscribers = told
        try:
            return call(step, key)
        finally:
            events.subscribers = ()

    async def awaited(step: int, key: object) -> object:
        events.subscribers = told
        try:
            return await call(step, key)
        finally:
            events.subscribers = ()

    return awaited if awaits else sync


async def _sqlite(world: World, stack: AsyncExitStack) -> tuple[Made, Made, bool]:
    made = []
    for history in (False, True):
        table, path = world.on_sqlite(_ROWS, history)
        connection = stack.enter_context(closing(open_sqlite(path)))
        made.append((table, ours.one(bind(connection), table)))
    return made[0], made[1], False


async def _postgres(world: World, stack: AsyncExitStack) -> tuple[Made, Made, bool]:
    connection = await asyncpg.connect(world.postgres_url)
    stack.push_async_callback(connection.close)
    tables = [world.on_postgres(_ROWS, history) for history in (False, True)]
    first, second = ((table, ours.one(bind(connection), table)) for table in tables)
    return first, second, True


async def _redis(world: World, stack: AsyncExitStack) -> tuple[Made, Made, bool]:
    client = stack.enter_context(redis.Redis.from_url(world.valkey.url))
    tables = [world.on_redis(_ROWS, history) for history in (False, True)]
    first, second = ((table, ours.one(bind(client), table)) for table in tables)
    return first, second, False


_OPENINGS: dict[str, Opening] = {
    "SQLite, sqlite3": _sqlite,
    "PostgreSQL, asyncpg": _postgres,
    "Redis, redis-py": _redis,
}
