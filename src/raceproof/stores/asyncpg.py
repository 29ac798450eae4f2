"""PostgreSQL through asyncpg: a connection or a pool of the caller's.

In a transaction of the caller's nothing is begun or ended here. Outside of one, each statement commits by itself; if the
connection breaks before the answer has come, nobody knows whether it did: AcknowledgementLost.
"""

from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import asyncpg

from raceproof.driver import AsyncDriver
from raceproof.moves import Catalogue, MoveRequest, PostgresMoves
from raceproof.outcome import Answer
from raceproof.statement import AcknowledgementLost, Conflicted, Program, Rows, Statement

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


class AsyncpgConnection(AsyncDriver):
    """One asyncpg connection."""

    dialect = "postgres"
    moves: PostgresMoves

    def __init__(self, connection: Any, moves: PostgresMoves | None = None) -> None:
        self._connection = connection
        self._began = False
        if moves is None:
            moves = moves_for(connection)
            moves.in_transaction = connection.is_in_transaction
        self.moves = moves

    @property
    def settled(self) -> bool:
        return self._began or not self._connection.is_in_transaction()

    @property
    def is_closed(self) -> bool:
        return bool(self._connection.is_closed())

    async def execute(self, statement: Statement) -> Rows:
        connection = self._connection
        alone = not connection.is_in_transaction()
        text = statement.text
        if text in ("BEGIN", "COMMIT", "ROLLBACK"):
            if text == "BEGIN":
                self._began = alone
            if not self._began or (text == "ROLLBACK" and connection.is_closed()):
                return ()
            alone = text == "COMMIT"
        if connection.is_closed():
            raise asyncpg.InterfaceError("the connection is closed")
        try:
            rows: Rows = await connection.fetch(text, *statement.params)
        except _CONFLICTS as error:
            raise Conflicted from error
        except _CUT_OFF as error:
            if alone:
                raise AcknowledgementLost from error
            raise
        if text in ("COMMIT", "ROLLBACK"):
            self._began = False
        return rows


class AsyncpgPool(AsyncDriver):
    """An asyncpg pool: each call takes a connection from it, and pays for the pool's reset."""

    dialect = "postgres"
    moves: PostgresMoves

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        # which statements the server knows is seen with the first connection; until then, what all versions know
        self.moves = PostgresMoves("dollar", version=0)

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.moves.one(request))

    async def run(self, program: Program[T]) -> T:
        async with self._pool.acquire() as connection:
            if not self.moves.version:
                self.moves = moves_for(connection)
            return await AsyncpgConnection(connection, self.moves).run(program)


_catalogues: "WeakKeyDictionary[Any, Catalogue]" = WeakKeyDictionary()


def moves_for(connection: Any) -> PostgresMoves:
    """Programs for a connection; what it learned of its tables stays known when it is bound again."""
    lent = getattr(connection, "_con", connection)  # a pool lends the same connection in ever new wrappers
    catalogue = _catalogues.setdefault(lent, Catalogue())
    return PostgresMoves("dollar", connection.get_server_version().major, catalogue)
