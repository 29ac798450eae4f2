"""`@explore()`: a scenario as a test for pytest, and as a target for `raceproof explore`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from raceproof.testing.explorer.report import text
from raceproof.testing.explorer.search import Explorer
from raceproof.testing.explorer.verdict import Limits, Verdict
from raceproof.testing.explorer.world import World

Scenario = Callable[[World], None]


class ExplorationFailed(AssertionError):
    """A schedule breaks what must hold, or too little was tried; `.verdict` has the whole of it."""

    def __init__(self, verdict: Verdict, target: str = "") -> None:
        super().__init__(text(verdict, target))
        self.verdict = verdict


class Explored:
    """A scenario with its limits. Called without arguments, as pytest does, it explores and raises if it fails."""

    def __init__(self, scenario: Scenario, limits: Limits) -> None:
        self.scenario = scenario
        self.limits = limits
        self.__name__ = scenario.__name__
        self.__qualname__ = scenario.__qualname__
        self.__module__ = scenario.__module__
        self.__doc__ = scenario.__doc__

    def world(self) -> World:
        """The scenario, declared anew."""
        return world_of(self.scenario)

    def explore(self, **limits: Any) -> Verdict:
        """What comes of it."""
        return Explorer(self.world(), replace(self.limits, **limits)).explore()

    def replay(self, schedule: str, strict: bool = True) -> Verdict:
        """Run one schedule; unless `strict`, without the steps that are no longer possible."""
        return Explorer(self.world(), self.limits).replay(schedule, strict)


def world_of(scenario: Scenario) -> World:
    """A scenario, declared."""
    world = World(scenario.__name__)
    scenario(world)
    return world


def explored(scenario: Scenario | Explored | Callable[..., Any]) -> Explored:
    """A scenario in whichever way it was written: a plain function, or one with `@explore()` on it."""
    if isinstance(scenario, Explored):
        return scenario
    found = getattr(scenario, "explored", None)
    return found if isinstance(found, Explored) else Explored(scenario, Limits())


def explore(**limits: Any) -> Callable[[Scenario], Callable[[], None]]:
    """Make a scenario a test: `@explore(deviations=3, crashes=1)` over `def test_it(world): …`.

    Limits are `deviations`, `crashes`, `lost`, `errors`, `cancels` and `seconds`. The test fails if a schedule breaks what
    must hold, with that schedule as a table, and also if the time was not enough to tell.
    """

    def decorate(scenario: Scenario) -> Callable[[], None]:
        own = Explored(scenario, Limits(**limits))

        def test() -> None:
            verdict = own.explore()
            if not verdict.passed:
                raise ExplorationFailed(verdict, f"{scenario.__module__}:{scenario.__name__}")

        test.__name__ = scenario.__name__
        test.__qualname__ = scenario.__qualname__
        test.__module__ = scenario.__module__
        test.__doc__ = scenario.__doc__
        test.explored = own  # type: ignore[attr-defined]
        return test

    return decorate
