"""Statements that may commit are never cancelled on the server.

A cancel that meets a commit which waits for its synchronous standby shows the row to everyone although the standby does not
have it. So a call that is cancelled waits for the end of its statement for a while, and then its connection is closed, which
PostgreSQL does not take for a cancel.
"""

import asyncio
from collections.abc import Callable, Coroutine
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
