"""The store behind the pages: opened when it is first needed, every question with an end, answers shared for a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from raceproof.connect.url import Connecting, connect
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program, reading
from raceproof.store import AsyncStore

T = TypeVar("T")
SECONDS_FOR_AN_ANSWER = 10.0
_KEPT_ANSWERS = 500


class Source:
    """An AsyncStore, or where to find one; one that was opened here is closed here."""

    def __init__(self, store: AsyncStore | Connecting | str) -> None:
        if not isinstance(store, AsyncStore | Connecting | str):
            raise CallError(f"a dashboard needs an AsyncStore, connect(url) or a URL, not {store!r}")
        self._given = connect(store) if isinstance(store, str) else store
        self._store = store if isinstance(store, AsyncStore) else None
        self._opening = asyncio.Lock()
        self._reader: AsyncStore | None = None
        self._answers: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}

    @property
    def tenant(self) -> Any:
        """The tenant to which the store is limited; None if it is not."""
        return self._given.tenant

    async def store(self) -> AsyncStore:
        if self._store is None:
            async with self._opening:
                if self._store is None:
                    assert isinstance(self._given, Connecting)
                    async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
                        self._store = await self._given.aopen()
        return self._store

    async def run(self, program: Callable[[AsyncStore], Program[T]]) -> T:
        """Run a program that only reads; it ends in time or with an error."""
        store = await self.reader()
        async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
            return await store.run(reading(program(store)))

    async def reader(self) -> AsyncStore:
        """The store for programs that only read, which asks for no more rights than that."""
        if self._reader is None:
            store = await self.store()
            if store.dialect != "redis":
                return store
            from raceproof.ops.web.redis_reader import RedisReader

            self._reader = AsyncStore(RedisReader(store.driver), store.tenant)
        return self._reader

    async def tells_time(self) -> bool:
        """Whether the clock of the store may be read; a user of Redis with `+@read` alone may not."""
        ask = getattr((await self.reader()).driver, "tells_time", None)
        return ask is None or bool(await ask())

    async def shared(self, key: Hashable, seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
        """An answer that was given a moment ago, or a new one; many who ask at once ask once."""
        now = time.monotonic()
        known = self._answers.get(key)
        if known and (known[0] > now or not known[1].done()):
            found: T = await asyncio.shield(known[1])
            return found
        if len(self._answers) >= _KEPT_ANSWERS:
            self._answers = {one: answer for one, answer in self._answers.items() if answer[0] > now}
        asking = asyncio.ensure_future(ask())
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._answers[key] = (now + seconds, asking)
        try:
            return await asyncio.shield(asking)
        except BaseException:
            if self._answers.get(key, (0, None))[1] is asking:
                del self._answers[key]
            raise

    def forget(self) -> None:
        """Something was changed here: the next page shows it."""
        self._answers.clear()

    async def close(self) -> None:
        if self._store is not None and isinstance(self._given, Connecting):
            await self._store.close()
            self._store = None
            self._reader = None
