"""Redis and Valkey for `connect(url)`: one warm connection, opened again when cut."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import redis.asyncio

from raceproof.claims.redis_index import index_key
from raceproof.declare.spec import Claimable
from raceproof.driver import AsyncDriver
from raceproof.drivers.redis import once, rows_of
from raceproof.kernel.batcher import Batcher
from raceproof.kernel.cancellation import cancellations
from raceproof.kernel.events import log
from raceproof.kernel.redis import RedisDialect
from raceproof.kernel.statement import Rows, Statement
from raceproof.moves.answers import Answer
from raceproof.moves.fast.sharing import can_share, of_one_shape
from raceproof.moves.request import MoveRequest

_LISTEN_AGAIN = 1.0


class WarmRedis(AsyncDriver):
    """Redis or Valkey on one warm connection."""

    shared = True

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(RedisDialect())
        self._client: Any = redis.asyncio.Redis.from_url(url, **settings)
        self._patience: float | None = settings.get("socket_timeout")
        # a listener may hear nothing for a long time
        self._listening: Any = redis.asyncio.Redis.from_url(url, **{**settings, "socket_timeout": None})
        self._connection: Any = None
        self._lock = asyncio.Lock()
        self._closed = False
        self._batcher = Batcher(self._many, self._one, of_one_shape, passes=self._one)

    async def open(self) -> None:
        self._connection = await self._client.connection_pool.get_connection()

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await (self._batcher.submit(request) if can_share(request) else self._one(request))

    async def _one(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.programs.moves.one(request))

    async def _many(self, requests: Sequence[MoveRequest]) -> Sequence[Answer[Any, Any] | None]:
        moves: Any = self.programs.moves
        answers: Sequence[Answer[Any, Any] | None] = await self.run(moves.many_unlocked(requests))
        return answers

    async def execute(self, statement: Statement) -> Rows:
        if self._closed:
            raise redis.ConnectionError("the store is closed")
        asked = cancellations()
        await (self._turn() if self._lock.locked() else self._lock.acquire())
        try:
            return rows_of(statement, await once(self._connection, statement, asked))
        finally:
            self._lock.release()

    async def _turn(self) -> None:
        """Wait for the connection; nothing of a call is sent before it has its turn."""
        try:
            async with asyncio.timeout(self._patience):
                await self._lock.acquire()
        except TimeoutError:
            raise TimeoutError(
                "other calls have been using the connection of this store, and they have not ended within "
                f"{self._patience:g} s (command_timeout); nothing was sent"
            ) from None

    async def listen(self, claim: Claimable[Any], wake: Callable[[], None]) -> None:
        """On a connection of its own, by the channel that has the name of the claim's index."""
        while not self._closed:
            try:
                async with self._listening.pubsub(ignore_subscribe_messages=True) as offers:
                    await offers.subscribe(index_key(claim))
                    wake()
                    async for _ in offers.listen():
                        wake()
            except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
                log.info("%s: offers are not heard for now: %s", claim, error)
                await asyncio.sleep(_LISTEN_AGAIN)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        async with self._lock:
            await self._client.connection_pool.release(self._connection)
        await self._client.aclose()
        await self._listening.aclose()
