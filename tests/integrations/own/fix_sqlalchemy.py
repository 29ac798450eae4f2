"""SQLAlchemy's connections and sessions as callers have them, sync and async."""

from typing import Any

from sqlalchemy import Engine, text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session

from raceproof import bind
from tests.integrations.own.fix_connections import Rows


class Sqlalchemy:
    """A sync Connection or Session; SQLAlchemy begins by itself, or commits each statement (AUTOCOMMIT)."""

    def __init__(self, engine: Engine, connection: Connection | Session) -> None:
        self.engine = engine
        self.connection = connection
        self.store = bind(connection)

    async def begin(self) -> None:
        """SQLAlchemy does."""

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()

    async def run(self, statement: str) -> Rows:
        result: Any = self.connection.execute(text(statement))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction())

    async def close(self) -> None:
        self.connection.close()
        self.engine.dispose()


class AsyncSqlalchemy:
    """An AsyncConnection or AsyncSession."""

    def __init__(self, engine: AsyncEngine, connection: AsyncConnection | AsyncSession) -> None:
        self.engine = engine
        self.connection = connection
        self.store = bind(connection)

    async def begin(self) -> None:
        """SQLAlchemy does."""

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()

    async def run(self, statement: str) -> Rows:
        result: Any = await self.connection.execute(text(statement))
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    def in_transaction(self) -> bool:
        return bool(self.connection.in_transaction())

    async def close(self) -> None:
        await self.connection.close()
        await self.engine.dispose()
