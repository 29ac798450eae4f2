"""Applying safe repairs: those that lose nothing, block no one, and can be repeated."""

from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, overload

from raceproof.kernel.statement import Program, Statement, prepare
from raceproof.ops.doctor.finding import Problem, Repair
from raceproof.ops.inspect import Steps, run_steps, sql_of
from raceproof.ops.sweep.steps import Sweep
from raceproof.store import AsyncStore, Store


@overload
def fix(store: Store, problems: Sequence[Problem], by: str = ...) -> list[Problem]: ...
@overload
def fix(store: AsyncStore, problems: Sequence[Problem], by: str = ...) -> Awaitable[list[Problem]]: ...


def fix(store: Store | AsyncStore, problems: Sequence[Problem], by: str = "doctor") -> Any:
    """Apply the safe repairs of these problems, and return the repaired ones. On an AsyncStore, await it."""
    return run_steps(store, _steps(store, problems, by))


def _steps(store: Store | AsyncStore, problems: Sequence[Problem], by: str) -> Steps[list[Problem]]:
    done = []
    for problem, repair in _safe(problems):
        if repair.sweeps is not None:
            yield from Sweep(store, {"by": by}).all([repair.sweeps])  # type: ignore[list-item]
        for step in repair.steps:
            yield _one(store, repair, step)
        done.append(problem)
    return done


def _safe(problems: Sequence[Problem]) -> Iterator[tuple[Problem, Repair]]:
    for problem in problems:
        if problem.repair is not None and problem.repair.safe:
            yield problem, problem.repair


def _one(store: Store | AsyncStore, repair: Repair, step: tuple[str, ...]) -> Program[None]:
    """One step, which commits by itself: no transaction can build an index concurrently."""
    if repair.way == "redis":
        yield Statement("doctor.fix", step[0], step[1:])
    else:
        yield prepare("doctor.fix", step[0], sql_of(store).style).bind({})
