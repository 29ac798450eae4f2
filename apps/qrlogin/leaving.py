"""How a client leaves: a login in vain is logged out again, also when the process ends, and every client disconnects."""

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import TypeVar

from qrlogin.telegram import ANSWER_SECONDS, Client

T = TypeVar("T")
log = logging.getLogger("qrlogin.leaving")

GOODBYE = 5.0
"""Seconds for the logout, and again for the end of the connection."""


async def leave(client: Client, log_out: bool) -> bool:
    """Disconnect, after a logout if it is wanted; whether Telegram has answered that. Finishes even if cancelled."""
    return bool(await _to_the_end(_left(client, log_out)))


async def end_session(client: Client) -> bool:
    """End a saved session at Telegram; False if Telegram did not answer. One that had ended there is fine too."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await client.connect()
    except Exception as error:
        log.warning("Telegram cannot be reached to end a session (%s)", type(error).__name__)
        await leave(client, log_out=False)
        return False
    return await leave(client, log_out=True)


async def _left(client: Client, log_out: bool) -> bool:
    answered = False
    try:
        if log_out:
            async with asyncio.timeout(GOODBYE):
                await client.log_out()  # False if Telegram refuses: then there was nothing to log out of
            answered = True
    except Exception as error:
        log.warning("a login could not be logged out (%s)", type(error).__name__)
    finally:
        # Telethon disconnects only after a logout that worked
        async with asyncio.timeout(GOODBYE):
            await client.disconnect()
    return answered


async def _to_the_end(leaving: Awaitable[T]) -> T | None:
    """Wait for it also if we are cancelled meanwhile; nothing if it fails or takes too long."""
    task = asyncio.ensure_future(leaving)
    until, cancelled = time.monotonic() + 2 * GOODBYE + 1, False
    while not task.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait([task], timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if not task.done():
        task.cancel()
    failed = not task.done() or task.cancelled() or task.exception() is not None
    if cancelled:
        raise asyncio.CancelledError
    return None if failed else task.result()
