"""SIGTERM and SIGINT stop all workers and leaders of a loop that ask for it; after the last they do what they did before."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LISTENED = (signal.SIGTERM, signal.SIGINT)


class _Listening:
    """A loop has one handler for a signal, so those who are to be stopped share it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before = {}
        self.stops: list[Callable[[], None]] = []
        for number in _LISTENED:
            before = signal.getsignal(number)
            loop.add_signal_handler(number, self._stop_all)
            # a handler of the loop's own is replaced for good, and what stands for it means nothing without it
            if before is not signal.getsignal(number):
                self._before[number] = before

    def _stop_all(self) -> None:
        for stop in self.stops:
            stop()

    def end(self) -> None:
        for number in _LISTENED:
            self._loop.remove_signal_handler(number)
            if (before := self._before.get(number)) is not None:
                signal.signal(number, before)


_listening: dict[asyncio.AbstractEventLoop, _Listening] = {}


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on SIGTERM and SIGINT, for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    mine = _listening.get(loop)
    if mine is None:
        mine = _listening[loop] = _Listening(loop)
    mine.stops.append(stop)
    try:
        yield
    finally:
        mine.stops.remove(stop)
        if not mine.stops:
            del _listening[loop]
            mine.end()
