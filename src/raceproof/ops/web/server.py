"""The HTTP side of `raceproof web`: uvicorn's own protocol, with an end to waiting for a request.

Promise: a connection on which no whole request head has come after some seconds is closed, and of those that wait only so
many are kept, so that half-open connections block no one. A mounted dashboard uses the server of its host instead.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_A_HEAD = 10.0
MOST_WAITING = 100


def impatient(seconds: float = SECONDS_FOR_A_HEAD, most: int = MOST_WAITING) -> type[H11Protocol]:
    """The protocol of one server: `uvicorn.Config(app, http=impatient())`."""
    waiting: dict[H11Protocol, asyncio.TimerHandle] = {}  # the first one waits longest

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._go_on()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._answering:
                self._go_on()

        def on_response_complete(self) -> None:
            super().on_response_complete()  # which begins with the next request, if it has come already
            if not self._answering and not self.transport.is_closing():
                self._wait()

        @property
        def _answering(self) -> bool:
            cycle: Any = self.cycle  # None until the first request
            return cycle is not None and not cycle.response_complete

        def _wait(self) -> None:
            """From now on, however many bytes trickle in; who waits longest makes room."""
            self._go_on()
            waiting[self] = self.loop.call_later(seconds, self.transport.close)
            if len(waiting) > most:
                oldest = next(iter(waiting))
                waiting.pop(oldest).cancel()
                oldest.transport.close()

        def _go_on(self) -> None:
            timer = waiting.pop(self, None)
            if timer is not None:
                timer.cancel()

    return Impatient
