"""Many calls at once, one statement: what arrives while one is on its way goes into the next.

Each caller gets its own answer. If a shared call fails, each of its callers asks alone, so one bad value never fails its
neighbours; a caller that is cancelled takes nothing away from the others. If two in a row fail alone too, the others ask
together once more, and share what becomes of that: a store that is away is not waited for by each in turn.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
Turn = list[tuple[A, "asyncio.Future[B]"]]


_IN_A_ROW = 2
"""So many callers that fail alone, one after the other, look like a store that is away."""


class Gathered(Generic[A, B]):
    """Gathers calls of `many`, one at a time."""

    def __init__(self, many: Callable[[Sequence[A]], Awaitable[Sequence[B]]], most: int = 256) -> None:
        self._many = many
        self._most = most
        self._waiting: Turn[A, B] = []
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
        turn: Turn[A, B] = []
        try:
            while self._waiting:
                turn, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                turn = [entry for entry in turn if not entry[1].done()]
                if turn:
                    await self._answer(turn)
                    # those who were answered go on first; what is in hand by then joins the next turn
                    await asyncio.sleep(0)
        except BaseException:
            # nobody else would ever answer those of this turn, nor those behind them
            for _, future in (*turn, *self._waiting):
                future.cancel()
            self._waiting = []
            raise
        finally:
            self._running = None

    async def _answer(self, turn: "Turn[A, B]") -> None:
        error = await self._ask(turn)
        if error is not None and len(turn) > 1:
            turn = await self._answer_each(turn)
            error = await self._ask(turn) if turn else None
        if error is not None:
            _fail(turn, error)

    async def _answer_each(self, turn: "Turn[A, B]") -> "Turn[A, B]":
        """Each alone; who is left when the store looks as if it were away."""
        in_a_row = 0
        for place, entry in enumerate(turn, 1):
            error = await self._ask([entry])
            if error is None:
                in_a_row = 0
                continue
            _fail([entry], error)
            in_a_row += 1
            if in_a_row == _IN_A_ROW:
                return turn[place:]
        return []

    async def _ask(self, turn: "Turn[A, B]") -> Exception | None:
        """One call for all of them, who have their answers then; or its error."""
        try:
            answers = await self._many([one for one, _ in turn])
        except Exception as error:
            return error
        for (_, future), answer in zip(turn, answers, strict=True):
            if not future.done():
                future.set_result(answer)
        return None


def _fail(turn: "Turn[A, B]", error: Exception) -> None:
    for _, future in turn:
        if not future.done():
            future.set_exception(error)
