"""How things are compared: ours and its reference take turns, so that whatever disturbs the machine disturbs both.

A lone caller alternates call by call, and a round gives the median of each side (of each kind of move, and of these the
mean, for one kind may cost more than the other); many callers alternate in short blocks.
The ratio is taken within each round; of all rounds the median counts, and the quartiles are told.
"""

import asyncio
import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from bench.commands import Turn
from bench.cpu import start
from bench.raw import Call
from bench.result import Cost
from raceproof.testing import Server

_WARM_UP = 20


class NotMoved(RuntimeError):
    """A call that should have moved its row did not: the comparison would be of something else."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of those that take turns."""

    call: Call
    permits: Iterator[tuple[int, Any]]
    moved: Callable[[Any], bool]
    """Whether the answer says that the row was moved."""
    awaits: bool = False
    warm_up: int = _WARM_UP


def not_none(answer: Any) -> bool:
    return answer is not None


@dataclass(frozen=True, slots=True)
class Taken:
    """The median seconds of a call in each round, for each side; and what a call costs when a side runs alone."""

    medians: list[list[float]]
    costs: list[Cost]


async def interleave(
    sides: Sequence[Side], rounds: int, seconds: float, alone: float = 0.0, server: Server | None = None
) -> Taken:
    """Let the sides take turns call by call, at least once in each round."""
    for side in sides:
        for _ in range(side.warm_up):
            await _timed(side)
    medians: list[list[float]] = [[] for _ in sides]
    permit = 0
    for _ in range(rounds):
        gc.collect()
        taken: list[tuple[list[float], list[float]]] = [([], []) for _ in sides]
        end = perf_counter() + seconds
        while True:
            permit += 1
            for place in range(len(sides)):
                which = (permit + place) % len(sides)
                step, time = await _timed(sides[which])
                taken[which][step].append(time)
            if perf_counter() >= end:
                break
        for which, steps in enumerate(taken):
            medians[which].append(statistics.mean(statistics.median(times) for times in steps if times))
    return Taken(medians, [await _alone(side, alone, server) for side in sides] if alone else [])


async def _timed(side: Side) -> tuple[int, float]:
    """Which move it was, and the seconds that it took."""
    step, key = next(side.permits)
    call, awaits = side.call, side.awaits
    began = perf_counter()
    answer = call(step, key)
    if awaits:
        answer = await answer
    taken = perf_counter() - began
    if not side.moved(answer):
        raise NotMoved(f"{key} was not moved: {answer}")
    return step, taken


async def _alone(side: Side, seconds: float, server: Server | None) -> Cost:
    times: list[float] = []
    meter = start(server)
    while not times or perf_counter() < meter.begun + seconds:
        _, time = await _timed(side)
        times.append(time)
    return replace(meter.cost(len(times)), wall=statistics.median(times) * 1e6)


@dataclass(frozen=True, slots=True)
class Block:
    """What many callers did in one block."""

    rate: float
    p99: float
    cost: Cost


async def block(
    call: Call,
    permits: Sequence[Iterator[Turn]],
    moved: Callable[[Any], bool],
    seconds: float,
    server: Server | None,
) -> Block:
    """So many callers at once, each with rows of its own and the next call as soon as the last is answered."""
    latencies: list[float] = []

    async def caller(own: Iterator[Turn]) -> None:
        while (began := perf_counter()) < end:
            step, key = next(own)
            answer = await call(step, key)
            latencies.append(perf_counter() - began)
            if not moved(answer):
                raise NotMoved(f"{key} was not moved: {answer}")

    gc.collect()
    meter = start(server)
    end = meter.begun + seconds
    async with asyncio.TaskGroup() as callers:
        for own in permits:
            callers.create_task(caller(own))
    cost = meter.cost(len(latencies))
    latencies.sort()
    return Block(rate=1e6 / cost.wall, p99=latencies[int(len(latencies) * 0.99)], cost=cost)


def typical(costs: Sequence[Cost]) -> Cost:
    """The median of several costs."""
    servers = [cost.server for cost in costs if cost.server is not None]
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.python for cost in costs),
        statistics.median(servers) if servers else None,
    )
