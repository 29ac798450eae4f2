"""The search misses nothing, and what it finds first is the smallest: beside a second interpreter, and without its cache."""

import asyncio
import itertools
from enum import StrEnum
from random import Random

import pytest

from raceproof import Lifecycle, move
from raceproof.testing.explorer import (
    Connection,
    Explorer,
    Limits,
    Moment,
    StoreUnreachable,
    Verdict,
    World,
    world_of,
)
from raceproof.testing.explorer.action import Action, Faults
from raceproof.testing.explorer.run import Run
from raceproof.testing.explorer.search import Deviation
from raceproof.testing.packs import PACKS, Pack
from tests.explorer.brute import random_program, scenario, smallest

FAULTS = [
    Faults(),
    Faults(crashes=1),
    Faults(lost=1),
    Faults(errors=1),
    Faults(cancels=1),
    Faults(crashes=1, lost=1),
    Faults(crashes=1, cancels=1),
    Faults(lost=1, errors=1),
]


class Status(StrEnum):
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id"):
    finish = move(Status.RUNNING, to=Status.DONE)


class Uncached(Explorer):
    """Goes on from every state, however often it was seen."""

    def _seen(self, run: Run) -> bool:
        return False

    def _foreseen(self, one: Deviation) -> bool:
        return False


def limits_of(deviations: int, faults: Faults) -> Limits:
    return Limits(deviations, *faults, seconds=60)


def needed(verdict: Verdict) -> int | None:
    """How many deviations the failure needs that was found."""
    assert verdict.kind != "inconclusive" or "was ever reached" in verdict.why, verdict.why
    return verdict.covered.exhausted + 1 if verdict.kind == "failed" else None


def different(explorer: type[Explorer], seeds: range, tangled: bool) -> list[int]:
    """Seeds of the programs about which this explorer says something else than the second interpreter."""
    found = []
    for seed in seeds:
        program, faults = random_program(seed, tangled=tangled), Random(seed).choice(FAULTS)
        verdict = explorer(scenario(program), limits_of(2, faults)).explore()
        if needed(verdict) != smallest(program, 2, faults):
            found.append(seed)
    return found


@pytest.mark.parametrize("tangled", [False, True])
@pytest.mark.parametrize("block", range(3))
def test_it_finds_what_a_second_interpreter_finds_with_as_few_deviations(block: int, tangled: bool) -> None:
    """Random programs of reads, writes, transactions, effects, sleeps, leases and tasks, with all kinds of faults."""
    assert different(Explorer, range(block * 30, block * 30 + 30), tangled) == []


class Forgetful(Explorer):
    """Takes states for the same whose processes are not where they were."""

    def _seen(self, run: Run) -> bool:
        key = (run.ground.state(), run.clock, [process.incarnation for process in run.processes])
        known = repr(key) in self._visited
        self._visited[repr(key)] = []
        return known


def test_an_explorer_that_forgets_something_is_found_out() -> None:
    """The control: the same programs show what a hole in the cache would hide."""
    assert different(Forgetful, range(20), tangled=False)


def test_with_and_without_its_cache_it_finds_the_same() -> None:
    """A state that was seen before is gone on from only once; that must not hide anything."""
    fewer = 0
    for seed in range(1000, 1030):
        program, faults = random_program(seed, most=2), Random(seed).choice(FAULTS[:5])
        limits = limits_of(2, faults)
        cached, uncached = (kind(scenario(program), limits).explore() for kind in (Explorer, Uncached))
        assert needed(cached) == needed(uncached), f"{program} with {faults}"
        fewer += cached.covered.schedules < uncached.covered.schedules
    assert fewer > 4


class Checking(Explorer):
    """Runs every schedule from its beginning, and sees whether it leads where that was seen ahead."""

    def _try(self, one: Deviation, cost: int) -> tuple[list[Action], str] | None:
        self.expected = one.ahead.key(self._went_on, self._told_matters) if one.ahead else None
        self.checked += self.expected is not None
        return super()._try(one, cost)

    def _foreseen(self, one: Deviation) -> bool:
        return False

    def _seen(self, run: Run) -> bool:
        expected, self.expected = self.expected, None
        assert expected in (None, run.key())
        return super()._seen(run)

    expected: object = None
    checked = 0


class Guessing(Explorer):
    """Takes every step that can be undone for one that leads nowhere."""

    def _foreseen(self, one: Deviation) -> bool:
        return one.ahead is not None


@pytest.mark.parametrize("pack", PACKS[:: len(PACKS) // 13], ids=lambda pack: pack.name)
def test_a_schedule_leads_where_that_was_seen_ahead(pack: Pack) -> None:
    """Most schedules are not run, since their last step was tried in passing and undone."""
    explorer = Checking(world_of(pack.scenario), Limits(deviations=2, seconds=60))
    assert explorer.explore().kind != "failed"
    assert explorer.checked > 50


def test_an_explorer_that_guesses_what_is_ahead_is_found_out() -> None:
    """The control."""
    assert different(Guessing, range(20), tangled=False)


def counter(world: World) -> None:
    """Two processes that read and write back: the classic lost update."""
    world.sql("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (0)")

    async def add(db: Connection) -> None:
        [(n,)] = await db.execute("SELECT n FROM t")
        await db.execute("UPDATE t SET n = ?", n + 1)

    world.process(name="one")(add)
    world.process(name="two")(add)
    world.eventually("both are counted", lambda moment: moment.rows("t")[0]["n"] >= 2)


def test_the_first_failure_is_the_smallest_one() -> None:
    """One pre-emption is enough, so no fault is in the schedule, however many are allowed."""
    verdict = Explorer(world_of(counter), Limits(deviations=3)).explore()
    assert verdict.kind == "failed"
    assert needed(verdict) == 1
    assert verdict.schedule == "one*2 two*3 one"
    again = Explorer(world_of(counter)).replay(verdict.schedule)
    assert (again.kind, again.why) == ("failed", verdict.why)


def test_exploring_twice_says_the_same_twice() -> None:
    """An explorer that is asked again must not take what it has seen the first time for tried and found well."""
    explorer = Explorer(read_between(0, 1), Limits(deviations=2, crashes=0, lost=0, errors=0, cancels=0))
    first, second = explorer.explore(), explorer.explore()
    assert (first.kind, first.schedule) == ("failed", second.schedule)


# states that look alike and are not


def found(world: World, **limits: int) -> Verdict:
    chosen = {"crashes": 0, "lost": 0, "errors": 0, "cancels": 0, **limits}
    return Explorer(world, Limits(deviations=chosen.pop("deviations", 3), **chosen, seconds=20)).explore()


def never(world: World, effect_name: str) -> None:
    world.always("never", lambda moment: not moment.calls(effect_name))


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
    assert found(world).kind == "failed"


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
    assert found(world).kind == "failed"


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
    assert found(world, deviations=1).kind == "failed"


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
    assert found(world, deviations=2, cancels=1).kind == "failed"


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
    assert found(read_between(usual, between), deviations=2).kind == "failed"


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
    assert found(world).kind == "failed"


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
    assert found(world).kind == "failed"


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
    assert found(world).passed
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
    assert found(world, errors=1, deviations=1).kind == "failed"


def test_something_reached_only_right_after_a_deviation_counts_as_reached() -> None:
    """Time passes while the row is held, and the next step lets go of it."""
    world = World("reached")
    world.sql("CREATE TABLE t (n INTEGER, until TEXT); INSERT INTO t VALUES (0, NULL)")

    @world.process
    async def holder(db: Connection) -> None:
        await db.execute("UPDATE t SET n = 1, until = datetime('now', '+30 seconds')")
        await db.execute("UPDATE t SET n = 0")

    world.sometimes("held too long", lambda moment: moment.clock >= 30 and moment.rows("t")[0]["n"] == 1)
    verdict = found(world, deviations=1)
    assert verdict.passed, verdict.why


def test_a_run_that_never_ends_is_told_and_not_taken_for_a_failure() -> None:
    """The processes have to end, or the horizon has to be set."""
    world = World("circles")

    @world.process
    async def forever(db: Connection) -> None:
        for seconds in itertools.count(1):
            await asyncio.sleep(seconds / seconds)

    with pytest.raises(Exception, match="horizon"):
        found(world)
    world.horizon = 3
    assert found(world, deviations=0).passed
