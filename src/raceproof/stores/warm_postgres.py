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
from raceproof.sqlstate import READ_ONLY, leaves, sqlstate
from raceproof.statement import Program, Rows, Statement
from raceproof.stores.asyncpg import AsyncpgConnection
from raceproof.stores.coalesce import Coalescer, MaybeAnswer, one_shape

T = TypeVar("T")
_LISTEN_AGAIN = 1.0
_STILL_THERE = 5.0
"""Seconds in which a connection answers that somebody gave up on, or it is given up altogether."""


class _Own(AsyncpgConnection):
    """A connection that we opened and may close."""

    left = False
    """Whether its server takes no writes any more."""

    async def close(self) -> None:
        if not self.is_closed:
            await self._connection.close()

    def terminate(self) -> None:
        if not self.is_closed:
            self._connection.terminate()

    async def execute(self, statement: Statement) -> Rows:
        try:
            return await super().execute(statement)
        except Exception as error:
            if leaves(error):
                self.left = sqlstate(error) == READ_ONLY
                self.terminate()
            raise

    async def answer(self) -> None:
        """Come to the end of what it was at, and answer."""
        async with asyncio.timeout(_STILL_THERE):
            await self._connection.fetchval("SELECT 1")


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
        self._given_up: dict[asyncio.Task[None], _Own] = {}
        self._places = asyncio.Semaphore(self._PLACES)
        self._waiting = asyncio.Semaphore(self._PLACES)
        self._coalescer = Coalescer(self._one, self._many, self._wait, one_shape)
        self._shared: _Own | None = None
        self._closed = False

    async def open(self) -> None:
        shared = self._shared = await self._connect()
        self.moves = shared.moves

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
        shared = self._shared
        if self._closed or shared is None or shared.is_closed:
            shared = self._shared = await self._connect()
        try:
            return await shared.run(self.moves.many_unlocked(requests))
        except Exception:
            self._leave(shared)
            raise
        except asyncio.CancelledError:
            self._shared = None
            self._give_up(shared)
            raise

    async def run(self, program: Program[T]) -> T:
        async with self._places:
            return await self._on_a_connection(program)

    async def _on_a_connection(self, program: Program[T]) -> T:
        """Run on a warm connection that nobody else uses meanwhile; of the idle ones the last used is taken."""
        connection = self._idle.pop() if self._idle else await self._connect()
        if self._closed or connection.is_closed:
            connection = await self._connect()
        try:
            answer = await connection.run(program)
        except asyncio.CancelledError:
            self._give_up(connection)
            raise
        except BaseException:
            self._keep(connection)
            raise
        self._keep(connection)
        return answer

    def _leave(self, connection: _Own) -> None:
        """Close the idle connections too, if one says that its server takes no writes: the URL may lead to another."""
        if connection.left:
            idle, self._idle = self._idle, []
            for one in idle:
                one.terminate()

    def _keep(self, connection: _Own) -> None:
        """For the next call; unless the store was closed meanwhile, or there is a transaction that nobody would end."""
        self._leave(connection)
        if connection.is_closed:
            return
        if self._closed or not connection.settled:
            connection.terminate()
        else:
            self._idle.append(connection)

    def _give_up(self, connection: _Own) -> None:
        """Who gives up may do so because nothing is heard on it: it is used again when it has answered."""
        task = asyncio.create_task(self._recover(connection))
        self._given_up[task] = connection
        task.add_done_callback(self._given_up.pop)

    async def _recover(self, connection: _Own) -> None:
        try:
            if connection.settled:
                await connection.answer()
        except Exception as error:
            # of any kind: asyncpg has no word for a connection that is closed under it
            log.info("a connection of which nothing was heard is closed: %s", type(error).__name__)
            connection.terminate()
        else:
            self._keep(connection)

    async def listen(self, claim: Claimable[Any], wake: Callable[[], None]) -> None:
        """On a connection of its own; behind a transaction pooler there are no notifications, so polling has to do."""
        while not self._closed:
            try:
                connection, ours = await _connected(self._url, self._settings)
                if not ours:
                    connection.terminate()
                    log.info(
                        "%s: a pooler is in front of PostgreSQL: offers are not heard, polling finds them",
                        claim,
                    )
                    return
                await self._hear(connection, claim.topic, wake)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                # away, or on its way back: starting up, full
                log.info("%s: offers are not heard for now: %s", claim, error)
            await asyncio.sleep(_LISTEN_AGAIN)

    async def _hear(self, connection: Any, topic: str, wake: Callable[[], None]) -> None:
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())
        try:
            await connection.add_listener("raceproof", lambda *told: wake() if told[-1] == topic else None)
            wake()
            await gone.wait()
        finally:
            connection.terminate()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for connection in self._given_up.values():
            connection.terminate()
        if self._given_up:
            await asyncio.wait(self._given_up)
        idle, self._idle = self._idle, []
        for one in (self._shared, *idle):
            if one is not None:
                await one.close()


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
