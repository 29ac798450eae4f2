"""What a queue is to the benchmark: the shape that every module beside this one has once or twice."""

from collections.abc import Callable, Sequence
from typing import Protocol

Ran = Callable[[int], None]
"""What the worker calls for each item: the work itself, which only remembers that it was done."""


class Queue(Protocol):
    """One queue, in the measuring process and again in the worker's; `tuned` is best instead of default."""

    def __init__(self, url: str, tuned: bool) -> None: ...

    async def set_up(self) -> None:
        """Make tables and connect, in the measuring process, before the worker starts."""

    async def enqueue(self, items: Sequence[int]) -> None:
        """Hand them all in, as fast as the interface allows."""

    async def unfinished(self) -> int:
        """How many items the store has that are not finished."""

    async def close(self) -> None:
        """Disconnect; the worker is gone by then, and the database will be."""

    def work(self, ran: Ran) -> None:
        """In the worker's process: call `ran` for each item, until killed."""
