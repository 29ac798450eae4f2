"""Many calls at once, one statement: calls that arrive while another is on its way share the next one.

A lone caller goes straight through. Under load a turn takes everything that has gathered, so one commit serves many, and
each caller still gets its own answer: a row that fails is asked for again alone, a row that somebody else has locked waits
alone on another connection, and nobody waits for either. The same row is never twice in one statement.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from raceproof.moves import MoveRequest
from raceproof.outcome import Answer

MaybeAnswer = Answer[Any, Any] | None
Waiting = tuple[MoveRequest, "asyncio.Future[MaybeAnswer]"]
_MOST = 256


class Coalescer:
    """Lets a lone caller pass (`one`) and gathers the rest into turns (`many`, where None means "not here": `wait`).

    `one` and `wait` may have to wait for a row; `many` must not, and runs beside them on a connection of its own.
    """

    def __init__(
        self,
        one: Callable[[MoveRequest], Awaitable[Answer[Any, Any]]],
        many: Callable[[Sequence[MoveRequest]], Awaitable[Sequence[MaybeAnswer]]],
        wait: Callable[[MoveRequest], Awaitable[Answer[Any, Any]]],
        choose: "Callable[[list[Waiting]], tuple[list[Waiting], list[Waiting]]]",
    ) -> None:
        self._one = one
        self._many = many
        self._wait = wait
        self._choose = choose
        self._passing = False
        self._turning = False
        self._waiting: list[Waiting] = []
        self._turns: dict[asyncio.Task[None], list[Waiting]] = {}

    async def submit(self, request: MoveRequest) -> Answer[Any, Any]:
        """Answer one call, sharing a statement with whoever calls at the same time."""
        if not self._passing and not self._turning:
            self._passing = True
            try:
                return await self._one(request)
            finally:
                self._passing = False
        loop = asyncio.get_running_loop()
        future: asyncio.Future[MaybeAnswer] = loop.create_future()
        self._waiting.append((request, future))
        if not self._turning:
            self._turning = True
            loop.call_soon(self._begin_turn)
        try:
            answer = await future
        except asyncio.CancelledError:
            self._give_up()
            raise
        return answer if answer is not None else await self._wait(request)

    def _begin_turn(self) -> None:
        turn, self._waiting = self._choose(self._waiting)
        if not turn:
            self._turning = False
            return
        task = asyncio.get_running_loop().create_task(self._run_turn(turn))
        self._turns[task] = turn
        task.add_done_callback(self._turns.pop)

    def _give_up(self) -> None:
        """End the turns that nobody waits for any more: what is heard of no more would hold up all who come after."""
        for task, turn in self._turns.items():
            if all(future.done() for _, future in turn):
                task.cancel()

    async def _run_turn(self, turn: list[Waiting]) -> None:
        answers: Sequence[MaybeAnswer] = [None] * len(turn)
        try:
            answers = await self._many([request for request, _ in turn])
        except Exception:
            # one of them is bad, or the store is down: each asks alone and gets an answer or an error of its own
            answers = [None] * len(turn)
        finally:
            for (_, future), answer in zip(turn, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
            # callers that were just answered run first and may ask again: they belong into the next turn
            asyncio.get_running_loop().call_soon(self._begin_turn)


def one_shape(waiting: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
    """Those that can share a statement with the one that waits longest, each row once; and those that cannot."""
    turn: list[Waiting] = []
    later: list[Waiting] = []
    rows = set()
    shape = None
    for entry in waiting:
        request, future = entry
        if future.done():
            continue
        if shape is None:
            shape = request.shape
        if len(turn) < _MOST and request.parts not in rows and request.shape == shape:
            rows.add(request.parts)
            turn.append(entry)
        else:
            later.append(entry)
    return turn, later


def anything(waiting: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
    """All that wait, in the order in which they came; for a store that decides one after the other anyway."""
    open_ones = [entry for entry in waiting if not entry[1].done()]
    return open_ones[:_MOST], open_ones[_MOST:]
