"""Statements that may commit are never cancelled on the server.

A cancel that meets a commit which waits for its synchronous standby shows the row to everyone although the standby does not
have it. So a cancelled call waits for the end of its statement for a while, and then its connection is closed, which
PostgreSQL does not take for a cancel. `unbroken` works for any driver; `unbroken_asyncpg` costs no task and no extra turn of
the event loop, but needs a driver that waits for plain futures and lets them end when the connection is closed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that a cancelled call waits for the end of its statement before it closes the connection."""


async def unbroken(statement: Coroutine[Any, Any, T], drop: Callable[[], None]) -> T:
    """Await a statement that may commit; if the caller is cancelled, no cancel reaches the driver.

    When CancelledError is raised, the statement has ended or `drop` has closed its connection: it is never left busy.
    """
    task = asyncio.get_running_loop().create_task(statement)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait((task,), timeout=PATIENCE)
        finally:
            if not task.done():
                drop()
            task.add_done_callback(_heard)
        raise


def _heard(task: "asyncio.Task[Any]") -> None:
    """Retrieve the result, so that asyncio does not log an exception that was never looked at."""
    if not task.cancelled():
        task.exception()


class unbroken_asyncpg:  # awaited like a function; a coroutine could not stand between the driver and the task
    """`unbroken` in the caller's own task: the task waits for the driver's future, but cannot cancel it."""

    __slots__ = ("_drop", "_statement")

    def __init__(self, statement: Coroutine[Any, Any, Any], drop: Callable[[], None]) -> None:
        self._statement = statement
        self._drop = drop

    def __await__(self) -> Generator[Any, None, Any]:
        statement = self._statement
        cancelled: asyncio.CancelledError | None = None
        try:
            while True:
                try:
                    waited = statement.send(None)
                except StopIteration as end:
                    if cancelled is not None:
                        raise cancelled from None
                    return end.value
                except Exception:
                    if cancelled is not None:
                        raise cancelled from None
                    raise
                wait = None if waited is None else _Uncancellable(waited, self._drop)
                if wait is not None and cancelled is not None:
                    wait.cancel()
                try:
                    yield wait
                except asyncio.CancelledError as error:
                    cancelled = error
                except Exception:
                    pass  # the failure of the awaited future, which the statement meets when it goes on
                finally:
                    if wait is not None:
                        wait.over()
        finally:
            statement.close()


class _Uncancellable:
    """A future as a task sees it. Cancelling it starts the patience; the task goes on when the real one has ended."""

    __slots__ = ("_asyncio_future_blocking", "_drop", "_future", "_timer")

    def __init__(self, future: "asyncio.Future[Any]", drop: Callable[[], None]) -> None:
        future._asyncio_future_blocking = False  # the task awaits this object instead
        self._asyncio_future_blocking = True
        self._future = future
        self._drop = drop
        self._timer: asyncio.TimerHandle | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future.get_loop()

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        self._future.add_done_callback(callback, context=context)

    def cancel(self, msg: object = None) -> bool:
        """Refuse: the task then gets its CancelledError as soon as the statement has ended."""
        if self._timer is None:
            self._timer = self.get_loop().call_later(PATIENCE, self._drop)
        return False

    def over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
