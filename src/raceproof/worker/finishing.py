"""The end of items: gathered while the store is busy, and written together, each with its own fence and its own answer.

What the store refuses for one item is that item's failure: the others of its statement are written without it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from raceproof.events import log
from raceproof.outcome import Claim
from raceproof.reason import reason_of
from raceproof.spec import Move
from raceproof.store import AsyncStore
from raceproof.worker.held import Held

Ended = tuple[Claim[Any, Any], Any]
"""A claim, and what came of it: columns to set (or None) for an item that is done, or a `Failure`."""

Done = list[Claim[Any, Any]] | dict[Claim[Any, Any], Mapping[str, Any]]
"""Claims of items that are done, with the columns to set where there are some."""

_MOST = 2000


class Finished:
    """Return it, the class, from a handler that has finished its item itself, in one transaction with what it wrote (P6)."""


class Failure(Exception):
    """Raise it in a handler to say how an item is to be given back: to rest `delay` seconds, or, not `counted`, at once."""

    def __init__(self, reason: str = "", delay: float | None = None, counted: bool = True) -> None:
        super().__init__(reason)
        self.delay = delay
        self.counted = counted


def failure(error: BaseException) -> Failure:
    """The failure that any other error is."""
    return Failure(reason_of(error))


class Finishing:
    """Writes the ends of items, one statement at a time, while others gather."""

    def __init__(self, db: AsyncStore, held: Held, finish: Move[Any]) -> None:
        self._db = db
        self._held = held
        self._finish = finish
        self._waiting: list[Ended] = []
        self._running: asyncio.Task[None] | None = None
        self.finished = 0
        self.failed = 0
        self.lost = 0

    def add(self, ended: Sequence[Ended]) -> None:
        """Write these ends soon."""
        self._waiting.extend(ended)
        if self._running is None and self._waiting:
            self._running = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def flush(self) -> None:
        """Wait until everything is written."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                if self._held.renewing:
                    await self._held.settled([claim for claim, _ in batch])
                try:
                    await self._write(batch)
                except Exception:
                    # the items are still claimed: they are given to somebody else when their lease is over
                    log.exception("%d items could not be finished", len(batch))
        finally:
            self._running = None

    async def _write(self, batch: Sequence[Ended]) -> None:
        plain: list[Claim[Any, Any]] = []
        shapes: dict[tuple[str, ...], dict[Claim[Any, Any], Mapping[str, Any]]] = {}
        failures: list[tuple[Claim[Any, Any], Failure]] = []
        take = self._held.take
        for claim, end in batch:
            current = take(claim)
            if end is Finished:
                self.finished += 1
            elif current is None:
                self.lost += 1
            elif end is None:
                plain.append(current)
            elif isinstance(end, Failure):
                failures.append((current, end))
            elif isinstance(end, Mapping):
                shapes.setdefault(tuple(end), {})[current] = end
            else:
                kind = type(end).__name__
                failures.append((current, Failure(f"the handler returned {kind}, not a mapping or None")))
        # an empty mapping sets nothing
        plain += shapes.pop((), ())
        ends: list[Done] = [plain, *shapes.values()]
        for done in ends:
            if done:
                await self._write_done(done)
        for claim, why in failures:
            await self._write_failure(claim, why)

    async def _write_done(self, done: Done, again: bool = False) -> None:
        """Ends that set the same columns. If the store refuses some, they are found by halves, and have failed."""
        try:
            unmoved = await self._db._late(self._finish, done)
        except Exception as error:
            first = next(iter(done))
            await self._find(first)
            if len(done) == 1:
                log.warning("%s could not end %r: %s", self._finish, first.key, error)
                await self._write_failure(first, failure(error))
            else:
                for half in _halves(done):
                    await self._write_done(half, again=True)
            return
        # Redis may have moved some of those that were asked for together
        late = [answer for answer in unmoved if not (again and answer.reached)]
        for answer in late:
            log.warning("%s", answer)
        self.lost += len(late)
        self.finished += len(done) - len(late)

    async def _write_failure(self, claim: Claim[Any, Any], why: Failure) -> None:
        reason = str(why) or None
        try:
            if why.counted:
                (answer,) = await self._db.fail(claim, reason=reason, delay=why.delay)
            else:
                (answer,) = await self._db.release(claim, reason=reason)
        except Exception as error:
            await self._find(claim)
            if why.delay is None:
                log.exception("%s: %r could not be given back", claim.move, claim.key)
            else:
                await self._write_failure(claim, failure(error))
            return
        if answer.reached:
            self.failed += 1
        else:
            self.lost += 1
            log.warning("%s", answer)

    async def _find(self, claim: Claim[Any, Any]) -> None:
        """Raises if the store is away, and what could not be written is no fault of an item's."""
        await self._db.read(self._finish.lifecycle, claim.key)


def _halves(done: Done) -> tuple[Done, Done]:
    half = len(done) // 2
    if isinstance(done, list):
        return done[:half], done[half:]
    ended = list(done.items())
    return dict(ended[:half]), dict(ended[half:])
