"""Small scenarios for the tests of the explorer, and what becomes of them."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from raceproof import Delivery, Lifecycle, claimable, move
from raceproof.deliveries import NotSent
from raceproof.testing.explorer import Connection, Effect, EffectRefused, Explorer, Limits, Verdict, World

TABLE = "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER); INSERT INTO t VALUES ('a', 0), ('b', 0)"
Body = Callable[[Connection], Any]


def world_with(*bodies: Body, restarts: bool = True) -> World:
    """Each body is a process on two rows."""
    world = World("small")
    world.sql(TABLE)
    for body in bodies:
        world.process(restarts=restarts)(body)
    return world


def alone(body: Body) -> World:
    """One process, which is called main."""
    world = World("alone")
    world.sql("CREATE TABLE t (n)")
    world.process(name="main")(body)
    return world


def read_between(usual: int, between: int) -> World:
    """A writer goes from `usual` to `between` and back; only a reader that sees `between` and then `usual` is wrong."""
    world = World("between")
    world.sql(f"CREATE TABLE t (n INTEGER); INSERT INTO t VALUES ({usual})")
    bad = world.effect("bad")

    @world.process
    async def writer(db: Connection) -> None:
        await db.execute("UPDATE t SET n = ?", between)
        await db.execute("UPDATE t SET n = ?", usual)

    @world.process
    async def reader(db: Connection) -> None:
        first = await db.execute("SELECT n FROM t")
        second = await db.execute("SELECT n FROM t")
        if (first, second) == ([(between,)], [(usual,)]):
            await bad()
        await db.execute("SELECT 1")

    never(world, "bad")
    return world


def never(world: World, effect_name: str) -> None:
    world.always("never", lambda moment: not moment.calls(effect_name))


def replayed(world: World, schedule: str) -> Verdict:
    return Explorer(world).replay(schedule)


def end(verdict: Verdict) -> dict[str, int]:
    """The rows when the run was over."""
    return {row["id"]: row["n"] for row in verdict.steps[-1].tables["t"]}


def explored(world: World, deviations: int = 2, **limits: Any) -> Verdict:
    """Without faults, but for those that are asked for."""
    chosen = {"crashes": 0, "lost": 0, "errors": 0, "cancels": 0, "seconds": 20, **limits}
    return Explorer(world, Limits(deviations=deviations, **chosen)).explore()


async def post(db: Connection, letters: Delivery, send: Effect) -> None:
    """Send letter x once, and tell what was refused as not sent."""
    async with db.deliver_once(letters, "x") as permit:
        if permit.won:
            try:
                await send("x")
            except EffectRefused as error:
                raise NotSent from error


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id", history="job_moves"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    requeue = move(Status.RUNNING, to=Status.QUEUED)
    finish = move(Status.RUNNING, to=Status.DONE)
    work = claimable(start, lease=30, back=requeue)
