"""Doing the repairs that are safe: those that lose nothing, refuse nobody, and may be done twice."""

from collections.abc import Iterator, Sequence

from raceproof.kernel.statement import Program, Statement, prepare
from raceproof.ops.doctor.finding import Problem, Repair
from raceproof.ops.sweep import sweep
from raceproof.store import AsyncStore, Store


def fix(store: Store, problems: Sequence[Problem], by: str = "doctor") -> list[Problem]:
    """Do the safe repairs among these, and say which problems they were for."""
    done = []
    for problem, repair in _safe(problems):
        if repair.sweeps is not None:
            sweep(store, repair.sweeps, by=by)  # type: ignore[arg-type]
        for step in repair.steps:
            store.run(_one(store, repair, step))
        done.append(problem)
    return done


async def afix(store: AsyncStore, problems: Sequence[Problem], by: str = "doctor") -> list[Problem]:
    """The same on an async store."""
    done = []
    for problem, repair in _safe(problems):
        if repair.sweeps is not None:
            await sweep(store, repair.sweeps, by=by)  # type: ignore[arg-type]
        for step in repair.steps:
            await store.run(_one(store, repair, step))
        done.append(problem)
    return done


def _safe(problems: Sequence[Problem]) -> Iterator[tuple[Problem, Repair]]:
    for problem in problems:
        if problem.repair is not None and problem.repair.safe:
            yield problem, problem.repair


def _one(store: Store | AsyncStore, repair: Repair, step: tuple[str, ...]) -> Program[None]:
    """One step, which commits by itself: an index that is made concurrently can be made in no transaction."""
    if repair.way == "redis":
        yield Statement("doctor.fix", step[0], step[1:])
    else:
        yield prepare("doctor.fix", step[0], store.driver.dialect.style).bind({})
