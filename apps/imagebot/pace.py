"""Spaces requests evenly over time; KIE refuses what comes faster."""

import asyncio
import time


class Pace:
    """`await pace.turn()` before each request."""

    def __init__(self, per_second: float) -> None:
        self._gap = 1 / per_second
        self._next = 0.0

    async def turn(self) -> None:
        now = time.monotonic()
        at = max(now, self._next)
        self._next = at + self._gap
        if at > now:
            await asyncio.sleep(at - now)
