"""The database as everything above it sees it: a pool with a beginning and an end, transactions, and what is kept there.

Handlers reach the database through this and through nothing else.
"""

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy import Column, MetaData, String, Table

from appkit.database import Database, Moment, open_database, store_now
from imagebot.accounts import Accounts
from imagebot.jobs import Jobs
from imagebot.money import insert_into
from imagebot.settings import Settings
from imagebot.storage import Storage
from imagebot.tables import own_tables
from raceproof import AsyncStore, connect

log = logging.getLogger("imagebot.database")

MIGRATIONS = Path(__file__).parent / "migrations"
CONNECT_TIMEOUT = 10.0


class DatabaseService:
    """What is kept, and who keeps it."""

    def __init__(self, database: Database, settings: Settings, pooled: bool = False) -> None:
        self.database = database
        self.pooled = pooled
        """Whether a transaction pooler is in front of the database."""
        self.store = database.store
        self.transaction = database.transaction
        self.jobs = Jobs(database, settings)
        self.accounts = Accounts(database, settings)
        self.storage = Storage(database, settings)
        self._url = settings.database

    @asynccontextmanager
    async def intake(self) -> AsyncIterator[AsyncStore]:
        """Where events of others are kept: on PostgreSQL by connections that no worker uses."""
        if self.database.dialect == "sqlite":
            yield self.store  # of two who write into one file one waits for the other
            return
        unprepared: dict[str, Any] = {"statement_cache_size": 0} if self.pooled else {}
        async with connect(self._url, **unprepared) as store:
            yield store


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[DatabaseService]:
    """Connect within ten seconds, migrate, and close at the end."""
    found = await _look(settings.database) if settings.database.startswith("postgres") else Found()
    own = _nothing if found.declared else own_tables
    async with open_database(settings.database, MIGRATIONS, own, found.pooled) as database:
        if not found.declared:
            await _remember(database)
        yield DatabaseService(database, settings, found.pooled)


def _nothing(_: str) -> list[str]:
    return []


def _declaration(dialect: str) -> str:
    """A name for guards and indexes as they are declared now."""
    return f"declared-{hashlib.sha256(''.join(own_tables(dialect)).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a server says before anything is done there."""

    declared: bool = False
    """This very declaration is installed: to install it again would lock busy tables at every start."""
    pooled: bool = False
    """The process that answers is not the one that took the connection: a pooler is in front of it."""


async def _look(url: str) -> Found:
    connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT, statement_cache_size=0)
    try:
        pooled = await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid()
        asked = "SELECT 1 FROM applied_migrations WHERE name = $1"
        return Found(await connection.fetchval(asked, _declaration("postgres")) is not None, pooled)
    except asyncpg.UndefinedTableError:
        return Found(False, pooled)
    finally:
        await connection.close()


async def _remember(database: Database) -> None:
    async with database.transaction() as (connection, _):
        table = Table("applied_migrations", MetaData(), Column("name", String), Column("applied_at", Moment()))
        row = insert_into(connection, table).values(
            name=_declaration(database.dialect), applied_at=store_now(connection)
        )
        await connection.execute(row.on_conflict_do_nothing())
