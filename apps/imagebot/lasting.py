"""Work whose outcome must not be lost because its caller is cancelled: a worker that lost its claim, a shutdown."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("imagebot.lasting")

LAST_WORD = 5.0
"""Seconds that a cancelled caller waits for the answer to what it has asked for, and for writing it down."""


async def to_the_end(work: Coroutine[Any, Any, T], patience: float = LAST_WORD) -> T:
    """The result of `work`. If the caller is cancelled, `work` has `patience` more seconds before it is cancelled too."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=patience)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("a cancelled caller does not hear of %s: %s", type(error).__name__, error)
        raise
