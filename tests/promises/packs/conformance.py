"""Whether two stores decide alike: schedules that were explored on one are run on the other, and every answer is compared.

A call of the library is one step here, since stores need different numbers of statements for the same call. That is what
justifies exploring on SQLite what will run on PostgreSQL or Redis.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from raceproof.testing.explorer.action import Action, Schedule, written
from raceproof.testing.explorer.ground import Ground
from raceproof.testing.explorer.on_sqlite import SqliteGround
from raceproof.testing.explorer.search import Deviation, Explorer
from raceproof.testing.explorer.verdict import Limits, Verdict
from raceproof.testing.explorer.world import World

_FENCE = re.compile(r"fence (?:\S+ [\d:.+]+(?=,| now)|[^\s,]+)")


@dataclass(frozen=True, slots=True)
class Difference:
    """Where another store went another way."""

    schedule: str
    step: int
    one: str
    other: str

    def __str__(self) -> str:
        return f"step {self.step} of {self.schedule!r}: {self.one} here, {self.other} there"


class _Collecting(Explorer):
    """Keeps every schedule that it tries."""

    def __init__(self, world: World, limits: Limits) -> None:
        self.tried: list[tuple[Action, ...]] = []
        super().__init__(world, limits, SqliteGround(), whole_calls=True)

    def _try(self, one: Deviation, cost: int) -> tuple[list[Action], str] | None:
        self.tried.append(one.schedule)
        return super()._try(one, cost)


def explored_schedules(world: World, limits: Limits, most: int) -> list[Schedule]:
    """Schedules that an exploration on SQLite has tried, evenly chosen among all of them."""
    explorer = _Collecting(_unwatched(world), limits)
    explorer.explore()
    tried = explorer.tried
    step = max(1, len(tried) / most)
    return [tried[int(place * step)] for place in range(min(most, len(tried)))]


def durations(world: World, limits: Limits) -> set[float]:
    """The spans of time that the scenario's statements reckon with."""
    ground = SqliteGround()
    Explorer(world, replace(limits, deviations=min(1, limits.deviations)), ground).explore()
    return ground.durations


def differences(
    world: World, schedules: Sequence[Schedule], one: Ground, other: Ground, limits: Limits
) -> Iterator[Difference]:
    """Every schedule on both stores; where an answer, an effect or the end of a run differs."""
    world = _unwatched(world)
    here = Explorer(world, limits, one, whole_calls=True).replays(schedules, strict=False)
    waits = [[step.clock for step in verdict.steps if step.process is None] for verdict in here]
    there = Explorer(world, limits, other, whole_calls=True).replays(schedules, strict=False, waits=waits)
    for schedule, first, second in zip(schedules, map(told, here), map(told, there), strict=True):
        for step in range(max(len(first), len(second))):
            left, right = (lines[step] if step < len(lines) else "nothing" for lines in (first, second))
            if left != right:
                yield Difference(written(schedule, world.names), step + 1, left, right)
                break


def _unwatched(world: World) -> World:
    """The same without what must hold: that is for explorations, and here every store is asked the same."""
    return replace(world, always_hold=[], hold_at_the_end=[], changes=[], reached=[])


def told(verdict: Verdict) -> list[str]:
    """What happened in a run, as far as processes can tell. How a store writes a fence is its own business."""
    fences: dict[str, str] = {}

    def numbered(fence: re.Match[str]) -> str:
        return fences.setdefault(fence[0], f"fence #{len(fences) + 1}")

    lines = []
    for step in verdict.steps:
        who = step.title or "time"
        line = f"{who} {step.operation} {step.fate.value} {'; '.join(step.told)}".rstrip()
        lines.append(_FENCE.sub(numbered, line))
    return [*lines, f"{verdict.kind} {_FENCE.sub(numbered, verdict.why)}".rstrip()]
