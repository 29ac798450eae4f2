"""Sessions of those who gave the token: random, kept in this process, and over after a while or when they log out.

Promise: what the browser keeps says nothing about the token, is worth nothing after its end, and opens nothing in another
process. Not promised: that a session outlives a restart.
"""

import hashlib
import secrets
import time
from collections.abc import Callable

LASTS = 12 * 3600
_MOST = 200


class Sessions:
    """The sessions of one dashboard; of each only a hash is kept."""

    def __init__(self, seconds: float = LASTS, clock: Callable[[], float] = time.time) -> None:
        self.seconds = seconds
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def begin(self) -> str:
        """A new session; where there are too many, the oldest one ends."""
        now = self._clock()
        self._ends = {digest: end for digest, end in self._ends.items() if end > now}
        while len(self._ends) >= _MOST:
            del self._ends[next(iter(self._ends))]
        number = secrets.token_urlsafe(32)
        self._ends[_digest(number)] = now + self.seconds
        return number

    def knows(self, number: str) -> bool:
        """Whether this session has begun here and is not over."""
        return self._ends.get(_digest(number), 0.0) > self._clock()

    def end(self, number: str) -> None:
        """Log out."""
        self._ends.pop(_digest(number), None)


def _digest(number: str) -> bytes:
    return hashlib.sha256(number.encode(errors="replace")).digest()
