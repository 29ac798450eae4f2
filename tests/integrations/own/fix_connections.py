"""Connections as callers have them, each with its own way to begin, commit and roll back; always called with await."""

import sqlite3
from typing import Any, Protocol

import asyncpg
import psycopg

from raceproof import AsyncStore, Store, bind

Rows = list[tuple[Any, ...]]


class Own(Protocol):
    """A connection of the caller's: the transaction on it is the caller's business."""

    @property
    def store(self) -> Store | AsyncStore:
        """The library on this connection."""

    async def begin(self) -> None:
        """Open a transaction, where the connection does not do so by itself."""

    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    async def run(self, text: str) -> Rows:
        """A statement of the caller's own."""

    def in_transaction(self) -> bool:
        """Whether a transaction is open, as the driver or the server sees it."""

    async def close(self) -> None: ...


class Asyncpg:
    """An asyncpg connection; in a transaction object of asyncpg's."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.store = bind(connection)

    async def begin(self) -> None:
        self._transaction = self.connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def run(self, text: str) -> Rows:
        return [tuple(row) for row in await self.connection.fetch(text)]

    def in_transaction(self) -> bool:
        return bool(self.connection.is_in_transaction())

    async def close(self) -> None:
        await self.connection.close()


class Pooled(Asyncpg):
    """A connection that an asyncpg pool has lent."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]", connection: Any) -> None:
        super().__init__(connection)
        self._pool = pool

    async def close(self) -> None:
        await self._pool.release(self.connection)
        await self._pool.close()


class Psycopg:
    """A sync psycopg connection, in autocommit or not."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        self.store = bind(connection)

    async def begin(self) -> None:
        if self.connection.autocommit:
            self.connection.execute("BEGIN")

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def run(self, text: str) -> Rows:
        cursor = self.connection.execute(text.encode())
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    async def close(self) -> None:
        self.connection.close()


class AsyncPsycopg:
    """An async psycopg connection, in autocommit or not."""

    def __init__(self, connection: "psycopg.AsyncConnection[Any]") -> None:
        self.connection = connection
        self.store = bind(connection)

    async def begin(self) -> None:
        if self.connection.autocommit:
            await self.connection.execute("BEGIN")

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def run(self, text: str) -> Rows:
        cursor = await self.connection.execute(text.encode())
        return [tuple(row) for row in await cursor.fetchall()] if cursor.description else []

    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    async def close(self) -> None:
        await self.connection.close()


class Sqlite:
    """A sqlite3 connection that opens transactions only when told (isolation_level None), or by itself ("")."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.store = bind(connection)

    async def begin(self) -> None:
        if self.connection.isolation_level is None:
            self.connection.execute("BEGIN")

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def run(self, text: str) -> Rows:
        return [tuple(row) for row in self.connection.execute(text).fetchall()]

    def in_transaction(self) -> bool:
        return self.connection.in_transaction

    async def close(self) -> None:
        self.connection.close()
