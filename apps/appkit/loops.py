"""Loops that run for as long as the service does, and what `/health` says about them.

A loop that ends with an error is logged and begun again after a rest; until it has come to work again, and while it has
not been heard of for too long, the service is not healthy. A loop that died quietly is what hurt in the field.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appkit.watch import Watch

log = logging.getLogger("appkit.loops")

REST = 1.0
LONGEST_REST = 30.0


@dataclass
class Loop:
    """One of them: when it was last heard of, and how often it has failed."""

    name: str
    silent: float
    """Seconds after which it counts as stuck if it has not been heard of."""
    heard: float | None = None
    """When it last beat; none if it has not come to work yet."""
    failures: int = 0
    """In a row; a beat ends it."""
    last_error: str = ""
    complaint: str = ""
    """What it says itself is wrong."""

    def beat(self) -> None:
        """It works: call this at every turn."""
        self.heard = time.monotonic()
        self.failures = 0

    async def beating(self) -> None:
        """Beats once a second for as long as this runs, beside work that lives as long as it does not raise."""
        while True:
            self.beat()
            await asyncio.sleep(1)

    @property
    def trouble(self) -> str | None:
        """What is wrong, in words."""
        if self.complaint:
            return self.complaint
        if self.failures:
            return f"failed {self.failures} times in a row, the last time with {self.last_error}"
        if self.heard is None:
            return "has not come to work yet"
        silence = time.monotonic() - self.heard
        return f"not heard of for {silence:.0f} s" if silence > self.silent else None


Body = Callable[[Loop], Awaitable[None]]


class Loops:
    """All loops of a process: `async with Loops() as loops: loops.start("listener", listen)`."""

    def __init__(self) -> None:
        self._loops: list[Loop] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._draining = False
        self.watched: Watch | None = None
        """The database that requests depend on."""

    async def __aenter__(self) -> "Loops":
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, name: str, body: Body, silent: float = 60.0) -> Loop:
        """Run a body until the service ends, again if it fails."""
        loop = Loop(name, silent)
        self._loops.append(loop)
        self._tasks.append(asyncio.create_task(self._run(loop, body), name=name))
        return loop

    def watch(self, url: str) -> None:
        """Watch the database at this URL: `/health` and requests learn within a second that it hangs."""
        if url.startswith("postgres"):
            from appkit.watch import Watch

            self.watched = Watch(url)
            self.start("database", self.watched.run, silent=5.0)

    async def drain(self, *names: str, seconds: float) -> None:
        """Wait for loops that have been asked to end, at most this many seconds."""
        self._draining = True
        ending = [task for task in self._tasks if task.get_name() in names]
        if ending:
            await asyncio.wait(ending, timeout=seconds)

    def health(self) -> dict[str, str]:
        """For each loop `ok`, or what is wrong with it."""
        return {loop.name: loop.trouble or "ok" for loop in self._loops}

    @property
    def healthy(self) -> bool:
        return not any(loop.trouble for loop in self._loops)

    async def _run(self, loop: Loop, body: Body) -> None:
        while True:
            try:
                await body(loop)
                if self._draining:
                    return
                error: BaseException = RuntimeError("it returned")
            except Exception as raised:
                error = raised
            loop.failures += 1
            # messages of drivers may carry a DSN or a row: the type says enough
            loop.last_error = type(error).__name__
            rest = min(REST * 2 ** (loop.failures - 1), LONGEST_REST)
            log.warning("loop %s ended with %s, again in %.0f s", loop.name, loop.last_error, rest)
            log.debug("loop %s", loop.name, exc_info=error)
            await asyncio.sleep(rest)
