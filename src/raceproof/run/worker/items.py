"""How the items of a worker are run, and what their ends mean: coroutines, in the loop. Plain functions: `threads.py`."""

import asyncio
import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.kernel.cancellation import cancellations
from raceproof.kernel.events import log
from raceproof.kernel.reasons import reason_of
from raceproof.run.worker.finishing import Failure, Finished, Finishing, failure
from raceproof.run.worker.held import Held

Handled = Mapping[str, Any] | type[Finished] | None
Handler = Callable[[Claim[Any, Any]], Handled | Awaitable[Handled]]


class Items:
    """Runs items one after the other, and hands their ends to `finishing`; several of these runs go on at once."""

    def __init__(
        self, handler: Handler, held: Held, finishing: Finishing, is_stopped: Callable[[], bool], timeout: float | None
    ) -> None:
        self._handler = handler
        self._held = held
        self._finishing = finishing
        self._is_stopped = is_stopped
        self._timeout = timeout

    async def run(self, claims: Sequence[Claim[Any, Any]], ends: float | None) -> None:
        """Run these; `ends` is when they must all have ended, by the monotonic clock."""
        for place, one in enumerate(claims):
            if self._is_over(ends):
                self.give_back(claims[place:])
                return
            if self._held.has(one):
                try:
                    end = await self._run_item(one, ends)
                except GeneratorExit:  # this was abandoned
                    raise
                except BaseException as error:
                    # ended in the middle: what it has done is unknown, so the attempt counts
                    cancelled = isinstance(error, asyncio.CancelledError)
                    end = Failure("cancelled", delay=0.0) if cancelled else failed(one, error)
                    self._finishing.add([(one, end)])
                    self.give_back(claims[place + 1 :])
                    raise
                self._finishing.add([(one, end)])

    def give_back(self, claims: Sequence[Claim[Any, Any]]) -> None:
        """Items that have not begun: others can claim them at once."""
        held = [one for one in claims if self._held.has(one)]
        self._finishing.add([(one, Failure("not begun", counted=False)) for one in held])

    def let_go(self) -> None:
        """Let go of what items are run by, until the next time."""

    def _is_over(self, ends: float | None) -> bool:
        """Whether no item may be begun any more."""
        return self._is_stopped() or (ends is not None and time.monotonic() >= ends)

    async def _run_item(self, one: Claim[Any, Any], ends: float | None) -> Any:
        patience = self._patience(ends)
        try:
            if patience is None:
                return await self._handler(one)  # type: ignore[misc]
            async with asyncio.timeout(patience) as limit:
                return await self._handler(one)  # type: ignore[misc]
        except Failure as given_up:
            return given_up
        except BaseException as error:
            if not ends_only_the_item(error):
                raise
            if isinstance(error, TimeoutError) and patience is not None and limit.expired():
                return timed_out(patience)
            return failed(one, error)

    def _patience(self, ends: float | None) -> float | None:
        """How long the next item may take."""
        left = None if ends is None else max(0.0, ends - time.monotonic())
        if self._timeout is None:
            return left
        return self._timeout if left is None else min(left, self._timeout)


def timed_out(seconds: float) -> Failure:
    return Failure(f"timed out after {seconds:.3g} s")


def failed(one: Claim[Any, Any], error: BaseException) -> Failure:
    log.warning("%s: %r failed: %s", one.declared, one.key, reason_of(error), exc_info=error)
    return failure(error)


def ends_only_the_item(error: BaseException) -> bool:
    """Whether it is an error of what ran, and neither the end of the process nor of the task that ran it."""
    if isinstance(error, asyncio.CancelledError):
        # without a cancellation of this task it comes from something that the item awaited
        return cancellations() == 0
    return not isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit)


def is_coroutine_function(handler: Any) -> bool:
    """Also behind functools.partial, and of an object that is called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
