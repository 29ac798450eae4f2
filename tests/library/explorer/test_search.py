"""The search misses nothing, and what it finds first is the smallest: beside a second interpreter, and without its cache."""

import asyncio
import itertools
from random import Random

import pytest

from raceproof.testing.explorer import Connection, Explorer, Limits, Verdict, World, world_of
from raceproof.testing.explorer.action import Action, Faults
from raceproof.testing.explorer.run import Run
from raceproof.testing.explorer.search import Deviation
from tests.library.explorer.brute import random_program, scenario, smallest
from tests.library.explorer.worlds import explored, read_between
from tests.promises.packs import PACKS, Pack

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


def test_something_reached_only_right_after_a_deviation_counts_as_reached() -> None:
    """Time passes while the row is held, and the next step lets go of it."""
    world = World("reached")
    world.sql("CREATE TABLE t (n INTEGER, until TEXT); INSERT INTO t VALUES (0, NULL)")

    @world.process
    async def holder(db: Connection) -> None:
        await db.execute("UPDATE t SET n = 1, until = datetime('now', '+30 seconds')")
        await db.execute("UPDATE t SET n = 0")

    world.sometimes("held too long", lambda moment: moment.clock >= 30 and moment.rows("t")[0]["n"] == 1)
    verdict = explored(world, deviations=1)
    assert verdict.passed, verdict.why


def test_a_run_that_never_ends_is_told_and_not_taken_for_a_failure() -> None:
    """The processes have to end, or the horizon has to be set."""
    world = World("circles")

    @world.process
    async def forever(db: Connection) -> None:
        for seconds in itertools.count(1):
            await asyncio.sleep(seconds / seconds)

    with pytest.raises(Exception, match="horizon"):
        explored(world, deviations=3)
    world.horizon = 3
    assert explored(world, deviations=0).passed
