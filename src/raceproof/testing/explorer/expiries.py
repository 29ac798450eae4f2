"""When something is over, on a store that does not tell what its statements reckon with.

SQLite's functions of time are ours, so a statement that looks ahead by a lease says so. For the others the spans are known
from exploring the same scenario on SQLite; after every statement each of them may end something.
"""

from collections.abc import Iterable


class Spans:
    """Spans of time that statements reckon with, and when each may be over."""

    def __init__(self, spans: Iterable[float]) -> None:
        self._spans = sorted({round(span, 3) for span in spans if span > 0})
        self._clock = 0.0
        self._ends: set[float] = set()

    def set_clock(self, clock: float) -> None:
        self._clock = clock
        self._ends = {end for end in self._ends if end >= clock}

    def ran(self) -> None:
        """A statement ran now."""
        self._ends.update(round(self._clock + span, 3) for span in self._spans)

    def clear(self) -> None:
        self._ends.clear()

    def next(self) -> float | None:
        return min(self._ends) if self._ends else None

    def state(self) -> object:
        return frozenset(self._ends)
