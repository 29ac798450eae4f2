"""How the items of a worker are run: coroutines in the loop, plain functions in a thread; and what their ends mean."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from raceproof.events import log
from raceproof.outcome import Claim
from raceproof.worker.finishing import Ended, Failure, Finished, Finishing
from raceproof.worker.held import Held

Handled = Mapping[str, Any] | type[Finished] | None
Handler = Callable[[Claim[Any, Any]], Handled | Awaitable[Handled]]

GLANCE = 0.05
"""How long a thread goes on before it is looked at."""


class Items:
    """Runs items one after the other, and hands their ends to `finishing`; several of these runs go on at once."""

    def __init__(
        self,
        handler: Handler,
        held: Held,
        finishing: Finishing,
        stopping: asyncio.Event,
        timeout: float | None,
    ) -> None:
        self._handler = handler
        self._held = held
        self._finishing = finishing
        self._stopping = stopping
        self._timeout = timeout
        self.are_coroutines = inspect.iscoroutinefunction(handler)

    async def run(self, claims: Sequence[Claim[Any, Any]], ends: float | None) -> None:
        """Run these; `ends` is when they must all have ended, by the monotonic clock."""
        await (self._run_items(claims, ends) if self.are_coroutines else self._run_in_thread(claims, ends))

    def give_back(self, claims: Sequence[Claim[Any, Any]]) -> None:
        """Items that were not begun: somebody else may have them at once."""
        self._finishing.add([(one, Failure("the worker stops", counted=False)) for one in claims])

    async def _run_items(self, claims: Sequence[Claim[Any, Any]], ends: float | None) -> None:
        """Coroutine items, one after the other; several of these run at once."""
        for place, one in enumerate(claims):
            if self._stopping.is_set():
                self.give_back(claims[place:])
                return
            if self._held.has(one):
                self._finishing.add([(one, await self._run_item(one, ends))])

    async def _run_item(self, one: Claim[Any, Any], ends: float | None) -> Any:
        patience = self._patience(ends)
        try:
            if patience is None:
                return await self._handler(one)  # type: ignore[misc]
            async with asyncio.timeout(patience) as limit:
                return await self._handler(one)  # type: ignore[misc]
        except Failure as failure:
            return failure
        except TimeoutError as error:
            if patience is not None and limit.expired():
                return Failure(f"timed out after {patience:g} s")
            return _failure(one, error)
        except asyncio.CancelledError:
            # cancelled in the middle: what it has done is unknown, so the attempt counts
            self._finishing.add([(one, Failure("cancelled", delay=0.0))])
            raise
        except Exception as error:
            return _failure(one, error)

    async def _run_in_thread(self, claims: Sequence[Claim[Any, Any]], ends: float | None) -> None:
        """Plain functions, one after the other in a thread; the loop goes on renewing."""
        loop = asyncio.get_running_loop()
        place = 0
        while place < len(claims):
            if self._stopping.is_set():
                self.give_back(claims[place:])
                return
            progress = _Progress(place)
            work = loop.run_in_executor(None, self._run_plainly, claims, progress)
            patience = self._patience(ends)
            while not work.done():
                await asyncio.wait([work], timeout=min(GLANCE, patience or GLANCE))
                self._finishing.add(progress.take())
                if not work.done() and patience is not None and progress.is_overdue(ends, patience):
                    progress.abandoned = True
                    self._finishing.add(
                        [(claims[progress.place], Failure(f"timed out after {patience:g} s"))]
                    )
                    self.give_back(claims[progress.place + 1 :])
                    return  # the thread cannot be stopped; what it still writes is fenced off
            work.result()
            self._finishing.add(progress.take())
            place = progress.place

    def _run_plainly(self, claims: Sequence[Claim[Any, Any]], progress: "_Progress") -> None:
        """In the thread: run items until a short while is over."""
        handler, stopping, held = self._handler, self._stopping.is_set, self._held.has
        began = progress.began = time.monotonic()
        for one in claims[progress.place :]:
            end: Any = None
            try:
                mine = held(one)
                if mine:
                    end = handler(one)
            except Failure as failure:
                end = failure
            except Exception as error:
                end = _failure(one, error)
            if progress.abandoned:
                return
            if mine:
                progress.ended.append((one, end))
            progress.place += 1
            progress.began = now = time.monotonic()
            if now - began > GLANCE or stopping():
                return

    def _patience(self, ends: float | None) -> float | None:
        """How long the next item may take."""
        left = None if ends is None else max(0.0, ends - time.monotonic())
        if self._timeout is None:
            return left
        return self._timeout if left is None else min(left, self._timeout)


class _Progress:
    """How far a thread has come: which item it is at, since when, and which it has ended."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.began = time.monotonic()
        self.ended: list[Ended] = []
        self.abandoned = False
        self._taken = 0

    def take(self) -> list[Ended]:
        """What has ended since the last time."""
        fresh = self.ended[self._taken :]
        self._taken += len(fresh)
        return fresh

    def is_overdue(self, ends: float | None, patience: float) -> bool:
        now = time.monotonic()
        return now - self.began > patience or (ends is not None and now > ends)


def _failure(one: Claim[Any, Any], error: Exception) -> Failure:
    log.warning("%s: %r failed: %s: %s", one.move, one.key, type(error).__name__, error, exc_info=error)
    return Failure(f"{type(error).__name__}: {error}"[:500])
