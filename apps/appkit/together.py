"""Calls that come at the same time share one run: the first starts at once, the next share the run after it.

For work whose cost is mostly that of asking, such as a statement and its commit. One that fails on account of its
neighbours is run again alone, so that a bad item fails by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Together(Generic[Item, Result]):
    """`await Together(run).ask(item)`, where `run(items)` returns a result for each."""

    def __init__(self, run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]], most: int = 200) -> None:
        self._run = run
        self._most = most
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def ask(self, item: Item) -> Result:
        """The result for one item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            await self._answer(batch)
        self._running = None

    async def _answer(self, batch: list[tuple[Item, Any]]) -> None:
        try:
            results = await self._run([item for item, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)
        except Exception as error:
            if len(batch) == 1:
                [(_, future)] = batch
                if not future.done():
                    future.set_exception(error)
                return
            for one in batch:
                await self._answer([one])
