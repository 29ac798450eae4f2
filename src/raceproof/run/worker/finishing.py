"""The end of items: gathered while the store is busy, and written together, each with its own fence and its own answer.

What the store refuses for one item is that item's failure: the others of its statement are written without it.
"""

import asyncio
import inspect
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.declare.spec import Move
from raceproof.kernel.events import log
from raceproof.kernel.reasons import message_of, reason_of
from raceproof.run.worker.held import Held
from raceproof.store import AsyncStore

Ended = tuple[Claim[Any, Any], Any]
"""A claim, and what came of it: columns to set (or None) for an item that is done, or a `Failure`."""

Done = list[Claim[Any, Any]] | dict[Claim[Any, Any], Mapping[str, Any]]
"""Claims of items that are done, with the columns to set where there are some."""

_MOST = 2000


class Finished:
    """Return it, the class, from a handler that has finished its item itself, in one transaction with what it wrote (P6)."""


class Failure(Exception):
    """Raise it in a handler to give the item back: it backs off for `delay` seconds, or, not `counted`, is free at once."""

    def __init__(self, reason: str = "", delay: float | None = None, counted: bool = True) -> None:
        super().__init__(reason)
        self.delay = delay
        self.counted = counted

    @property
    def kind(self) -> Hashable:
        """Failures of one kind are written together."""
        known = self.delay is None or isinstance(self.delay, int | float)
        return (self.counted, self.delay if known else id(self), message_of(self))


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
            self._begin()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def flush(self) -> None:
        """Wait until everything is written."""
        while self._running is not None:
            await asyncio.wait([self._running])

    def _begin(self) -> None:
        self._running = asyncio.create_task(self._run())
        self._running.add_done_callback(self._ended)

    def _ended(self, _: "asyncio.Task[None]") -> None:
        self._running = None
        if self._waiting:
            self._begin()

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                await self._write(batch)
            except asyncio.CancelledError:
                # by a loop that ends, as it does with all tasks: what was not sent is sent by the next one
                self._waiting[:0] = [one for one in batch if self._held.has(one[0])]
                raise
            except Exception:
                # the items are still claimed: they can be claimed again when their lease is over
                log.exception("%d items could not be finished", len(batch))
                self._held.take([claim for claim, _ in batch])

    async def _write(self, batch: Sequence[Ended]) -> None:
        plain = [claim for claim, end in batch if end is None]
        shapes: dict[tuple[str, ...], dict[Claim[Any, Any], Mapping[str, Any]]] = {}
        failures: dict[Hashable, tuple[Failure, list[Claim[Any, Any]]]] = {}
        for claim, end in batch if len(plain) < len(batch) else ():
            if end is Finished:
                self._held.take([claim])
                self.finished += 1
            elif isinstance(end, Mapping):
                shapes.setdefault(tuple(end), {})[claim] = end
            elif end is not None:
                why = end if isinstance(end, Failure) else _no_end(claim, end)
                failures.setdefault(why.kind, (why, []))[1].append(claim)
        # an empty mapping sets nothing
        plain += shapes.pop((), ())
        if plain and (taken := await self._taken(plain)):
            await self._write_done(list(taken.values()))
        for shape in shapes.values():
            if taken := await self._taken(shape):
                await self._write_done({now: shape[claim] for claim, now in taken.items()})
        for why, claims in failures.values():
            if taken := await self._taken(claims):
                await self._write_failures(list(taken.values()), why)

    async def _taken(self, claims: Collection[Claim[Any, Any]]) -> dict[Claim[Any, Any], Claim[Any, Any]]:
        """As they are now, without those that were lost; renewed until here, where their end is about to be written."""
        if self._held.renewing:
            await self._held.settled(claims)
        taken = self._held.take(claims)
        self.lost += len(claims) - len(taken)
        return taken

    async def _write_done(self, done: Done, again: bool = False) -> None:
        """Ends that set the same columns. If the store refuses some, they are found by halves, and have failed."""
        try:
            unmoved = await self._db.finish_claims(self._finish, done)
        except Exception as error:
            first = next(iter(done))
            await self._find(first)
            if len(done) == 1:
                log.warning("%s could not end %r: %s", self._finish, first.key, error)
                await self._write_failures([first], failure(error))
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

    async def _write_failures(self, claims: list[Claim[Any, Any]], why: Failure) -> None:
        """Items that have failed alike. If the store refuses some, they are found by halves, and failed for that."""
        reason = message_of(why) or None
        try:
            if why.counted:
                answers = await self._db.fail(claims, reason=reason, delay=why.delay)
            else:
                answers = await self._db.release(claims, reason=reason)
        except Exception as error:
            await self._find(claims[0])
            if len(claims) > 1:
                half = len(claims) // 2
                await self._write_failures(claims[:half], why)
                await self._write_failures(claims[half:], why)
            elif why.delay is None:
                log.exception("%s: %r could not be given back", claims[0].declared, claims[0].key)
            else:
                await self._write_failures(claims, failure(error))
            return
        for answer in answers:
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


def _no_end(claim: Claim[Any, Any], end: object) -> Failure:
    """What a handler may not return."""
    if inspect.isawaitable(end):
        if inspect.iscoroutine(end):
            end.close()  # or Python warns that it was never awaited
        what = (
            "something to await, and a plain function runs in a thread: give the worker a coroutine function, async def"
        )
    else:
        what = f"{type(end).__name__}, not a mapping or None"
    log.warning("%s: %r failed: the handler returned %s", claim.declared, claim.key, what)
    return Failure(f"the handler returned {what}")
