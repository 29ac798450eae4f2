"""Which status stands where in its column, and how high: the vertical half of the layout.

All heights are multiples of half a port's distance. Where a wire that leaves the left column would lie on another one that
arrives at the right column, the right column is a quarter of that distance lower.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from raceproof.declare.spec import Move, Spec
from raceproof.ops.diagram.channel import Bundle, Heights, Ports, mean, ports_across, ports_beside

PORT = 16  # the distance of two ports of one box
HEADER = 64
_SMALLEST_BOX = 32


class Rows:
    """The statuses in two columns, the moves between them, and the height of everything."""

    def __init__(self, spec: Spec[Any]) -> None:
        going_on = [status for status in spec.statuses if status not in spec.terminal]
        self.open = sorted(going_on, key=lambda status: status not in spec.initial)
        self.next_moves = self._next_moves(spec)
        self.left = self._bundles([move for move in spec.moves.values() if move.target not in spec.terminal])
        self.right = self._bundles([move for move in spec.moves.values() if move.target in spec.terminal])
        self.ended = sorted(spec.terminal, key=lambda status: mean(self._rows_of_sources(status)))
        self._beside = ports_beside(self.left, self.open)
        self._leaving, self._arriving = ports_across(self.right, self.open, self.ended)
        self.height = {
            status: max(_SMALLEST_BOX, *(PORT * len(ports.get(status, ())) for ports in self._all_ports()))
            for status in (*self.open, *self.ended)
        }
        self.top: dict[str, float] = {}
        self._place_open()
        self._place_ended()
        if self._wires_overlap():
            self.top |= {status: self.top[status] + PORT / 4 for status in self.ended}

    def middle(self, status: str) -> float:
        return self.top[status] + self.height[status] / 2

    def bottom(self, status: str) -> float:
        return self.top[status] + self.height[status]

    def heights(self, bundle: Bundle) -> Heights:
        """Where the ports of a bundle are."""
        leaving: list[float] = []
        arriving: dict[Move[Any], float] = {}
        for ports_of in self._all_ports():
            for status, ports in ports_of.items():
                for number, port in enumerate(ports):
                    height = self.middle(status) + (number - (len(ports) - 1) / 2) * PORT
                    if port.bundle is bundle and port.arriving:
                        arriving[port.arriving] = height
                    elif port.bundle is bundle:
                        leaving.append(height)
        return Heights(tuple(leaving), tuple(arriving[move] for move in bundle.moves))

    def _all_ports(self) -> tuple[Ports, ...]:
        return self._beside, self._leaving, self._arriving

    def _next_moves(self, spec: Spec[Any]) -> dict[str, tuple[Move[Any], ...]]:
        """The moves from a status to the one below it, which need no wire."""
        found = {}
        for above, below in zip(self.open, self.open[1:], strict=False):
            moves = tuple(m for m in spec.moves.values() if above in m.sources and m.target == below)
            if moves:
                found[above] = moves
        return found

    def _bundles(self, moves: Sequence[Move[Any]]) -> list[Bundle]:
        found: dict[tuple[str, ...], list[Move[Any]]] = defaultdict(list)
        for move in moves:
            sources = tuple(s for s in self.open if s in move.sources and move not in self.next_moves.get(s, ()))
            if sources:
                found[sources].append(move)
        return [Bundle(sources, tuple(same)) for sources, same in found.items()]

    def _sources(self, status: str) -> list[str]:
        return [s for b in self.right for m in b.moves if m.target == status for s in b.sources]

    def _rows_of_sources(self, status: str) -> list[float]:
        return [self.open.index(source) for source in self._sources(status)]

    def _place_open(self) -> None:
        top = float(HEADER)
        for status in self.open:
            self.top[status] = top
            labels = len(self.next_moves.get(status, ()))
            top += self.height[status] + (PORT * (labels + 2) if labels else PORT * 1.5)

    def _place_ended(self) -> None:
        """Each beside the middle of its sources; those that would overlap are stacked around their common middle."""
        stacks: list[tuple[list[str], float]] = []
        for status in self.ended:
            stack, middle = [status], mean([self.middle(source) for source in self._sources(status)])
            while stacks and stacks[-1][1] + self._stacked(stacks[-1][0]) / 2 > middle - self._stacked(stack) / 2:
                above, above_middle = stacks.pop()
                middle = (above_middle * len(above) + middle * len(stack)) / (len(above) + len(stack))
                stack = above + stack
            stacks.append((stack, middle))
        least = float(HEADER)
        for stack, middle in stacks:
            wanted = middle - (self._stacked(stack) - PORT) / 2
            top = max(least, round(wanted / (PORT / 2)) * (PORT / 2))
            for status in stack:
                self.top[status] = top
                top += self.height[status] + PORT
            least = top

    def _wires_overlap(self) -> bool:
        heights = [self.heights(bundle) for bundle in self.right]
        return any(
            set(one.leaving).intersection(other.arriving) for one in heights for other in heights if one is not other
        )

    def _stacked(self, statuses: Sequence[str]) -> float:
        return sum(self.height[status] + PORT for status in statuses)
