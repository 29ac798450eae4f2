"""PostgreSQL for `connect(url)`: warm asyncpg connections, no pool, no reset between calls, opened again when cut."""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

import asyncpg

from raceproof.driver import AsyncDriver
from raceproof.moves import MoveRequest, PostgresMoves
from raceproof.outcome import Answer
from raceproof.statement import Program
from raceproof.stores.asyncpg import AsyncpgConnection
from raceproof.stores.coalesce import Coalescer, MaybeAnswer, one_shape

T = TypeVar("T")


class _Own(AsyncpgConnection):
    """A connection that we opened and may close."""

    async def close(self) -> None:
        if not self.is_closed:
            await self._connection.close()


class WarmPostgres(AsyncDriver):
    """PostgreSQL on warm asyncpg connections: one for shared statements, a few more for calls that may have to wait."""

    dialect = "postgres"
    moves: PostgresMoves
    _CONNECTIONS_THAT_MAY_WAIT = 4

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._url = url
        self._settings = settings
        self._idle: list[AsyncpgConnection] = []
        self._places = asyncio.Semaphore(self._CONNECTIONS_THAT_MAY_WAIT)
        self._coalescer = Coalescer(self._one, self._many, one_shape)

    async def open(self) -> None:
        self._shared = await self._connect()
        self.moves = self._shared.moves

    async def _connect(self) -> AsyncpgConnection:
        return _Own(await asyncpg.connect(self._url, **self._settings), getattr(self, "moves", None))

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        if request.repeat or request.where is not request.move.where or request.now is not None:
            return await self._one(request)
        return await self._coalescer.submit(request)

    async def _one(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.moves.one(request))

    async def _many(self, requests: Sequence[MoveRequest]) -> Sequence[MaybeAnswer]:
        if self._shared.is_closed:
            self._shared = await self._connect()
        return await self._shared.run(self.moves.many_unlocked(requests))

    async def run(self, program: Program[T]) -> T:
        """Run on a warm connection of the caller's own for that time; of the idle ones the last used is taken."""
        async with self._places:
            connection = self._idle.pop() if self._idle else await self._connect()
            if connection.is_closed:
                connection = await self._connect()
            try:
                return await connection.run(program)
            finally:
                self._idle.append(connection)

    async def close(self) -> None:
        for connection in (self._shared, *self._idle):
            await connection.close()
