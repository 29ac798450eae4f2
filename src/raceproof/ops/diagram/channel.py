"""Wires in a channel beside a column of boxes: which port on the side of a box is whose, and which lane a wire takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from raceproof.declare.spec import Move

_CLEARANCE = 10  # between two wires that share a lane


@dataclass(frozen=True, eq=False, slots=True)
class Bundle:
    """Moves with the same sources: they share a wire."""

    sources: tuple[str, ...]
    moves: tuple[Move[Any], ...]


class Port(NamedTuple):
    """A place on the side of a box: where a bundle leaves, or where one of its moves arrives."""

    bundle: Bundle
    arriving: Move[Any] | None


Ports = Mapping[str, Sequence[Port]]
"""The ports of each box, from top to bottom."""


def ports_beside(bundles: Sequence[Bundle], statuses: Sequence[str]) -> Ports:
    """The ports where sources and targets stand in one column.

    What leads up is above what leads down. Of two that lead the same way, the farther one runs in the outer lane, so it
    takes the port that the lane of the nearer one does not cross.
    """
    row = {status: number for number, status in enumerate(statuses)}
    found: dict[str, list[tuple[bool, float, Port]]] = {status: [] for status in statuses}

    def add(status: str, port: Port, others: Sequence[str]) -> None:
        distance = mean([row[other] - row[status] for other in others])
        found[status].append((distance >= 0, -distance, port))

    for bundle in bundles:
        for source in bundle.sources:
            add(source, Port(bundle, None), [move.target for move in bundle.moves])
        for move in bundle.moves:
            add(move.target, Port(bundle, move), bundle.sources)
    return {status: [port for *_, port in sorted(ports, key=_rank)] for status, ports in found.items()}


def _rank(ranked: tuple[bool, float, Port]) -> tuple[bool, float]:
    return ranked[:2]


def ports_across(bundles: Sequence[Bundle], sources: Sequence[str], targets: Sequence[str]) -> tuple[Ports, Ports]:
    """The ports where the targets stand in a column of their own: each as high as its other ends."""
    row = {status: number for column in (sources, targets) for number, status in enumerate(column)}
    leaving: dict[str, list[Port]] = {status: [] for status in sources}
    arriving: dict[str, list[Port]] = {status: [] for status in targets}
    for bundle in sorted(bundles, key=lambda one: mean([row[move.target] for move in one.moves])):
        for source in bundle.sources:
            leaving[source].append(Port(bundle, None))
    for bundle in sorted(bundles, key=lambda one: mean([row[source] for source in one.sources])):
        for move in bundle.moves:
            arriving[move.target].append(Port(bundle, move))
    return leaving, arriving


class Heights(NamedTuple):
    """Where a bundle leaves its sources, and where each of its moves arrives."""

    leaving: tuple[float, ...]
    arriving: tuple[float, ...]

    @property
    def top(self) -> float:
        return min(self.leaving + self.arriving)

    @property
    def bottom(self) -> float:
        return max(self.leaving + self.arriving)


def lanes(wires: Sequence[Heights], across: bool) -> list[int]:
    """A lane for each wire, counted from the boxes that it leaves, with as few crossings as swapping neighbours finds.

    `across`: the targets are on the other side of the channel. Wires that do not overlap in height share a lane.
    """

    def crossings(inner: Heights, outer: Heights) -> int:
        passing = _between(outer.leaving, inner)
        return passing + (_between(inner.arriving, outer) if across else _between(outer.arriving, inner))

    order = sorted(range(len(wires)), key=lambda wire: wires[wire].bottom - wires[wire].top)
    for _ in wires:
        for place in range(len(order) - 1):
            one, other = order[place : place + 2]
            if crossings(wires[other], wires[one]) < crossings(wires[one], wires[other]):
                order[place : place + 2] = other, one
    taken = [0] * len(wires)
    for place, wire in enumerate(order):
        inside = [taken[other] for other in order[:place] if _overlap(wires[other], wires[wire])]
        taken[wire] = max(inside, default=-1) + 1
    return taken


def _between(heights: Sequence[float], wire: Heights) -> int:
    return sum(wire.top < height < wire.bottom for height in heights)


def _overlap(one: Heights, other: Heights) -> bool:
    return one.top < other.bottom + _CLEARANCE and other.top < one.bottom + _CLEARANCE


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
