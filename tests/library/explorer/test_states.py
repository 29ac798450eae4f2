"""States that look alike and are not: whatever tells two of them apart is part of the state."""

import asyncio
from enum import StrEnum

import pytest

from raceproof import Lifecycle, move
from raceproof.testing.explorer import Connection, Moment, StoreUnreachable, World
from tests.library.explorer.worlds import explored, never, read_between


class Status(StrEnum):
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id"):
    finish = move(Status.RUNNING, to=Status.DONE)


def test_which_of_two_operations_was_answered_is_part_of_the_state() -> None:
    """Two tasks get the same answer, but what the one does next is not what the other does."""
    world = World("tasks")
    world.sql("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)")
    bad = world.effect("bad")

    @world.process
    async def both(db: Connection) -> None:
        async def reads() -> None:
            if await db.execute("SELECT n FROM t") == [(1,)]:
                await bad()

        async def reads_and_writes() -> None:
            await db.execute("SELECT n FROM t")
            await db.execute("UPDATE t SET n = 1")

        await asyncio.gather(reads(), reads_and_writes())

    never(world, "bad")
    assert explored(world, deviations=3).kind == "failed"


def test_which_of_two_timers_went_first_is_part_of_the_state() -> None:
    """Two sleeps that end together may end in either order, and the tasks of one process see each other's variables."""
    world = World("timers")
    bad = world.effect("bad")

    @world.process
    async def both(db: Connection) -> None:
        flags: set[str] = set()

        async def looks() -> None:
            await asyncio.sleep(1)
            if flags:
                await bad()

        async def raises_the_flag() -> None:
            await asyncio.sleep(1)
            flags.add("raised")

        await asyncio.gather(looks(), raises_the_flag())

    never(world, "bad")
    assert explored(world, deviations=3).kind == "failed"


def ticks(world: World) -> None:
    """A process that does nothing but wake up after five seconds and after six."""

    @world.process
    async def ticking(db: Connection) -> None:
        await asyncio.sleep(5)
        await asyncio.sleep(1)


def test_when_a_process_began_is_part_of_the_state() -> None:
    """It sleeps from then on, so it wakes up later if it began later."""
    world = World("began")
    ring = world.effect("ring")
    ticks(world)

    @world.process
    async def sleeper(db: Connection) -> None:
        await asyncio.sleep(10)
        await ring()

    world.always("rings at ten", lambda moment: not moment.calls(ring) or moment.clock == 10)
    assert explored(world, deviations=1).kind == "failed"


def test_when_a_process_was_cancelled_is_part_of_the_state() -> None:
    """What it does on its way out may take time, from then on."""
    world = World("cancelled")
    ring = world.effect("ring")
    ticks(world)

    @world.process(restarts=False)
    async def leaver(db: Connection) -> None:
        try:
            await ring("ready")
        except asyncio.CancelledError:
            await asyncio.sleep(10)
            await ring("left")
            raise

    def left_at_ten(moment: Moment) -> bool:
        return moment.clock == 10 or [call.key for call in moment.calls(ring)] != ["left"]

    world.always("leaves at ten", left_at_ten)
    assert explored(world, deviations=2, cancels=1).kind == "failed"


@pytest.mark.parametrize(
    ("usual", "between"),
    [
        pytest.param(-1, -2),
        (0, 1),
        (1, 2),
    ],
)
def test_different_answers_are_different_states(usual: int, between: int) -> None:
    """Also those that Python gives the same hash, like -1 and -2."""
    assert explored(read_between(usual, between), deviations=2).kind == "failed"


def test_rows_that_were_written_in_another_order_are_another_state() -> None:
    """A SELECT without ORDER BY tells which row came first."""
    world = World("rowids")
    world.sql("CREATE TABLE t (name TEXT)")
    bad = world.effect("bad")

    for name in ("a", "b"):

        @world.process(name=name)
        async def add(db: Connection, name: str = name) -> None:
            await db.execute("INSERT INTO t VALUES (?)", name)

    @world.process
    async def reader(db: Connection) -> None:
        counted = await db.execute("SELECT count(*) FROM t")
        if counted == [(2,)] and await db.execute("SELECT name FROM t") == [("b",), ("a",)]:
            await bad("b first")

    never(world, "bad")
    assert explored(world, deviations=3).kind == "failed"


def test_the_order_of_effects_is_part_of_the_state() -> None:
    """Two effects in the other order are another history, for an invariant that looks back."""
    world = World("effects")
    log = world.effect("log")

    for name in ("a", "b"):

        @world.process(name=name)
        async def tell(db: Connection, name: str = name) -> None:
            await log(name)

    @world.process
    async def last(db: Connection) -> None:
        await log("last")

    def fine(moment: Moment) -> bool:
        return [call.key for call in moment.calls(log)] != ["b", "a", "last"]

    world.always("a before b before last", fine)
    assert explored(world, deviations=3).kind == "failed"


def test_all_orders_of_operations_that_wait_together_are_tried() -> None:
    """Three tasks of one process: all six orders."""
    orders: set[tuple[object, ...]] = set()
    world = World("gathered")
    log = world.effect("log")

    @world.process
    async def all_at_once(db: Connection) -> None:
        await asyncio.gather(*(log(name) for name in "abc"))

    def note(moment: Moment) -> bool:
        calls = moment.calls(log)
        if len(calls) == 3:
            orders.add(tuple(call.key for call in calls))
        return True

    world.always("noted", note)
    assert explored(world, deviations=3).passed
    assert len(orders) == 6


def test_the_order_of_answers_is_part_of_the_state() -> None:
    """Also for an invariant that looks at what was told only after something has gone wrong."""
    world = World("answers")
    world.table(Job)
    for name in ("a", "b"):
        world.row(Job, name)
    late = world.effect("late")

    for name in ("a", "b"):

        @world.process(name=name)
        async def finish(db: Connection, name: str = name) -> None:
            await db.move(Job.finish, name)

    @world.process
    async def last(db: Connection) -> None:
        try:
            await db.execute("SELECT 1")
        except StoreUnreachable:
            await late()

    def fine(moment: Moment) -> bool:
        return not moment.calls(late) or [event.key for _, event in moment.told] != ["b", "a"]

    world.always("a was told first", fine)
    assert explored(world, errors=1, deviations=1).kind == "failed"
