"""Concurrent calls share one statement: calls that arrive while another one is running go into the next.

Under load a batch takes all calls that have gathered, so one commit serves many, and each caller still gets its own answer.
A call that the batch could not answer is made again alone, and the others do not wait for it. A caller that is cancelled
takes nothing away from the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")
Waiting = list[tuple[A, asyncio.Future[B | None]]]
MAX_BATCH = 256
_IS_AWAY = 2
"""Failures in a row that are taken for a store that is away."""


def in_order(waiting: "Waiting[A, B]") -> "tuple[Waiting[A, B], Waiting[A, B]]":
    """All that wait, in the order in which they came, up to `MAX_BATCH`; and the others."""
    still = [entry for entry in waiting if not entry[1].done()]
    return still[:MAX_BATCH], still[MAX_BATCH:]


class Batcher(Generic[A, B]):
    """Gathers calls into batches, one batch at a time.

    `many` makes the calls of a batch and must not wait for one of them: it answers None for a call that has to be made
    `alone`, and so are all calls of a batch that fails. Without `alone` it answers every call and is never called twice at
    once, for a store with one connection.
    `choose` says which of the calls that wait can share a batch. With `passes`, a caller who is the only one goes straight
    through, and the next batch runs beside it.
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
        self._running = False
        self._waiting: Waiting[A, B] = []
        self._batches: dict[asyncio.Task[None], Waiting[A, B]] = {}

    async def submit(self, call: A) -> B:
        """Make one call, in one statement with those that are made at the same time."""
        if self._passes is not None and not self._passing and not self._running:
            self._passing = True
            try:
                return await self._passes(call)
            finally:
                self._passing = False
        loop = asyncio.get_running_loop()
        future: asyncio.Future[B | None] = loop.create_future()
        self._waiting.append((call, future))
        if not self._running:
            self._running = True
            loop.call_soon(self._begin)
        try:
            answer = await future
        except asyncio.CancelledError:
            self._give_up()
            raise
        return answer if answer is not None else await self._alone(call)

    def _begin(self) -> None:
        batch, self._waiting = self._choose(self._waiting)
        if not batch:
            self._running = False
            return
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._batches[task] = batch
        task.add_done_callback(self._batches.pop)

    def _give_up(self) -> None:
        """Cancel batches whose callers have all gone: one that never ends would block everyone behind it."""
        for task, batch in self._batches.items():
            if all(future.done() for _, future in batch):
                task.cancel()

    async def _run(self, batch: "Waiting[A, B]") -> None:
        try:
            error = await self._make(batch)
            if error is not None and self._one_by_one:
                await self._find_bad_calls(batch, error)
        finally:
            # whoever has no answer makes its call alone, in its own time: the next batch does not wait for it
            _answer(batch, [None] * len(batch))
            # callers that were just answered run first and may call again: they belong in the next batch
            asyncio.get_running_loop().call_soon(self._begin)

    async def _find_bad_calls(self, batch: "Waiting[A, B]", error: Exception) -> None:
        """Make the calls of a batch that failed one after the other.

        Two failures in a row mean that the store is away: then it is not asked again for each call. The others are made
        together once more, and share the error if that fails. A call that had a batch of its own was alone already.
        """
        if len(batch) == 1:
            return _fail(batch, error)
        in_a_row = 0
        for place, entry in enumerate(batch, 1):
            failure = await self._make([entry])
            if failure is None:
                in_a_row = 0
                continue
            _fail([entry], failure)
            in_a_row += 1
            if in_a_row == _IS_AWAY:
                rest = batch[place:]
                if rest and (failure := await self._make(rest)):
                    _fail(rest, failure)
                return None
        return None

    async def _make(self, batch: "Waiting[A, B]") -> Exception | None:
        """Make these calls in one statement and answer them, or return its error."""
        try:
            _answer(batch, await self._many([call for call, _ in batch]))
        except Exception as error:
            return error
        return None


def _answer(batch: "Waiting[A, B]", answers: Sequence[B | None]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if not future.done():
            future.set_result(answer)


def _fail(batch: "Waiting[A, B]", error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
