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
_PROBES = 2


def in_order(waiting: "Waiting[A, B]") -> "tuple[Waiting[A, B], Waiting[A, B]]":
    """All that wait, in the order in which they came, up to `MAX_BATCH`; and the others."""
    still = [entry for entry in waiting if not entry[1].done()]
    return still[:MAX_BATCH], still[MAX_BATCH:]


class Batcher(Generic[A, B]):
    """Gathers calls into batches, one batch at a time.

    `many` makes the calls of a batch and must not wait for one of them: it answers None for a call that has to be made
    `alone`. Without `alone` it answers every call and is never called twice at once, for a store with one connection.
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
                await self._find_bad_calls_in_order(batch, error)
            elif error is not None:
                await self._find_bad_calls(batch)
        finally:
            _answer(batch, [None] * len(batch))  # whoever has no answer asks alone
            # callers that were just answered run first and may call again: they belong in the next batch
            asyncio.get_running_loop().call_soon(self._begin)

    async def _find_bad_calls(self, batch: "Waiting[A, B]") -> None:
        """One of the calls is bad, or the store is away: then it is not asked again for each of them.

        The first few are made alone. If one of them has an answer, the others are made alone too; if none has, the others
        are made together once more, and share the error if that fails.
        """
        probed, batch[:] = batch[:_PROBES], batch[_PROBES:]  # those that are made alone are answered by their probe
        probes = [asyncio.ensure_future(self._probe(call, future)) for call, future in probed]
        is_away = True
        for probe in asyncio.as_completed(probes):
            if await probe:
                is_away = False
                _answer(batch, [None] * len(batch))
        if is_away and batch and (error := await self._make(batch)):
            _fail(batch, error)

    async def _find_bad_calls_in_order(self, batch: "Waiting[A, B]", error: Exception) -> None:
        """The same, one call after the other. A call that had a batch of its own was alone already."""
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
            if in_a_row == _PROBES:
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


def _answer(batch: "Waiting[A, B]", answers: Sequence[B | None]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if not future.done():
            future.set_result(answer)


def _fail(batch: "Waiting[A, B]", error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
