"""Ours beside each queue, four runs in a round: both by default, both at best; the rule is in `bench.queues`."""

import gc
from collections.abc import Awaitable, Callable, Iterator
from statistics import median

from bench.queues.sides import PEERS, RAW, Side
from bench.result import Comparison, Result, Run, by_rate
from bench.scale import SHORT, SMOKE
from bench.world import World

Ours = Callable[[World, int, bool], Awaitable[float]]
"""The seconds that ours takes for so many items, by default or tuned, by the same rule."""

OURS_RATES = (20_000.0, 50_000.0)
"""Items a second, roughly, as for the others."""

_SECONDS = 4.0
"""How long a run should take, but for a smoke run; a queue that looks once a second needs as much to show its pace."""
_FEWEST = 20


def comparisons(world: World, ours: Ours | None = None) -> Iterator[Comparison]:
    """One for each queue, in a short run for the quickest alone; without ours only their own figures."""
    peers = [max(PEERS, key=lambda side: max(side.rates))] if world.scale is SHORT else PEERS
    for side in (RAW, *peers):
        name = f"queue, no-op items/s · {side.name}"
        yield Comparison(name, _measured(world, name, side, ours))


def _measured(world: World, name: str, side: Side, ours: Ours | None) -> Run:
    async def run() -> list[Result]:
        rates: dict[tuple[bool, bool], list[float]] = {}
        for number in range(_rounds(world, side)):
            for mine, tuned in _turns(world, side, number):
                measure = ours if mine else side.measure
                if measure is None:
                    continue
                items = _items(world, (OURS_RATES if mine else side.rates)[tuned])
                gc.collect()
                rates.setdefault((mine, tuned), []).append(items / await measure(world, items, tuned))
        return _results(name, side, rates)

    return run


def _rounds(world: World, side: Side) -> int:
    """Hand-written SQL is so near that it takes all of them to tell; the other queues are far away."""
    return world.scale.rounds if side is RAW else max(1, world.scale.rounds // 3)


def _turns(world: World, side: Side, number: int) -> list[tuple[bool, bool]]:
    """Who runs in a round and how, as (ours, tuned). A smoke run sees each peer once, and ours once for all."""
    if world.scale is SMOKE:
        return [(True, False), (True, True), (False, True)] if side is RAW else [(False, True)]
    return [(mine, tuned) for mine in (number % 2 == 0, number % 2 == 1) for tuned in (False, True)]


def _items(world: World, rate: float) -> int:
    return max(_FEWEST, int(rate * min(_SECONDS, 10 * world.scale.block)))


def _results(name: str, side: Side, rates: dict[tuple[bool, bool], list[float]]) -> list[Result]:
    default = rates.get((False, False), rates[False, True])
    best = max(default, rates[False, True], key=median)
    if (True, True) not in rates:
        return [
            Result(f"{name} · its default", None, median(default), None, None),
            Result(f"{name} · its best", None, median(best), None, None),
        ]
    ours_default, ours_best = rates[True, False], rates[True, True]
    return [
        by_rate(f"{name} · default ÷ its default", ours_default, default),
        by_rate(f"{name} · default ÷ its best", ours_default, best, goal=None if side is RAW else 1.0),
        by_rate(f"{name} · best ÷ its best", ours_best, best, goal=0.8 if side is RAW else 2.0),
    ]
