"""Concurrent calls share one statement: calls that arrive while another one is running go into the next.

Under load a turn takes everything that has gathered, so one commit serves many, and each caller still gets its own answer: a
call that the turn could not answer is made again alone, and nobody waits for it. A caller that is cancelled takes nothing
away from the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
Waiting = list[tuple[A, asyncio.Future[B | None]]]
MAX_BATCH = 256
_PROBES = 2


def in_order(waiting: "Waiting[A, B]") -> "tuple[Waiting[A, B], Waiting[A, B]]":
    """All that wait, in the order in which they came, up to `MAX_BATCH`; and the others."""
    still = [entry for entry in waiting if not entry[1].done()]
    return still[:MAX_BATCH], still[MAX_BATCH:]


class Batcher(Generic[A, B]):
    """Gathers calls into turns, one turn at a time.

    `many` makes the calls of a turn and must not wait for one of them: it answers None for a call that has to be made
    `alone`. Without `alone` it answers every call and is never called twice at once, for a store with one connection.
    `choose` says which of the calls that wait can share a turn. With `passes`, a caller who is the only one goes straight
    through, and the next turn runs beside it.
    """

    def __init__(
        self,
        many: Callable[[Sequence[A]], Awaitable[Sequence[B | None]]],
        alone: Callable[[A], Awaitable[B]] | None = None,
        choose: "Callable[[Waiting[A, B]], tuple[Waiting[A, B], Waiting[A, B]]]" = in_order,
        passes: Callable[[A], Awaitable[B]] | None = None,
    ) -> None:
        self._many = many
        self._alone = alone or self.submit
        self._one_by_one = alone is None
        self._choose = choose
        self._passes = passes
        self._passing = False
        self._turning = False
        self._waiting: Waiting[A, B] = []
        self._turns: dict[asyncio.Task[None], Waiting[A, B]] = {}

    async def submit(self, call: A) -> B:
        """Make one call, in one statement with those that are made at the same time."""
        if self._passes is not None and not self._passing and not self._turning:
            self._passing = True
            try:
                return await self._passes(call)
            finally:
                self._passing = False
        loop = asyncio.get_running_loop()
        future: asyncio.Future[B | None] = loop.create_future()
        self._waiting.append((call, future))
        if not self._turning:
            self._turning = True
            loop.call_soon(self._begin_turn)
        try:
            answer = await future
        except asyncio.CancelledError:
            self._give_up()
            raise
        return answer if answer is not None else await self._alone(call)

    def _begin_turn(self) -> None:
        turn, self._waiting = self._choose(self._waiting)
        if not turn:
            self._turning = False
            return
        task = asyncio.get_running_loop().create_task(self._run_turn(turn))
        self._turns[task] = turn
        task.add_done_callback(self._turns.pop)

    def _give_up(self) -> None:
        """End the turns that nobody waits for any more: one that never ends would hold up all who come after."""
        for task, turn in self._turns.items():
            if all(future.done() for _, future in turn):
                task.cancel()

    async def _run_turn(self, turn: "Waiting[A, B]") -> None:
        try:
            error = await self._make(turn)
            if error is not None and self._one_by_one:
                await self._tell_apart_in_order(turn, error)
            elif error is not None:
                await self._tell_apart(turn)
        finally:
            _answer(turn, [None] * len(turn))  # whoever has no answer asks alone
            # callers that were just answered run first and may call again: they belong in the next turn
            asyncio.get_running_loop().call_soon(self._begin_turn)

    async def _tell_apart(self, turn: "Waiting[A, B]") -> None:
        """One of the calls is bad, or the store is away: then it is not asked again for each of them.

        The first few are made alone. If one of them has an answer, the others are made alone too; if none has, the others
        are made together once more, and share the error if that fails.
        """
        probed, turn[:] = turn[:_PROBES], turn[_PROBES:]  # nobody else answers those that are made alone
        probes = [asyncio.ensure_future(self._probe(call, future)) for call, future in probed]
        is_away = True
        for probe in asyncio.as_completed(probes):
            if await probe:
                is_away = False
                _answer(turn, [None] * len(turn))
        if is_away and turn and (error := await self._make(turn)):
            _fail(turn, error)

    async def _tell_apart_in_order(self, turn: "Waiting[A, B]", error: Exception) -> None:
        """The same, one call after the other. A call that had a turn of its own was alone already."""
        if len(turn) == 1:
            return _fail(turn, error)
        in_a_row = 0
        for place, entry in enumerate(turn, 1):
            failure = await self._make([entry])
            if failure is None:
                in_a_row = 0
                continue
            _fail([entry], failure)
            in_a_row += 1
            if in_a_row == _PROBES:
                rest = turn[place:]
                if rest and (failure := await self._make(rest)):
                    _fail(rest, failure)
                return None
        return None

    async def _make(self, turn: "Waiting[A, B]") -> Exception | None:
        """Make these calls in one statement and answer them, or return its error."""
        try:
            _answer(turn, await self._many([call for call, _ in turn]))
        except Exception as error:
            return error
        return None

    async def _probe(self, call: A, future: "asyncio.Future[B | None]") -> bool:
        """Make a call alone and hand its end to its caller; whether it has an answer."""
        try:
            answer = await self._alone(call)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception as error:
            if not future.done():
                future.set_exception(error)
            return False
        if not future.done():
            future.set_result(answer)
        return True


def _answer(turn: "Waiting[A, B]", answers: Sequence[B | None]) -> None:
    for (_, future), answer in zip(turn, answers, strict=True):
        if not future.done():
            future.set_result(answer)


def _fail(turn: "Waiting[A, B]", error: Exception) -> None:
    for _, future in turn:
        if not future.done():
            future.set_exception(error)
