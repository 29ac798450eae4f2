"""A pack: a small scenario on the library's own primitives, and the promises that it exhausts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from raceproof.testing.explorer import Explorer, Limits, Verdict, World, world_of
from raceproof.testing.explorer.ground import Ground

GroundName = Literal["sqlite", "postgres", "redis"]

ALL: tuple[GroundName, ...] = ("sqlite", "postgres", "redis")
"""A scenario that asks the library for everything."""
SQL: tuple[GroundName, ...] = ("sqlite", "postgres")
"""One with statements, transactions or a history table of its own."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A scenario, the promises that it is about, how far it is explored, and the stores that it can run on."""

    name: str
    promises: tuple[str, ...]
    scenario: Callable[[World], None]
    limits: Limits = field(default_factory=lambda: Limits(deviations=3, seconds=300.0))
    grounds: tuple[GroundName, ...] = ALL

    def explore(self, limits: Limits | None = None, ground: Ground | None = None) -> Verdict:
        """What comes of it."""
        return Explorer(world_of(self.scenario), limits or self.limits, ground).explore()

    def replay(self, schedule: str, ground: Ground | None = None, strict: bool = True) -> Verdict:
        """Run one schedule of it."""
        return Explorer(world_of(self.scenario), self.limits, ground).replay(schedule, strict)
