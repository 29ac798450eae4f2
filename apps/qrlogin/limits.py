"""How often something may be done in a minute for each name, in this process."""

import time
from collections import OrderedDict

MINUTE = 60.0
MOST_NAMES = 100_000


class Limit:
    """A bucket for each name, filled evenly; the names that were used least recently are forgotten."""

    def __init__(self, in_a_minute: int) -> None:
        self._most = float(in_a_minute)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, name: str) -> bool:
        """Whether it may be done now; if so, it counts."""
        now = time.monotonic()
        left, since = self._buckets.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._most / MINUTE)
        allowed = left >= 1
        self._buckets[name] = (left - 1 if allowed else left, now)
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
        return allowed
