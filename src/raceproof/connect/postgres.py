"""PostgreSQL for `connect(url)`: warm asyncpg connections, no pool, no reset between calls, opened again when cut."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from raceproof.connect.postgres_connection import Connecting, Own
from raceproof.declare.spec import Claimable
from raceproof.driver import AsyncDriver
from raceproof.drivers.asyncpg import dialect_of
from raceproof.kernel.batcher import Batcher
from raceproof.kernel.events import log
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.statement import Program
from raceproof.moves.answers import Answer
from raceproof.moves.fast.sharing import can_share, of_one_shape
from raceproof.moves.request import MoveRequest
from raceproof.programs import Programs

T = TypeVar("T")
_LISTEN_AGAIN = 1.0


class WarmPostgres(AsyncDriver):
    """PostgreSQL on warm asyncpg connections: one to share, some for other calls, some for those that wait."""

    shared = True
    _PLACES = 4

    def __init__(
        self,
        url: str,
        settings: dict[str, Any],
        connect_timeout: float | None = None,
        command_timeout: float | None = None,
    ) -> None:
        super().__init__(PostgresDialect("dollar"))  # until the first connection says what server it is
        self._connecting = Connecting(url, settings, connect_timeout, command_timeout)
        self._patience = command_timeout
        self._idle: list[Own] = []
        self._given_up: dict[asyncio.Task[None], Own] = {}
        self._places = asyncio.Semaphore(self._PLACES)
        self._waiting_places = asyncio.Semaphore(self._PLACES)
        self._batcher = Batcher(self._many, self._wait, of_one_shape, passes=self._one)
        self._shared: Own | None = None
        self._closed = False

    @property
    def backend_pid(self) -> int | None:
        """0 behind a pooler; several connections share no process, and each has checked for a pooler itself."""
        return None if self.dialect.by_index else 0

    async def open(self) -> None:
        self._shared = await self._connect()

    async def _connect(self) -> Own:
        if self._closed:
            raise asyncpg.InterfaceError("the store is closed")
        opened, by_index = await self._connecting.connect()
        if self._shared is None:
            self.dialect = dialect_of(opened)
            self.programs = Programs(self.dialect)
        self.dialect.by_index = by_index
        connection = Own(opened, self.programs)
        if self._closed:
            connection.terminate()
            raise asyncpg.InterfaceError("the store is closed")
        return connection

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await (self._batcher.submit(request) if can_share(request) else self._one(request))

    async def _one(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.programs.moves.one(request))

    async def _wait(self, request: MoveRequest) -> Answer[Any, Any]:
        """For a row that somebody holds: those who wait use up each other's places, and nobody else's."""
        return await self._placed(self._waiting_places, self.programs.moves.one(request))

    async def _many(self, requests: Sequence[MoveRequest]) -> Sequence[Answer[Any, Any] | None]:
        moves: Any = self.programs.moves
        shared = self._shared
        if self._closed or shared is None or shared.is_closed:
            shared = self._shared = await self._connect()
        try:
            answers: Sequence[Answer[Any, Any] | None] = await shared.run(moves.many_unlocked(requests))
            return answers
        except Exception:
            self._leave(shared)
            raise
        except asyncio.CancelledError:
            self._shared = None
            self._give_up(shared)
            raise

    async def run(self, program: Program[T]) -> T:
        return await self._placed(self._places, program)

    async def _place(self, places: asyncio.Semaphore) -> None:
        """Wait for a place; nothing of a call is sent before it has one."""
        try:
            async with asyncio.timeout(self._patience):
                await places.acquire()
        except TimeoutError:
            raise TimeoutError(
                f"all {self._PLACES} connections of this store are busy, and none has become free within "
                f"{self._patience:g} s (command_timeout); nothing was sent"
            ) from None

    async def _placed(self, places: asyncio.Semaphore, program: Program[T]) -> T:
        await (self._place(places) if places.locked() else places.acquire())
        try:
            return await self._on_a_connection(program)
        finally:
            places.release()

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

    def _leave(self, connection: Own) -> None:
        """Close the idle connections too, if one says that its server takes no writes: the URL may lead to another."""
        if connection.left:
            idle, self._idle = self._idle, []
            for one in idle:
                one.terminate()

    def _keep(self, connection: Own) -> None:
        """For the next call; unless the store was closed meanwhile, or there is a transaction that nobody would end."""
        self._leave(connection)
        if connection.is_closed:
            return
        if self._closed or not connection.settled:
            connection.terminate()
        else:
            self._idle.append(connection)

    def _give_up(self, connection: Own) -> None:
        """Who gives up may do so because nothing is heard on it: it is used again when it has answered."""
        task = asyncio.create_task(self._recover(connection))
        self._given_up[task] = connection
        task.add_done_callback(self._given_up.pop)

    async def _recover(self, connection: Own) -> None:
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
                connection, ours = await self._connecting.connect()
                if not ours:
                    connection.terminate()
                    log.info("%s: a pooler is in front of PostgreSQL: offers are not heard, polling finds them", claim)
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
