"""PostgreSQL for `connect(url)`: warm asyncpg connections, no pool, no reset between calls, opened again when cut."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from raceproof.driver import AsyncDriver
from raceproof.events import log
from raceproof.moves import MoveRequest, PostgresMoves
from raceproof.outcome import Answer
from raceproof.spec import Claimable
from raceproof.statement import Program
from raceproof.stores.asyncpg import AsyncpgConnection
from raceproof.stores.coalesce import Coalescer, MaybeAnswer, one_shape

T = TypeVar("T")
_LISTEN_AGAIN = 1.0


class _Own(AsyncpgConnection):
    """A connection that we opened and may close."""

    async def close(self) -> None:
        if not self.is_closed:
            await self._connection.close()

    def terminate(self) -> None:
        if not self.is_closed:
            self._connection.terminate()


class WarmPostgres(AsyncDriver):
    """PostgreSQL on warm asyncpg connections: one to share, some for other calls, some for those that wait."""

    dialect = "postgres"
    shared = True
    moves: PostgresMoves
    _PLACES = 4

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._url = url
        self._settings = settings
        self._idle: list[_Own] = []
        self._places = asyncio.Semaphore(self._PLACES)
        self._waiting = asyncio.Semaphore(self._PLACES)
        self._coalescer = Coalescer(self._one, self._many, self._wait, one_shape)
        self._closed = False

    async def open(self) -> None:
        self._shared = await self._connect()
        self.moves = self._shared.moves

    async def _connect(self) -> _Own:
        if self._closed:
            raise asyncpg.InterfaceError("the store is closed")
        opened, by_index = await _connected(self._url, self._settings)
        connection = _Own(opened, getattr(self, "moves", None))
        connection.moves.by_index = by_index
        if self._closed:
            connection.terminate()
            raise asyncpg.InterfaceError("the store is closed")
        return connection

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        if request.repeat or request.where is not request.move.where or request.now is not None:
            return await self._one(request)
        return await self._coalescer.submit(request)

    async def _one(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.moves.one(request))

    async def _wait(self, request: MoveRequest) -> Answer[Any, Any]:
        """For a row that somebody holds: those who wait use up each other's places, and nobody else's."""
        async with self._waiting:
            return await self._on_a_connection(self.moves.one(request))

    async def _many(self, requests: Sequence[MoveRequest]) -> Sequence[MaybeAnswer]:
        if self._closed or self._shared.is_closed:
            self._shared = await self._connect()
        return await self._shared.run(self.moves.many_unlocked(requests))

    async def run(self, program: Program[T]) -> T:
        async with self._places:
            return await self._on_a_connection(program)

    async def _on_a_connection(self, program: Program[T]) -> T:
        """Run on a warm connection that nobody else uses meanwhile; of the idle ones the last used is taken."""
        connection = self._idle.pop() if self._idle else await self._connect()
        if self._closed or connection.is_closed:
            connection = await self._connect()
        try:
            return await connection.run(program)
        finally:
            if self._closed or not connection.settled:
                # the store was closed meanwhile, or a cancelled call has left a transaction that nobody would end
                connection.terminate()
            else:
                self._idle.append(connection)

    async def listen(self, claim: Claimable[Any], wake: Callable[[], None]) -> None:
        """On a connection of its own; behind a transaction pooler there are no notifications, so polling has to do."""
        while not self._closed:
            try:
                connection, _ = await _connected(self._url, self._settings)
            except OSError:
                await asyncio.sleep(_LISTEN_AGAIN)
                continue
            try:
                if connection.get_server_pid() != await connection.fetchval("SELECT pg_backend_pid()"):
                    log.info(
                        "%s: a pooler is in front of PostgreSQL: offers are not heard, polling finds them",
                        claim,
                    )
                    return
                await self._hear(connection, claim.topic, wake)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                log.info("%s: offers are not heard for now: %s", claim, error)
                await asyncio.sleep(_LISTEN_AGAIN)
            finally:
                connection.terminate()

    async def _hear(self, connection: Any, topic: str, wake: Callable[[], None]) -> None:
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        await connection.add_listener("raceproof", lambda *told: wake() if told[-1] == topic else None)
        wake()
        await gone.wait()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in (self._shared, *idle):
            await connection.close()


async def _connected(url: str, settings: dict[str, Any]) -> tuple[Any, bool]:
    """A connection of our own. All our statements find rows by an index; a table that is new has no statistics to say so.

    Behind a transaction pooler the session is not ours, so nothing is set there; this is told as well.
    """
    connection = await asyncpg.connect(url, **settings)
    try:
        ours = bool(await connection.fetchval("SELECT pg_backend_pid()") == connection.get_server_pid())
        if ours:
            await connection.execute("SET enable_bitmapscan = off; SET enable_seqscan = off")
    except BaseException:
        connection.terminate()
        raise
    return connection, ours
