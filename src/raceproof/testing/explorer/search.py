"""The search for a failing schedule: best first by deviations, so that the first one found is the smallest.

Every run goes on from its last deviation as the undisturbed one would, and leaves behind all deviations from there that are
still allowed. A state that was seen before with no more faults used up is not gone on from: whatever follows was tried
already. The last step of a schedule is tried in passing when the schedule is put on the list, so that one which leads
nowhere new need not be run from its beginning. When the time is over, the last part of it goes into random schedules with
few changes of priority (PCT).
"""

import gc
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from raceproof.kernel import events, identity
from raceproof.kernel.errors import CallError, RaceproofError
from raceproof.testing.explorer.action import WAIT, Action, Fate, Faults, Schedule, parsed, written
from raceproof.testing.explorer.ahead import Ahead, Foreseen
from raceproof.testing.explorer.ground import Ground
from raceproof.testing.explorer.loop import refused
from raceproof.testing.explorer.on_sqlite import SqliteGround
from raceproof.testing.explorer.process import Knowing, State
from raceproof.testing.explorer.random_search import random_run
from raceproof.testing.explorer.remains import clean_up
from raceproof.testing.explorer.run import MOST_STEPS, Run
from raceproof.testing.explorer.verdict import Covered, Limits, Verdict
from raceproof.testing.explorer.virtual import Chance, virtual
from raceproof.testing.explorer.world import Planned, World

_RANDOM_SHARE = 0.2
"""How much of the time is kept for random schedules, if it is not enough for all."""
_COLLECT = 2000
"""So many runs, and what they have left behind is cleaned up."""
_TELL = 100
"""So many runs, and the progress is told."""
_OTHERWISE = (
    "{}: step {} of {} differs from one time to the next. Do the processes share a variable, or look at a clock, "
    "at chance or at the order of a set?"
)
_monotonic = time.monotonic


class NotDeterministic(RaceproofError):
    """The same schedule gave two different runs: the scenario looks at something that the explorer does not decide."""


class Deviation(NamedTuple):
    """A schedule that waits to be tried: what happens up to its last deviation, and what is known of that."""

    schedule: tuple[Action, ...]
    ahead: Foreseen | None = None
    """Where it leads, as far as that could be seen."""
    used: Faults = Faults()
    point: tuple[str, str] = ("", "")
    """The process and the operation that its last step is about."""


class Explorer:
    """A scenario on a ground, ready to be run as often as needed."""

    def __init__(
        self, world: World, limits: Limits | None = None, ground: Ground | None = None, whole_calls: bool = False
    ) -> None:
        if not world.processes:
            raise CallError(f"{world.name}: nothing to explore; declare a process with @world.process")
        self.world = world
        self.limits = limits = limits or Limits()
        self.covered = Covered()
        self._faults = limits.faults
        self._whole_calls = whole_calls
        self._run: Run | None = None
        self._progress: Callable[[Covered], None] | None = None
        self._ground: Ground = ground or SqliteGround()
        self._remains: list[Any] = []
        self._told_matters = False
        self._visited: dict[object, list[Faults]] = {}
        self._went_on: dict[Knowing, State] = {}
        self._levels: list[list[Deviation]] = [[] for _ in range(limits.deviations + 1)]
        with self._virtually():
            world.begin_on(self._ground)
            self._prepare()
            self._ground.keep()

    # the ways to use it

    def explore(self, progress: Callable[[Covered], None] | None = None) -> Verdict:
        """Look for a failing schedule until all are tried, or the time is over; `progress` is told now and then."""
        began = _monotonic()
        self._progress = progress
        self.covered = Covered()
        self._visited.clear()
        self._went_on.clear()
        self._levels = [[] for _ in range(self.limits.deviations + 1)]
        with self._virtually():
            self._check_deterministic()
            found = self._search(began + self.limits.seconds * (1 - _RANDOM_SHARE))
            if found is None and self.covered.exhausted < self.limits.deviations:
                found = self._random(began + self.limits.seconds)
            self.covered.seconds = _monotonic() - began
            self.covered.states = len(self._visited)
            return self._verdict(found)

    def replay(self, schedule: str, strict: bool = True) -> Verdict:
        """Run one schedule, and tell what happens in it.

        A step that is not possible is an error; unless `strict`, it is left out, as for a scenario that has changed.
        """
        return self.replays([parsed(schedule, self.world.names)], strict)[0]

    def replays(
        self, schedules: Sequence[Schedule], strict: bool = True, waits: Sequence[Sequence[float]] | None = None
    ) -> list[Verdict]:
        """The same for many; `waits` says for each to which moments time goes when it passes, as in an earlier run."""
        given = [None] * len(schedules) if waits is None else waits
        with self._virtually():
            return [self._failed(*one, strict) for one in zip(schedules, given, strict=True)]

    # the search

    def _search(self, until: float) -> tuple[list[Action], str] | None:
        done = Deviation(())
        self._levels[0].append(done)
        for deviations, level in enumerate(self._levels):
            permit = 0
            while permit < len(level):
                if _monotonic() > until:
                    return None
                found = self._try(level[permit], deviations)
                level[permit] = done
                permit += 1
                if found is not None:
                    return found
            level.clear()
            self.covered.exhausted = deviations
        return None

    def _try(self, one: Deviation, cost: int) -> tuple[list[Action], str] | None:
        """One schedule: run, unless it is known where it leads."""
        if one.schedule:
            self._note(one)
        if self._foreseen(one):
            self.covered.steps += 1
            self._count()
            return None
        return self._go(one.schedule, cost)

    def _foreseen(self, one: Deviation) -> bool:
        key = one.ahead and one.ahead.key(self._went_on, self._told_matters)
        return key is not None and _dominated(self._visited.get(key, ()), one.used)

    def _go(self, forced: tuple[Action, ...], cost: int) -> tuple[list[Action], str] | None:
        """What is forced, then undisturbed; leaves its deviations in the levels."""
        with self._running() as run:
            run.went_on = self._went_on
            for place, action in enumerate(forced):
                if not run.can(action):
                    raise NotDeterministic(_OTHERWISE.format(self.world.name, place + 1, "a schedule"))
                run.take(action, check=place == len(forced) - 1)
            if forced:
                self._reach(run)
            taken = list(forced)
            while run.broken is None:
                if self._seen(run):
                    return None
                usual = run.default()
                if usual is None or run.step >= MOST_STEPS:
                    self._end(run)
                    break
                ahead, before = Ahead(run), tuple(taken)
                for extra, other in run.alternatives(usual):
                    if cost + extra <= self.limits.deviations:
                        self._levels[cost + extra].append(_deviation(run, ahead, before, other))
                self._see(run, usual)
                taken.append(usual)
                run.take(usual)
                self._reach(run)
            return None if run.broken is None else (taken, run.broken)

    def _seen(self, run: Run) -> bool:
        watch = run.watch
        self._told_matters = watch.told_matters = self._told_matters or watch.told_matters
        key, used = run.key(), run.used
        known = self._visited.setdefault(key, [])
        if _dominated(known, used):
            return True
        known.append(used)
        return False

    def _end(self, run: Run) -> None:
        if run.step >= MOST_STEPS:
            raise CallError(
                f"{self.world.name}: a run has gone on for {MOST_STEPS} steps; let the processes end, or set world.horizon"
            )
        run.watch.check_end()

    def _reach(self, run: Run) -> None:
        for invariant in self.world.reached:
            if invariant.name not in self.covered.reached and run.watch.reaches(invariant):
                self.covered.reached.add(invariant.name)

    def _note(self, one: Deviation) -> None:
        """What a deviation has tried."""
        action = one.schedule[-1]
        if action == WAIT:
            self.covered.expiries += 1
        elif action.fate is not Fate.DONE:
            self.covered.points.setdefault(action.fate, set()).add(one.point)

    def _see(self, run: Run, action: Action) -> None:
        if action != WAIT:
            process = run.processes[action.process]
            operation = run.enabled(process)[action.place]
            if len(operation.fates) > 1:
                self.covered.operations.add((process.name, operation.label()))

    def _random(self, until: float) -> tuple[list[Action], str] | None:
        """Random schedules, for the time that is left."""
        chance = random.Random(self.world.name)
        while _monotonic() < until:
            self.covered.random += 1
            with self._running() as run:
                taken = random_run(run, chance, self.limits.deviations)
                if run.broken is not None:
                    return taken, run.broken
        return None

    # what comes of it

    def _verdict(self, found: tuple[list[Action], str] | None) -> Verdict:
        if found is not None:
            failed = self._failed(found[0])
            if failed.passed:
                raise NotDeterministic(_OTHERWISE.format(self.world.name, len(found[0]), "a failing schedule"))
            return failed
        why = "; ".join(self._missing())
        return Verdict(
            self.world.name,
            self._ground.dialect,
            "inconclusive" if why else "passed",
            self.limits,
            self.covered,
            why,
            processes=self.world.names,
        )

    def _missing(self) -> Iterator[str]:
        """What a certificate would need and this exploration does not have."""
        covered = self.covered
        if covered.exhausted < self.limits.deviations:
            some = covered.exhausted + 1
            yield f"the time was over when schedules with {some} deviation{'s' * (some != 1)} were tried"
        points = covered.points
        kinds = {
            "crash": (self.limits.crashes, (Fate.DIES_BEFORE, Fate.DIES_AFTER)),
            "lost acknowledgement": (self.limits.lost, (Fate.UNANSWERED,)),
            "error": (self.limits.errors, (Fate.FAILS,)),
            "cancellation": (self.limits.cancels, (Fate.CANCELLED_BEFORE, Fate.CANCELLED_AFTER)),
        }
        for name, (limit, fates) in kinds.items():
            if limit and self.limits.deviations and not any(points.get(fate) for fate in fates):
                yield f"no {name} was ever reached"
        for invariant in self.world.reached:
            if invariant.name not in covered.reached:
                yield f"never reached: {invariant.name}"

    def _failed(self, schedule: Schedule, waits: Sequence[float] | None = None, strict: bool = True) -> Verdict:
        """Run a schedule once more, and keep everything that people want to see."""
        with self._running(record=True) as run:
            run.waits = None if waits is None else list(waits)
            taken: list[Action] = []
            for action in schedule:
                if run.broken is None and self._possible(run, action, strict):
                    taken.append(action)
                    run.take(action)
            while run.broken is None:
                usual = run.default()
                if usual is None or run.step >= MOST_STEPS:
                    run.watch.check_end()
                    break
                taken.append(usual)
                run.take(usual)
            broken = run.broken
            return Verdict(
                self.world.name,
                self._ground.dialect,
                "failed" if broken else "passed",
                self.limits,
                self.covered,
                broken or "",
                written(taken, self.world.names),
                run.steps or (),
                self.world.names,
            )

    def _possible(self, run: Run, action: Action, strict: bool) -> bool:
        if run.can(action):
            return True
        if strict:
            step = written([action], self.world.names)
            raise CallError(
                f"{self.world.name}: step {run.step + 1} of the schedule is {step!r}, which is not possible there; "
                "the schedule belongs to another version of the scenario"
            )
        return False

    def _check_deterministic(self) -> None:
        """The undisturbed run, twice: the same states in the same order."""
        list(self._states())  # the library learns what it wants to know of the tables
        first, second = (list(self._states()) for _ in range(2))
        for step, (one, other) in enumerate(zip(first, second, strict=False)):
            if one != other:
                raise NotDeterministic(_OTHERWISE.format(self.world.name, step, "the undisturbed run"))

    def _states(self) -> Iterator[object]:
        with self._running() as run:
            while run.broken is None and run.step < MOST_STEPS:
                yield run.key()
                action = run.default()
                if action is None:
                    return
                run.take(action)

    # the stage

    def _prepare(self) -> None:
        """What a scenario does before its processes begin, undisturbed."""
        for body in self.world.preparations:
            stage = World(self.world.name, [Planned("before", body, False)])
            with self._entered(Run(stage, self._ground, Faults())) as run:
                while (action := run.default()) is not None:
                    run.take(action, check=False)
                    if run.broken is not None:
                        raise CallError(f"{self.world.name}: the preparation failed: {run.broken}")

    @contextmanager
    def _running(self, record: bool = False) -> Iterator[Run]:
        self._ground.reset()
        with self._entered(Run(self.world, self._ground, self._faults, record, self._whole_calls)) as run:
            yield run
        if refused:
            raise refused.pop()
        self.covered.steps += run.step
        self.covered.longest = max(self.covered.longest, run.step)
        if len(self._remains) >= _COLLECT:
            clean_up(self._remains)
        self._count()

    def _count(self) -> None:
        covered = self.covered
        covered.schedules += 1
        if self._progress is not None and covered.schedules % _TELL == 0:
            covered.states = len(self._visited)
            self._progress(covered)

    @contextmanager
    def _entered(self, run: Run) -> Iterator[Run]:
        self._run = run
        try:
            with run:
                yield run
        finally:
            self._run = None
            self._remains.append(run.remains())

    @contextmanager
    def _virtually(self) -> Iterator[None]:
        """Virtual time and chance, events of the library, no cleaning up in the middle of a run."""
        here = threading.get_ident()

        def hear(event: events.Event) -> None:
            if self._run is not None and threading.get_ident() == here:
                self._run.hear(event)

        def owner_chance() -> Chance:
            owner = self._run.loop.owner if self._run else None
            return owner.chance if owner is not None else Chance("before")

        log = logging.getLogger("raceproof")
        silent, collecting, frozen = log.disabled, gc.isenabled(), gc.get_freeze_count()
        before = identity.current()
        with ExitStack() as stack:
            stack.enter_context(virtual(lambda: self._run.clock if self._run else 0.0, owner_chance))
            stack.enter_context(events.subscribed(hear))
            log.disabled = True
            gc.disable()
            if not frozen:
                gc.freeze()  # what is there already need not be looked at when runs are cleaned up
            try:
                yield
            finally:
                clean_up(self._remains, thoroughly=True)
                refused.clear()
                log.disabled = silent
                if not frozen:
                    gc.unfreeze()
                if collecting:
                    gc.enable()
                identity.become(*before)


def _deviation(run: Run, ahead: Ahead, before: tuple[Action, ...], action: Action) -> Deviation:
    schedule = (*before, action)
    if action == WAIT:
        return Deviation(schedule)
    operation = run.operation(action)
    point = (operation.process.name, operation.label())
    return Deviation(schedule, ahead.of(action), run.used.plus(action.fate), point)


def _dominated(known: Sequence[Faults], used: Faults) -> bool:
    """Whether somebody was there before with no more faults used up."""
    return any(one.within(used) for one in known)
