"""Whether the database answers, asked several times a second on a connection of its own.

A database that hangs refuses nothing: whoever asks it waits. So requests wait for their work or for this watch, whichever
is first, and a request that was given up is answered with 503. What it had begun may still be kept: as after any 503, the
caller asks again. SQLite is a file and is not watched.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from appkit.loops import Loop

ANSWER = 0.6
"""Seconds in which the database has to answer."""
EVERY = 0.2
Result = TypeVar("Result")


class Unavailable(Exception):
    """The database does not answer; the message says why, without anything of a DSN."""


class Watch:
    """One database: `loops.start("database", watch.run)`, then `await watch.answer(work)`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None
        self._gone = asyncio.Event()
        self._left: set[asyncio.Future[Any]] = set()
        self.reason = ""
        """Why it is down; empty while it answers."""
        self._last = ""

    async def run(self, loop: Loop) -> None:
        """Ask until this is cancelled."""
        try:
            while True:
                reason = await self._ask()
                if reason:
                    self._down(reason)
                else:
                    self.reason = ""
                    self._gone.clear()
                    loop.beat()
                loop.complaint = self.reason
                await asyncio.sleep(EVERY)
        finally:
            self._drop()

    async def answer(self, work: Callable[[], Awaitable[Result]], begun: Callable[[], bool] = lambda: False) -> Result:
        """What the work returns; raises `Unavailable` if the database goes away before, and nothing was `begun`."""
        if self.reason:
            raise Unavailable(self.reason)
        task = asyncio.ensure_future(work())
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() or begun():
                return await task
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            gone.cancel()
        # not waited for: ending a statement takes an answer of the database too
        task.cancel()
        self._left.add(task)
        task.add_done_callback(self._forget)
        raise Unavailable(self._last)

    def _forget(self, task: "asyncio.Future[Any]") -> None:
        self._left.discard(task)
        if not task.cancelled():
            task.exception()

    def _down(self, reason: str) -> None:
        self.reason = self._last = reason
        self._gone.set()
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _ask(self) -> str:
        """Empty if it answers in time, and otherwise why not."""
        asking = asyncio.ensure_future(self._once())
        await asyncio.wait([asking], timeout=ANSWER)
        if not asking.done():
            await asyncio.sleep(0)  # a loop that was busy itself may have the answer by now
        if not asking.done():
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await asyncio.wait([asking], timeout=ANSWER)
            return f"the database has not answered for {ANSWER:g} s"
        error = asking.exception()
        return "" if error is None else f"the database cannot be used: {type(error).__name__}"

    async def _once(self) -> None:
        import asyncpg

        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._url, timeout=10 * ANSWER, statement_cache_size=0)
        await self._connection.execute("SELECT 1")


def is_unavailable(error: BaseException | None) -> bool:
    """Whether an error means that the database is away, and not that a statement is wrong."""
    while error is not None:
        if isinstance(error, BaseExceptionGroup):
            return any(map(is_unavailable, error.exceptions))
        if isinstance(error, ConnectionError | TimeoutError | Unavailable):
            return True
        name, state = type(error).__name__, getattr(error, "sqlstate", None) or ""
        if name == "InterfaceError" and "closed" in str(error):
            return True
        if name in _AWAY or str(state)[:2] in ("08", "57", "53"):
            return True
        if getattr(error, "connection_invalidated", False):
            return True
        error = error.__cause__ or getattr(error, "orig", None)
    return False


_AWAY = ("StoreUnavailable", "gaierror", "ConnectionDoesNotExistError", "TooManyConnectionsError")
