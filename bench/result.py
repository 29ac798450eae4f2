"""What a comparison gives: two speeds, their ratio with its spread, and where the time went."""

import statistics
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call takes, in microseconds."""

    wall: float
    python: float
    """CPU time of this process, all threads."""
    server: float | None
    """CPU time of the server, all processes; None where the store is part of this process."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the report. Speeds are operations a second, unless the name says otherwise."""

    name: str
    ours: float | None
    reference: float | None
    ratio: float | None
    spread: tuple[float, float] | None
    """The quartiles of the ratios of all rounds."""
    goal: float | None = None
    ours_cost: Cost | None = None
    reference_cost: Cost | None = None

    @property
    def met(self) -> bool | None:
        return None if self.goal is None or self.ratio is None else self.ratio >= self.goal

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ours": _rounded(self.ours),
            "reference": _rounded(self.reference),
            "ratio": _rounded(self.ratio),
            "spread": None if self.spread is None else [_rounded(bound) for bound in self.spread],
            "goal": self.goal,
            "met": self.met,
        }


Run = Callable[[], Coroutine[Any, Any, list[Result]]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Something to measure; the names of its results begin with its own."""

    name: str
    run: Run


def by_rate(
    name: str,
    ours: Sequence[float],
    reference: Sequence[float],
    goal: float | None = None,
    costs: Sequence[Cost] = (),
) -> Result:
    """Operations a second, one figure for each round: more is better."""
    ratios = [mine / theirs for mine, theirs in zip(ours, reference, strict=True)]
    return Result(
        name,
        statistics.median(ours),
        statistics.median(reference),
        statistics.median(ratios),
        quartiles(ratios),
        goal,
        *costs[:2],
    )


def by_time(
    name: str,
    ours: Sequence[float],
    reference: Sequence[float],
    goal: float | None = None,
    costs: Sequence[Cost] = (),
    each: int = 1,
) -> Result:
    """Seconds of a call that does `each` operations, one figure for each round, told as operations a second."""
    return by_rate(name, [each / s for s in ours], [each / s for s in reference], goal, costs)


def by_cost(name: str, ours: Sequence[float], reference: Sequence[float]) -> Result:
    """Seconds of a call, told as operations a second; the ratio is that of the costs, so that less is better."""
    ratios = [mine / theirs for mine, theirs in zip(ours, reference, strict=True)]
    return Result(
        name,
        1 / statistics.median(ours),
        1 / statistics.median(reference),
        statistics.median(ratios),
        quartiles(ratios),
    )


def by_latency(name: str, ours: Sequence[float], reference: Sequence[float], goal: float | None = None) -> Result:
    """Seconds that callers waited, told in milliseconds; the ratio is reference ÷ ours, so that more is better."""
    ratios = [theirs / mine for mine, theirs in zip(ours, reference, strict=True)]
    return Result(
        name,
        statistics.median(ours) * 1e3,
        statistics.median(reference) * 1e3,
        statistics.median(ratios),
        quartiles(ratios),
        goal,
    )


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
