"""Which kinds of connections there are, and how one of each is opened for a test."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from raceproof.testing.contract.grounds import Caller, PostgresGround, SqlGround, SqliteGround
from tests.integrations.own.fix_connections import Asyncpg, AsyncPsycopg, Own, Pooled, Psycopg, Sqlite
from tests.integrations.own.fix_django import django_on_postgres, django_on_sqlite
from tests.integrations.own.fix_sqlalchemy import AsyncSqlalchemy, Sqlalchemy


@dataclass
class Case:
    """A caller's connection, the library on it (`db`), and the same database seen from beside (`ground`)."""

    own: Own
    ground: SqlGround

    @property
    def db(self) -> Caller:
        return self.ground.db


async def _asyncpg(url: str) -> Own:
    return Asyncpg(await asyncpg.connect(url))


async def _pooled(url: str) -> Own:
    pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
    return Pooled(pool, await pool.acquire())


async def _psycopg(url: str, autocommit: bool = False) -> Own:
    return Psycopg(psycopg.connect(url, autocommit=autocommit))


async def _async_psycopg(url: str, autocommit: bool = False) -> Own:
    return AsyncPsycopg(await psycopg.AsyncConnection.connect(url, autocommit=autocommit))


def _impatient(scheme: str) -> dict[str, Any]:
    """SQLite waits for nobody in these tests."""
    return {"connect_args": {"timeout": 0}} if scheme.startswith("sqlite") else {}


async def _sqlalchemy(url: str, scheme: str, session: bool = False, **options: Any) -> Own:
    engine = create_engine(scheme + url.partition("://")[2], **_impatient(scheme), **options)
    return Sqlalchemy(engine, Session(engine) if session else engine.connect())


async def _async_sqlalchemy(url: str, scheme: str, session: bool = False) -> Own:
    engine = create_async_engine(scheme + url.partition("://")[2], **_impatient(scheme))
    return AsyncSqlalchemy(engine, AsyncSession(engine) if session else await engine.connect())


async def _sqlite(url: str, isolation_level: Any = None) -> Own:
    path = url.removeprefix("sqlite:///")
    return Sqlite(sqlite3.connect(path, isolation_level=isolation_level, timeout=0))


async def _django_sqlite(url: str) -> Own:
    return django_on_sqlite(Path(url.removeprefix("sqlite:///")))


async def _django_postgres(url: str) -> Own:
    return django_on_postgres(url)


Opener = Callable[[str], Coroutine[Any, Any, Own]]

_POSTGRES: dict[str, Opener] = {
    "asyncpg": _asyncpg,
    "asyncpg-pooled": _pooled,
    "psycopg": _psycopg,
    "psycopg-autocommit": lambda url: _psycopg(url, autocommit=True),
    "psycopg-async": _async_psycopg,
    "psycopg-async-autocommit": lambda url: _async_psycopg(url, autocommit=True),
    "sqlalchemy-psycopg": lambda url: _sqlalchemy(url, "postgresql+psycopg://"),
    "sqlalchemy-psycopg-session": lambda url: _sqlalchemy(url, "postgresql+psycopg://", session=True),
    "sqlalchemy-psycopg-AUTOCOMMIT": lambda url: _sqlalchemy(
        url, "postgresql+psycopg://", isolation_level="AUTOCOMMIT"
    ),
    "sqlalchemy-psycopg-async-session": lambda url: _async_sqlalchemy(url, "postgresql+psycopg://", session=True),
    "sqlalchemy-asyncpg": lambda url: _async_sqlalchemy(url, "postgresql+asyncpg://"),
    "sqlalchemy-asyncpg-session": lambda url: _async_sqlalchemy(url, "postgresql+asyncpg://", session=True),
    "django-postgres": _django_postgres,
}
_SQLITE: dict[str, Opener] = {
    "sqlite3": _sqlite,
    "sqlite3-deferred": lambda url: _sqlite(url, isolation_level=""),
    "sqlalchemy-sqlite": lambda url: _sqlalchemy(url, "sqlite://"),
    "sqlalchemy-sqlite-session": lambda url: _sqlalchemy(url, "sqlite://", session=True),
    "sqlalchemy-sqlite-AUTOCOMMIT": lambda url: _sqlalchemy(url, "sqlite://", isolation_level="AUTOCOMMIT"),
    "sqlalchemy-aiosqlite": lambda url: _async_sqlalchemy(url, "sqlite+aiosqlite://"),
    "sqlalchemy-aiosqlite-session": lambda url: _async_sqlalchemy(url, "sqlite+aiosqlite://", session=True),
    "django-sqlite": _django_sqlite,
}

EACH_STATEMENT_BY_ITSELF = ("sqlalchemy-psycopg-AUTOCOMMIT", "sqlalchemy-sqlite-AUTOCOMMIT")
OPENS_BY_ITSELF = ("psycopg", "psycopg-async", "sqlite3-deferred")

POSTGRES_IN_TRANSACTION = tuple(kind for kind in _POSTGRES if kind not in EACH_STATEMENT_BY_ITSELF)
SQLITE_IN_TRANSACTION = tuple(kind for kind in _SQLITE if kind not in EACH_STATEMENT_BY_ITSELF)
IN_TRANSACTION = POSTGRES_IN_TRANSACTION + SQLITE_IN_TRANSACTION
"""Kinds on which the caller can have a transaction."""

ALONE = (
    *(kind for kind in (*_POSTGRES, *_SQLITE) if "sqlalchemy" not in kind and kind not in OPENS_BY_ITSELF),
    *EACH_STATEMENT_BY_ITSELF,
)
"""Kinds on which a call outside of a transaction is committed when it returns."""


@asynccontextmanager
async def open_case(kind: str, postgres: Callable[[], str], folder: Path) -> AsyncIterator[Case]:
    """A connection of one kind for one test."""
    if kind in _SQLITE:
        path = folder / "own.db"
        beside = sqlite3.connect(path, isolation_level=None, timeout=0)
        beside.execute("PRAGMA journal_mode = WAL")
        own = await _SQLITE[kind](f"sqlite:///{path}")
        ground: SqlGround = SqliteGround(
            Caller(own.store), lambda text, params=(): beside.execute(text, params).fetchall()
        )
        close = beside.close
    else:
        admin = psycopg.connect(postgres(), autocommit=True)
        own = await _POSTGRES[kind](postgres())
        ground = PostgresGround(Caller(own.store), lambda text, params=None: _run(admin, text, params))
        close = admin.close
    try:
        yield Case(own, ground)
    finally:
        await own.close()
        close()


def _run(admin: "psycopg.Connection[Any]", text: str, params: Any) -> list[tuple[Any, ...]]:
    cursor = admin.execute(text.encode(), params)
    return cursor.fetchall() if cursor.description else []
