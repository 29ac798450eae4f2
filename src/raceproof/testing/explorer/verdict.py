"""What an exploration comes to: a certificate, a failing schedule, or neither.

A certificate says what was exhausted. When the time was over before that, or when a fault that was asked for never
happened, nothing was shown: that is *inconclusive*, and never counts as passed.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from raceproof.testing.explorer.action import Fate, Faults
from raceproof.testing.explorer.run import Step


@dataclass(frozen=True, slots=True)
class Limits:
    """How far to go: deviations from the undisturbed run, and how many faults of each kind among them."""

    deviations: int = 3
    crashes: int = 1
    lost: int = 1
    errors: int = 1
    cancels: int = 1
    seconds: float = 10.0

    @property
    def faults(self) -> Faults:
        return Faults(self.crashes, self.lost, self.errors, self.cancels)


@dataclass(slots=True)
class Covered:
    """What was tried."""

    schedules: int = 0
    states: int = 0
    steps: int = 0
    longest: int = 0
    expiries: int = 0
    random: int = 0
    seconds: float = 0.0
    exhausted: int = -1
    """All schedules with so many deviations were tried; -1: not even those with none."""
    operations: set[tuple[str, str]] = field(default_factory=set)
    points: dict[Fate, set[tuple[str, str]]] = field(default_factory=dict)
    """Where each fault happened: process and operation."""
    reached: set[str] = field(default_factory=set)

    @property
    def crash_points(self) -> int:
        return len(self.points.get(Fate.DIES_BEFORE, ())) + len(self.points.get(Fate.DIES_AFTER, ()))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. `schedule` is the failing one, and `steps` what happens in it."""

    scenario: str
    ground: str
    kind: Literal["passed", "failed", "inconclusive"]
    limits: Limits
    covered: Covered
    why: str = ""
    schedule: str = ""
    steps: Sequence[Step] = ()
    processes: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        return self.kind == "passed"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        covered = self.covered
        return {
            "scenario": self.scenario,
            "ground": self.ground,
            "verdict": self.kind,
            "why": self.why,
            "schedule": self.schedule,
            "limits": asdict(self.limits),
            "covered": {
                "schedules": covered.schedules,
                "states": covered.states,
                "steps": covered.steps,
                "longest": covered.longest,
                "expiries": covered.expiries,
                "random": covered.random,
                "seconds": round(covered.seconds, 3),
                "exhausted": covered.exhausted,
                "faults": {fate.value: len(points) for fate, points in covered.points.items()},
                "reached": sorted(covered.reached),
            },
            "steps": [
                {
                    "step": step.number,
                    "process": step.process,
                    "operation": step.operation,
                    "fault": step.fate.value,
                    "answer": step.answer,
                    "told": step.told,
                    "clock": step.clock,
                    "tables": {name: [dict(row) for row in rows] for name, rows in step.tables.items()},
                }
                for step in self.steps
            ],
        }
