"""The end of items: gathered while the store is busy, and written together, each with its own fence and its own answer."""

import asyncio
from collections.abc import Sequence
from typing import Any

from raceproof.events import log
from raceproof.outcome import Claim
from raceproof.spec import Move
from raceproof.store import AsyncStore
from raceproof.worker.held import Held

Ended = tuple[Claim[Any, Any], Any]
"""A claim, and what came of it: columns to set (or None) for an item that is done, or a `Failure`."""


class Finished:
    """Return it, the class, from a handler that has finished its item itself, in one transaction with what it wrote (P6)."""


class Failure(Exception):
    """Raise it in a handler to say how an item is to be given back: to rest `delay` seconds, or, not `counted`, at once."""

    def __init__(self, reason: str = "", delay: float | None = None, counted: bool = True) -> None:
        super().__init__(reason)
        self.delay = delay
        self.counted = counted


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
                batch, self._waiting = self._waiting[:2000], self._waiting[2000:]
                try:
                    await self._write(batch)
                except Exception:
                    # the items are still claimed: they are given to somebody else when their lease is over
                    log.exception("%d items could not be finished", len(batch))
        finally:
            self._running = None

    async def _write(self, batch: Sequence[Ended]) -> None:
        done: dict[Claim[Any, Any], Any] = {}
        failures: list[tuple[Claim[Any, Any], Failure]] = []
        for claim, end in batch:
            current = self._held.take(claim)
            if end is Finished:
                self.finished += 1
            elif current is None:
                self.lost += 1
            elif isinstance(end, Failure):
                failures.append((current, end))
            else:
                done[current] = end
        if done:
            await self._write_done(done)
        for claim, failure in failures:
            await self._write_failure(claim, failure)

    async def _write_done(self, done: dict[Claim[Any, Any], Any]) -> None:
        plain = [claim for claim, columns in done.items() if not columns]
        answers = list(await self._db.move_many(self._finish, plain)) if plain else []
        shapes: dict[tuple[str, ...], dict[Claim[Any, Any], Any]] = {}
        for claim, columns in done.items():
            if columns:
                shapes.setdefault(tuple(columns), {})[claim] = columns
        for some in shapes.values():
            answers += await self._db.move_many(self._finish, some)
        for answer in answers:
            if answer.won:
                self.finished += 1
            else:
                self.lost += 1
                log.warning("%s", answer)

    async def _write_failure(self, claim: Claim[Any, Any], failure: Failure) -> None:
        self.failed += 1
        if failure.counted:
            await self._db.fail(claim, reason=str(failure) or None, delay=failure.delay)
        else:
            await self._db.release(claim, reason=str(failure) or None)
