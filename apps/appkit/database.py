"""An application's database: SQLAlchemy for its own statements, raceproof for every decision about a row.

PostgreSQL or SQLite, by URL; brought up to date by `migrating`.
"""

import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Dialect, event, literal_column
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.types import DateTime, String, TypeDecorator

from appkit.commands import Unusable
from appkit.migrating import WORDS, Folders, OwnTables, migrate
from appkit.watch import is_unavailable
from raceproof import AsyncStore, bind, connect

CONNECTS = 10.0
"""Seconds for a connection to open, and to wait for a free one."""
_OPENINGS = 500
"""Hundredths of a second that others may take to open a new file."""


class Moment(TypeDecorator[datetime]):
    """A point in time: timestamptz, or on SQLite the text in UTC that raceproof writes."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        return dialect.type_descriptor(String() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None or isinstance(value, datetime):
            return value
        return datetime.fromisoformat(value).replace(tzinfo=UTC)


class Database:
    """An open database. `store` decides; `read` and `transaction` are for everything else."""

    def __init__(self, engine: AsyncEngine, store: AsyncStore) -> None:
        self.engine = engine
        self.store = store
        self.dialect = store.dialect

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which each statement stands alone."""
        async with self.engine.connect() as connection:
            yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[tuple[AsyncConnection, AsyncStore]]:
        """A transaction, and the store whose decisions are part of it; on SQLite it has the write lock from its start."""
        async with self.engine.begin() as connection:
            yield connection, bind(connection)


@asynccontextmanager
async def open_database(
    url: str, migrations: Folders, own: OwnTables, pooled: bool = False, migrating: bool = True
) -> AsyncIterator[Database]:
    """The database at this URL with its migrations applied; on SQLite the file is made.

    Raises `Unusable`, with one line for the user, if there is none. `pooled`: behind a transaction pooler, where no
    statement stays prepared. Not `migrating`: as it is; see `installed`.
    """
    unprepared: dict[str, Any] = {"statement_cache_size": 0} if pooled else {}
    options: dict[str, Any] = {"pool_size": 10, "max_overflow": 10, "pool_pre_ping": True}
    if url.startswith("postgres"):
        named = {"prepared_statement_name_func": lambda: f"__{uuid4()}__"} if pooled else {}
        options |= {"connect_args": {"timeout": CONNECTS, **unprepared, **named}, "pool_timeout": CONNECTS}
    engine = create_async_engine(_driver_url(url), **options)
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    try:
        try:
            if migrating:
                await migrate(engine, migrations, own)
            else:
                async with engine.connect():
                    pass
        except Exception as error:
            if url.startswith("postgres") and is_unavailable(error):
                raise Unusable(f"cannot reach the database at {_place(engine)}: {_reason(error)}") from error
            raise
        async with connect(url, **unprepared) as store:
            yield Database(engine, store)
    finally:
        await engine.dispose()


def _place(engine: AsyncEngine) -> str:
    """Without name and password."""
    at = engine.url
    return f"{at.host or 'localhost'}:{at.port or 5432}/{at.database or ''}"


def _reason(error: Exception) -> str:
    """What a driver says may carry a DSN: only the system's own words are printed."""
    cause = getattr(error, "orig", None) or error
    words = os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else ""
    return words or type(cause.__cause__ or cause).__name__


def store_now(connection: AsyncConnection) -> ColumnElement[datetime]:
    """The store's clock, for a value that is written."""
    dialect = "sqlite" if connection.dialect.name == "sqlite" else "postgres"
    return literal_column(WORDS[dialect]["now"], Moment())


def moment_value(database: Database, moment: datetime) -> Any:
    """A point in time as a parameter of raceproof's `sql(…)`, which knows no types of SQLAlchemy's."""
    return Moment().process_bind_param(moment, database.engine.dialect)


def _driver_url(url: str) -> str:
    scheme, _, rest = url.partition("://")
    driver = {
        "sqlite": "sqlite+aiosqlite",
        "postgres": "postgresql+asyncpg",
        "postgresql": "postgresql+asyncpg",
    }
    if scheme not in driver:
        raise ValueError(f"the database is sqlite:///file.db or postgresql://…, not {scheme}://…")
    return f"{driver[scheme]}://{rest}"


def _write_ahead(cursor: Any) -> None:
    """Other instances may be opening the same new file: here SQLite does not wait for them, whatever its timeout."""
    for left in range(_OPENINGS, -1, -1):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if not left:
                raise
        time.sleep(0.01)


def _prepare_sqlite(engine: AsyncEngine) -> None:
    """A write lock from the beginning of each transaction, and readers that no writer holds up."""

    @event.listens_for(engine.sync_engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in ("busy_timeout = 30000", "synchronous = FULL"):
            cursor.execute(f"PRAGMA {pragma}")
        _write_ahead(cursor)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Any) -> None:
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
