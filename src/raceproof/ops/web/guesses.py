"""Wrong tokens: each is answered late and counted, and after a few no more are compared for a while.

Promise: at most `PER_CLIENT` wrong tokens a minute are compared from one address, by form and by header together, and none
from strangers once there are `IN_ALL`. An address that has given the right token before keeps its own limit, and a session
that has begun is never affected. Not promised: to distinguish clients behind one address.
"""

import asyncio
import ipaddress
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.requests import Request

from raceproof.kernel.events import log

PER_CLIENT = 10
IN_ALL = 60
WINDOW = 60.0
_DELAY = 1.0
_MOST_FORMS = 20
_MOST_TRUSTED = 200


class Guesses:
    """The wrong tokens of the last minute."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._wrong: deque[tuple[float, str]] = deque()
        self._trusted: dict[str, None] = {}
        self._forms = 0

    def admit(self, client: str) -> None:
        """Raise 429 if no token of this client may be compared now."""
        self._forget()
        own = [at for at, one in self._wrong if one == client]
        if len(own) >= PER_CLIENT:
            self._refuse(own[0])
        if len(self._wrong) >= IN_ALL and client not in self._trusted:
            self._refuse(self._wrong[0][0])

    def right(self, client: str) -> None:
        """Remember who had the token, so that the guesses of others do not keep them out."""
        self._trusted.pop(client, None)
        self._trusted[client] = None
        while len(self._trusted) > _MOST_TRUSTED:
            del self._trusted[next(iter(self._trusted))]

    async def wrong(self, client: str) -> None:
        """Count it at once, say so in the log, and let the answer wait."""
        self._wrong.append((self._clock(), client))
        number = sum(one == client for _, one in self._wrong)
        log.warning(
            "dashboard: wrong token from %s (%d from there, %d in all within a minute)%s",
            client,
            number,
            len(self._wrong),
            "; no more are compared for now" if number >= PER_CLIENT or len(self._wrong) >= IN_ALL else "",
        )
        await self._sleep(_DELAY)

    @contextmanager
    def form(self) -> Iterator[None]:
        """A place to send the form from: slow senders may take all of these places, and no others."""
        if self._forms >= _MOST_FORMS:
            raise HTTPException(429, "too many logins at once: try again", headers={"Retry-After": "5"})
        self._forms += 1
        try:
            yield
        finally:
            self._forms -= 1

    def _forget(self) -> None:
        begin = self._clock() - WINDOW
        while self._wrong and self._wrong[0][0] <= begin:
            self._wrong.popleft()

    def _refuse(self, oldest: float) -> None:
        seconds = max(1, int(oldest + WINDOW - self._clock()) + 1)
        raise HTTPException(
            429, f"too many wrong tokens: try again in {seconds} s", headers={"Retry-After": str(seconds)}
        )


def client_of(request: Request) -> str:
    """The address of a client; IPv6 addresses of one network are one client."""
    host = request.client.host if request.client else "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 6 and not address.is_loopback:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
