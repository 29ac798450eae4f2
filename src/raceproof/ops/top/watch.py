"""Reading a store repeatedly in its own thread, so that a slow store does not block the terminal."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from raceproof.ops.doctor import Diagnosis, Subject, diagnose
from raceproof.ops.doctor.races import Race, races
from raceproof.ops.doctor.snapshot import Snapshot, snapshot
from raceproof.store import Store

# stuck work and bad rows only; schema and server are for `raceproof doctor`
_NOT_STUCK = ("schema", "guard", "index", "ttl", "clock", "pooler", "durability", "primary", "eviction")
_SECONDS_BETWEEN_DIAGNOSES = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was read, and how long it took."""

    snapshot: Snapshot
    races: list[Race]
    diagnosis: Diagnosis
    took: float


class Watch:
    """The thread that owns the store: it opens, reads and closes it."""

    def __init__(
        self, open_store: Callable[[], AbstractContextManager[Store]], subjects: Sequence[Subject], limit: int = 1000
    ) -> None:
        self._open = open_store
        self._subjects = subjects
        self._limit = limit
        self._thread = ThreadPoolExecutor(1, "raceproof-top")
        self._opened = ExitStack()
        self._store: Store | None = None
        self._diagnosis = Diagnosis((), ())
        self._diagnosed: float | None = None

    async def look(self) -> Look:
        """Read now; errors are raised, and the next read reconnects."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._look)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._opened.close)
        self._thread.shutdown()

    def _look(self) -> Look:
        started = time.monotonic()
        try:
            if self._store is None:
                self._store = self._opened.enter_context(self._open())
            store = self._store
            seen = snapshot(store, *self._subjects, limit=self._limit)
            last = races(store, *self._subjects)
            if self._diagnosed is None or started - self._diagnosed >= _SECONDS_BETWEEN_DIAGNOSES:
                self._diagnosis = diagnose(store, *self._subjects, ignore=_NOT_STUCK, rows=self._limit * 5)
                self._diagnosed = time.monotonic()
        except BaseException:
            self._store = None
            self._opened.close()
            raise
        return Look(seen, last, self._diagnosis, time.monotonic() - started)
