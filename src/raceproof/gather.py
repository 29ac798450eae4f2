"""Many calls at once, one statement: what arrives while one is on its way goes into the next.

Each caller gets its own answer. If a shared call fails, each of its callers asks alone, so one bad value never fails its
neighbours; a caller that is cancelled takes nothing away from the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Gathered(Generic[A, B]):
    """Gathers calls of `many`, one at a time."""

    def __init__(self, many: Callable[[Sequence[A]], Awaitable[Sequence[B]]], most: int = 256) -> None:
        self._many = many
        self._most = most
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._running: asyncio.Task[None] | None = None

    def submit(self, one: A) -> "asyncio.Future[B]":
        """The answer for one, which may come with those of others."""
        running = self._running
        loop = asyncio.get_running_loop() if running is None else running.get_loop()
        future: asyncio.Future[B] = loop.create_future()
        self._waiting.append((one, future))
        if running is None:
            # begins when all that is ready now has had its turn, and finds what that has brought
            self._running = loop.create_task(self._run())
        return future

    async def _run(self) -> None:
        try:
            while self._waiting:
                turn, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                turn = [entry for entry in turn if not entry[1].done()]
                if turn:
                    await self._answer(turn)
                    # those who were answered go on first; what is in hand by then joins the next turn
                    await asyncio.sleep(0)
        finally:
            self._running = None

    async def _answer(self, turn: list[tuple[A, "asyncio.Future[B]"]]) -> None:
        try:
            answers = await self._many([one for one, _ in turn])
        except Exception as error:
            if len(turn) == 1:
                _fail(turn[0][1], error)
                return
            for entry in turn:
                await self._answer([entry])
            return
        except BaseException:
            for _, future in turn:
                future.cancel()
            raise
        for (_, future), answer in zip(turn, answers, strict=True):
            if not future.done():
                future.set_result(answer)


def _fail(future: "asyncio.Future[B]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
