"""PostgreSQL through asyncpg: a connection or a pool of the caller's.

In a transaction of the caller's nothing is begun or ended here. Outside of one, each statement commits by itself; if the
connection breaks before the answer has come, it may or may not have been committed: AcknowledgementLost.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from raceproof.driver import AsyncDriver
from raceproof.drivers.conforming import NAME, refuse_escapes
from raceproof.drivers.unbroken import unbroken_asyncpg
from raceproof.drivers.unreplicated import Warned, confirm
from raceproof.kernel.postgres import Catalogue, PostgresDialect
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Program, Rows, Statement, only_reads
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest
from raceproof.programs import Programs

T = TypeVar("T")

_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
_CUT_OFF = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


_listening: "WeakKeyDictionary[Any, Warned]" = WeakKeyDictionary()
"""Connections on which warnings are heard for good; a connection of a pool's has to be given back as it was."""


class AsyncpgConnection(AsyncDriver):
    """One asyncpg connection."""

    dialect: PostgresDialect

    def __init__(self, connection: Any, programs: Programs | None = None) -> None:
        if programs is None:
            super().__init__(dialect_of(connection, connection.is_in_transaction))
        else:
            self.dialect, self.programs = programs.dialect, programs
        self._connection = connection
        self._settings = connection.get_settings()
        self._began = False

    @property
    def settled(self) -> bool:
        return self._began or self.is_closed or not self._connection.is_in_transaction()

    @property
    def backend_pid(self) -> int | None:
        return int(self._connection.get_server_pid())

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def execute(self, statement: Statement) -> Rows:
        connection = self._connection
        closed = connection.is_closed()  # one that was cut has no state to ask for
        alone = not closed and not connection.is_in_transaction()
        text = statement.text
        if text in ("BEGIN", "COMMIT", "ROLLBACK"):
            if text == "BEGIN":
                self._began = alone
            if not self._began or (text == "ROLLBACK" and closed):
                return ()
            alone = text == "COMMIT"
            # whatever becomes of a COMMIT that was sent, there is nothing left to roll back
            self._began = text == "BEGIN"
        if closed:
            raise asyncpg.InterfaceError("the connection is closed")
        refuse_escapes(getattr(self._settings, NAME, None))
        try:
            if alone and not only_reads(text):
                return await self._commit(text, statement.params)
            rows: Rows = await connection.fetch(text, *statement.params)
            return rows
        except _CONFLICTS as error:
            raise Conflicted from error
        except _CUT_OFF as error:
            if alone:
                raise AcknowledgementLost from error
            raise

    async def _commit(self, text: str, params: Sequence[Any]) -> Rows:
        """Run a statement that commits by itself: it is not cancelled, and the standby has it when this returns."""
        connection = self._connection
        pooled = isinstance(connection, PoolConnectionProxy)
        warned = None if pooled else _listening.get(connection)
        if warned is None:
            warned = Warned()
            connection.add_log_listener(warned.of_asyncpg)
            if not pooled:
                _listening[connection] = warned
        warned.forget()
        try:
            rows: Rows = await unbroken_asyncpg(connection.fetch(text, *params), connection.terminate)
        finally:
            # a pool complains about a listener that is left behind, unless it has taken back a connection that was cut
            if pooled:
                with suppress(asyncpg.InterfaceError):
                    connection.remove_log_listener(warned.of_asyncpg)
        confirm(warned)
        return rows


class AsyncpgPool(AsyncDriver):
    """An asyncpg pool: each call takes a connection from it, and pays for the pool's reset.

    `acquire_timeout` are the seconds that a call waits for a connection while all of them are in use; None waits for ever.
    """

    dialect: PostgresDialect

    def __init__(self, pool: Any, acquire_timeout: float | None = 30.0) -> None:
        # which statements the server knows is seen with the first connection; until then, what all versions know
        super().__init__(PostgresDialect("dollar"))
        self._pool = pool
        self._acquire_timeout = acquire_timeout

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.programs.moves.one(request))

    async def run(self, program: Program[T]) -> T:
        async with self._pool.acquire(timeout=self._patience()) as connection:
            if not self.dialect.version:
                self.dialect = dialect_of(connection)
                self.programs = Programs(self.dialect)
            return await AsyncpgConnection(connection, self.programs).run(program)

    def _patience(self) -> float | None:
        """A wait for a place has a deadline; there is none to watch where a connection is idle."""
        return None if self._pool.get_idle_size() else self._acquire_timeout


_catalogues: "WeakKeyDictionary[Any, Catalogue]" = WeakKeyDictionary()


def dialect_of(connection: Any, in_transaction: Callable[[], bool] = lambda: False) -> PostgresDialect:
    """The dialect of a connection; what was learned of its tables stays known when it is bound again."""
    lent = getattr(connection, "_con", connection)  # a pool lends the same connection in ever new wrappers
    catalogue = _catalogues.setdefault(lent, Catalogue())
    return PostgresDialect("dollar", connection.get_server_version().major, catalogue, in_transaction)
