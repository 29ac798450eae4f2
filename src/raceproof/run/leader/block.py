"""A block that SIGTERM and SIGINT end: first something is done, then what waits in the block is cancelled.

The program goes on after the block, as it does after `worker.run(signals=True)`: the cancellation does not leave it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from raceproof.run.signals import stopped_by_signals


class SignalledBlock:
    """The block of the task that has entered it."""

    def __init__(self, before: Callable[[], Awaitable[None]]) -> None:
        self._before = before
        self._listening = ExitStack()
        self._ending: asyncio.Task[None] | None = None
        self._inside = False
        self._cut = False

    def enter(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelled_before = task.cancelling()
        self._listening.enter_context(stopped_by_signals(self._signalled))
        self._inside = True

    def _signalled(self) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        try:
            await self._before()
        finally:
            if self._inside:  # else it has ended meanwhile by itself
                self._cut = True
                self._task.cancel()

    async def leave(self) -> None:
        """The block has ended, in whatever way; what a signal has begun comes to its end."""
        self._inside = False
        if self._ending is not None:
            await asyncio.wait([self._ending])

    def close(self, raised: type[BaseException] | None) -> bool:
        """Signals mean what they meant before; whether what the block raised is the cancellation of our own."""
        self._listening.close()
        if not self._cut:
            return False
        others = self._task.uncancel() > self._cancelled_before
        return raised is asyncio.CancelledError and not others
