"""Opening the database: the pipeline's tables, and for claims in columns those columns too."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from appkit.database import Database, migrate, open_database
from outreach.forms import Form
from outreach.settings import Settings
from outreach.tables import own_tables

HERE = Path(__file__).parent
PIPELINE = HERE / "migrations"
CLAIM_COLUMNS = HERE / "claim_columns"


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Database]:
    """The database in the form that this process uses; workers that use the other one may be at work."""
    async with open_database(settings.database_url, PIPELINE, own_tables(Form.MARKER)) as database:
        if settings.form is Form.COLUMNS:
            await add_claim_columns(database)
        yield database


async def add_claim_columns(database: Database) -> list[str]:
    """The migration from markers to columns; what it did, or nothing if it was done before."""
    return await migrate(database.engine, CLAIM_COLUMNS, own_tables(Form.COLUMNS))
