"""Limits the AI calls of all processes at one time: each call holds one of the leases `ai/0`, `ai/1`, …

A slot lasts longer than a call may take, so that a caller which has died or is frozen has no call under way when its slot is
given to another. A caller that was frozen before it sent anything looks at its slot once more and sends nothing.
"""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from outreach.failures import Busy
from raceproof import AsyncStore, Lease, LeaseGranted

log = logging.getLogger("outreach.slots")

QUICK, SLOW = 0.02, 0.5
"""Seconds between two looks for a free slot: the first, and the longest."""


class Slot:
    """The right to make one call."""

    def __init__(self, store: AsyncStore, held: LeaseGranted, seconds: float) -> None:
        self._store = store
        self._held = held
        self._seconds = seconds

    async def lasts(self, seconds: float) -> bool:
        """Whether it is ours for so long from now, by the local clock; renewed if it has to be."""
        if self._held.deadline - time.monotonic() < seconds:
            answer = await self._store.renew_lease(self._held)
            if not isinstance(answer, LeaseGranted):
                return False
            self._held = answer
        return self._held.deadline - time.monotonic() >= seconds

    async def free(self) -> None:
        await self._store.release_lease(self._held)


class Slots:
    """The slots of all processes, as this one takes them."""

    def __init__(self, store: AsyncStore, limit: int, seconds: float, by: str) -> None:
        self._store = store
        self._leases = [Lease(f"ai/{number}", seconds) for number in range(limit)]
        self._seconds = seconds
        self._by = by
        self._here = asyncio.Semaphore(limit)
        self._asking = asyncio.Lock()
        self._freed = asyncio.Event()
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def taken(self, patience: float) -> AsyncIterator[Slot]:
        """A slot for the block; `Busy` if none is free in time."""
        try:
            async with asyncio.timeout(patience):
                await self._here.acquire()
                try:
                    slot = await self._take()
                except BaseException:
                    self._here.release()
                    raise
        except TimeoutError:
            raise Busy(f"no slot for an AI call within {patience:g} s", delay=1.0) from None
        try:
            yield slot
        finally:
            self._here.release()
            await asyncio.shield(self._start(slot))

    async def _take(self) -> Slot:
        async with self._asking:  # one of a process looks; the others wait for it
            rest = QUICK
            while True:
                self._freed.clear()
                if (slot := await self._one()) is not None:
                    return slot
                try:
                    async with asyncio.timeout(rest * random.uniform(0.5, 1.0)):
                        await self._freed.wait()
                except TimeoutError:
                    rest = min(SLOW, rest * 2)

    async def _one(self) -> Slot | None:
        # a name of its own: whoever else is in this process does not have it
        by = f"{self._by}/{uuid4().hex[:12]}"
        for lease in random.sample(self._leases, len(self._leases)):
            asking = asyncio.ensure_future(self._store.acquire_lease(lease, by))
            try:
                answer = await asyncio.shield(asking)
            except asyncio.CancelledError:
                asking.add_done_callback(self._give_back)
                raise
            if isinstance(answer, LeaseGranted):
                return Slot(self._store, answer, self._seconds)
        return None

    def _give_back(self, asked: "asyncio.Future[Any]") -> None:
        """Free a slot that was granted after its caller had gone."""
        if not asked.cancelled() and asked.exception() is None and isinstance(asked.result(), LeaseGranted):
            self._start(Slot(self._store, asked.result(), self._seconds))

    def _start(self, slot: Slot) -> "asyncio.Task[None]":
        freeing = asyncio.ensure_future(self._freeing(slot))
        self._ending.add(freeing)
        freeing.add_done_callback(self._ending.discard)
        return freeing

    async def _freeing(self, slot: Slot) -> None:
        try:
            await slot.free()
        except Exception as error:
            log.warning(
                "a slot for AI calls was not released, its lease has to end: %s",
                type(error).__name__,
            )
        self._freed.set()
