"""Counts of the last minute and the last hour in this process, each in sixty buckets."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from raceproof.ops.web.queries.rates import HOUR, MINUTE

K = TypeVar("K", bound=Hashable)
_PARTS = 60


class RecentCounts(Generic[K]):
    """Counts of keys by time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._parts: dict[float, deque[tuple[int, Counter[K]]]] = {
            MINUTE: deque(maxlen=_PARTS),
            HOUR: deque(maxlen=_PARTS),
        }

    def add(self, key: K) -> None:
        now = self._clock()
        with self._lock:
            for seconds, parts in self._parts.items():
                place = int(now * _PARTS / seconds)
                if not parts or parts[-1][0] != place:
                    parts.append((place, Counter()))
                parts[-1][1][key] += 1

    def within(self, seconds: float) -> Counter[K]:
        """How often each key came in the last minute or hour."""
        first = int(self._clock() * _PARTS / seconds) - _PARTS + 1
        with self._lock:
            return sum((counts for place, counts in self._parts[seconds] if place >= first), Counter[K]())
