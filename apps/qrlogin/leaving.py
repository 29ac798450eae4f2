"""How a client leaves: a login in vain is logged out again also by a process that is told to end."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

GOODBYE = 5.0
"""Seconds that it may take."""


async def to_the_end(leaving: Awaitable[Any]) -> None:
    """Wait for it also if we are cancelled meanwhile; whatever comes of it."""
    task = asyncio.ensure_future(leaving)
    until, cancelled = time.monotonic() + GOODBYE, False
    while not task.done() and time.monotonic() < until:
        try:
            await asyncio.wait([task], timeout=GOODBYE)
        except asyncio.CancelledError:
            cancelled = True
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()
    if cancelled:
        raise asyncio.CancelledError
