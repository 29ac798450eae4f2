"""Tells those who follow a page that there is something new: one look at the database serves all of them."""

import asyncio
from collections.abc import AsyncGenerator


class Changes:
    """A number that changes with the data: `changes.tell(7)`, and for each page `async for number in changes.follow(15)`."""

    def __init__(self) -> None:
        self._number = 0
        self._changed = asyncio.Condition()
        self._followers = 0

    @property
    def followed(self) -> bool:
        """Whether anybody waits for changes."""
        return self._followers > 0

    async def tell(self, number: int) -> None:
        """The number as it is now."""
        if number != self._number:
            async with self._changed:
                self._number = number
                self._changed.notify_all()

    async def follow(self, silence: float) -> AsyncGenerator[int | None]:
        """The number at once and whenever it has changed; None as a sign of life after that many seconds without one."""
        self._followers += 1
        seen: int | None = None
        try:
            while True:
                try:
                    # the lock is not kept over a yield: whoever reads slowly would hold up everybody else
                    async with asyncio.timeout(silence), self._changed:
                        while self._number == seen:
                            await self._changed.wait()
                except TimeoutError:
                    yield None
                else:
                    seen = self._number
                    yield seen
        finally:
            self._followers -= 1
