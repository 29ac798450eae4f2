"""The SQL dialects by name, for tools that write SQL without a connection."""

from raceproof.kernel.dialect import SqlDialect
from raceproof.kernel.errors import CallError
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.sqlite import SqliteDialect

POSTGRES = PostgresDialect("dollar")
SQLITE = SqliteDialect("question")


def sql_dialect(name: str) -> SqlDialect:
    """The dialect of this name."""
    for dialect in (POSTGRES, SQLITE):
        if dialect.name == name:
            return dialect
    raise CallError(f"there is no DDL for {name!r}: write 'postgres' or 'sqlite'; on Redis nothing has to be created")
