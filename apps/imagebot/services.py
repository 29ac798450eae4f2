"""The database as everything above it sees it: a pool with a beginning and an end, transactions, and what is kept there.

Handlers reach the database through this and through nothing else.
"""

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

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

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
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
        async with connect(self._url) as store:
            yield store


@asynccontextmanager
async def open_service(settings: Settings) -> AsyncIterator[DatabaseService]:
    """Connect within ten seconds, migrate, and close at the end."""
    known = settings.database.startswith("postgres") and await _is_declared(settings.database)
    own = _nothing if known else own_tables
    async with open_database(settings.database, MIGRATIONS, own) as database:
        if not known:
            await _remember(database)
        yield DatabaseService(database, settings)


def _nothing(_: str) -> list[str]:
    return []


def _declaration(dialect: str) -> str:
    """A name for guards and indexes as they are declared now."""
    return f"declared-{hashlib.sha256(''.join(own_tables(dialect)).encode()).hexdigest()[:16]}"


async def _is_declared(url: str) -> bool:
    """Whether this very declaration is installed: to install it again would lock busy tables at every start."""
    connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT)
    try:
        asked = "SELECT 1 FROM applied_migrations WHERE name = $1"
        return await connection.fetchval(asked, _declaration("postgres")) is not None
    except asyncpg.UndefinedTableError:
        return False
    finally:
        await connection.close()


async def _remember(database: Database) -> None:
    async with database.transaction() as (connection, _):
        table = Table(
            "applied_migrations", MetaData(), Column("name", String), Column("applied_at", Moment())
        )
        row = insert_into(connection, table).values(
            name=_declaration(database.dialect), applied_at=store_now(connection)
        )
        await connection.execute(row.on_conflict_do_nothing())
