"""PostgreSQL through psycopg 3, sync and async, on a connection of the caller's.

A psycopg connection that is not in autocommit opens its transaction by itself and leaves the commit to its owner; so do
we. In autocommit each statement commits by itself, and a connection that breaks before the answer is AcknowledgementLost.
psycopg lets threads and tasks share a connection; a call of ours has it for itself until it is answered.
"""

import asyncio
import threading
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from raceproof.driver import AsyncDriver, Driver
from raceproof.drivers.conforming import NAME, refuse_escapes
from raceproof.drivers.psycopg_cursor import AsyncCursor, Cursor
from raceproof.kernel.errors import CallError
from raceproof.kernel.postgres import Catalogue, PostgresDialect
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Program, Rows, Statement, arun, only_reads, run
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest

T = TypeVar("T")

_IDLE = pq.TransactionStatus.IDLE
_NO_PIPELINE = pq.PipelineStatus.OFF
_CONTROL = frozenset(("BEGIN", "COMMIT", "ROLLBACK"))
_STRINGS = NAME.encode()

_CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


class _Transaction:
    """Which statements end a transaction of ours, on one psycopg connection, sync or async."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._began = False

    @property
    def alone(self) -> bool:
        """Whether the next statement commits by itself."""
        connection = self._connection
        return bool(connection.autocommit) and connection.pgconn.transaction_status == _IDLE

    @property
    def settled(self) -> bool:
        return self._began or self.alone

    def dialect(self) -> PostgresDialect:
        catalogue = _catalogues.setdefault(self._connection, Catalogue())
        version = self._connection.info.server_version // 10000
        return PostgresDialect("dollar", version, catalogue, lambda: not self.settled)

    def wants(self, text: str, alone: bool) -> bool:
        """Whether a BEGIN, COMMIT or ROLLBACK is of a transaction that is ours."""
        if text == "BEGIN":
            self._began = alone
        return self._began and not (text == "ROLLBACK" and self._connection.closed)

    def ran(self, text: str) -> None:
        """Whatever becomes of a COMMIT or ROLLBACK that is sent, there is nothing left to roll back."""
        self._began = text == "BEGIN"

    def translate(self, error: psycopg.Error, final: bool) -> Exception:
        """The driver's error as the library's own kind, if it has one."""
        if isinstance(error, _CONFLICTS):
            return Conflicted()
        if final and isinstance(error, psycopg.OperationalError) and self._connection.closed:
            return AcknowledgementLost()
        return error


_PIPELINE = "in a pipeline results come late, and so would the answer: leave psycopg's pipeline mode for a move"
_catalogues: "WeakKeyDictionary[Any, Catalogue]" = WeakKeyDictionary()
_locks: "WeakKeyDictionary[Any, threading.Lock]" = WeakKeyDictionary()
_async_locks: "WeakKeyDictionary[Any, asyncio.Lock]" = WeakKeyDictionary()


class PsycopgConnection(Driver):
    """One sync psycopg connection."""

    def __init__(self, connection: Any, patience: float | None = None) -> None:
        self._transaction = _Transaction(connection)
        super().__init__(self._transaction.dialect())
        self._lock = _locks.setdefault(connection, threading.Lock())
        self._pgconn = connection.pgconn
        self._cursor = Cursor(connection, row_factory=tuple_row)
        self._cursor.patience = patience

    @property
    def settled(self) -> bool:
        return self._transaction.settled

    @property
    def backend_pid(self) -> int | None:
        return int(self._pgconn.backend_pid)

    def run(self, program: Program[T]) -> T:
        with self._lock:
            if self._pgconn.pipeline_status != _NO_PIPELINE:
                raise CallError(_PIPELINE)
            return run(self.execute, program)

    def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return self.run(self.programs.moves.one(request))

    def execute(self, statement: Statement) -> Rows:
        refuse_escapes(self._pgconn.parameter_status(_STRINGS))
        transaction, cursor, text = self._transaction, self._cursor, statement.text
        final = transaction.alone
        if text in _CONTROL:
            if not transaction.wants(text, final):
                return ()
            final = text == "COMMIT"
            transaction.ran(text)
        try:
            if final and not only_reads(text):
                cursor.commit(text, statement.params)
            elif cursor.patience is not None:
                cursor.run(text, statement.params)
            else:
                cursor.execute(text, statement.params)
            return cursor.fetchall() if cursor.rownumber is not None else ()
        except psycopg.Error as error:
            translated = transaction.translate(error, final)
            if translated is error:
                raise
            raise translated from error


class AsyncPsycopgConnection(AsyncDriver):
    """One async psycopg connection."""

    def __init__(self, connection: Any) -> None:
        self._transaction = _Transaction(connection)
        super().__init__(self._transaction.dialect())
        self._lock = _async_locks.setdefault(connection, asyncio.Lock())
        self._pgconn = connection.pgconn
        self._cursor = AsyncCursor(connection, row_factory=tuple_row)

    @property
    def settled(self) -> bool:
        return self._transaction.settled

    @property
    def backend_pid(self) -> int | None:
        return int(self._pgconn.backend_pid)

    async def run(self, program: Program[T]) -> T:
        async with self._lock:
            if self._pgconn.pipeline_status != _NO_PIPELINE:
                raise CallError(_PIPELINE)
            return await arun(self.execute, program)

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.programs.moves.one(request))

    async def execute(self, statement: Statement) -> Rows:
        refuse_escapes(self._pgconn.parameter_status(_STRINGS))
        transaction, cursor, text = self._transaction, self._cursor, statement.text
        final = transaction.alone
        if text in _CONTROL:
            if not transaction.wants(text, final):
                return ()
            final = text == "COMMIT"
            transaction.ran(text)
        try:
            if final and not only_reads(text):
                await cursor.commit(text, statement.params)
            else:
                await cursor.execute(text, statement.params)
            return await cursor.fetchall() if cursor.rownumber is not None else ()
        except psycopg.Error as error:
            translated = transaction.translate(error, final)
            if translated is error:
                raise
            raise translated from error
