"""Bringing a database up to date: numbered migrations, each applied once, and DDL that may run again and again.

DDL runs only where something is missing or has changed, however many instances start together. On PostgreSQL it waits two
seconds for a table and then leaves it to others for a second: a session that reads in an open transaction delays the
migration, and not every session that comes after it.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from appkit.commands import Unusable
from appkit.installed import RECORD, Installed, invalid_indexes, look, remember
from raceproof import ddl

WORDS = {
    "postgres": {
        "moment": "timestamptz",
        "identity": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "bytea",
        "now": "clock_timestamp()",
        "boolean": "boolean",
        "true": "TRUE",
        "false": "FALSE",
    },
    "sqlite": {
        "moment": "TEXT",
        "identity": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "bytes": "BLOB",
        "now": "(strftime('%Y-%m-%d %H:%M:%f', 'now'))",
        "boolean": "INTEGER",
        "true": "1",
        "false": "0",
    },
}
"""What a migration writes as {moment}, {identity} and so on."""

_LOCK = 0x7261636570726F6F  # of migrations, among advisory locks
_TABLE_WAIT = 2.0
"""Seconds that DDL waits for a table: whoever asks for the table meanwhile waits behind it."""
_TABLE_TRIES = 20
_TABLE_REST = 1.0

Result = TypeVar("Result")
Folders = Path | Sequence[Path]
"""Where migrations are; those of several folders are applied in the order of their names."""
OwnTables = Callable[[str], Iterable[str]]
"""Given a dialect, DDL that may run again and again: the library's tables, guards and indexes."""


def guards(*lifecycles: Any, dialect: Any) -> list[str]:
    """The triggers of each lifecycle as one script, so that no write comes between the old ones and the new ones."""
    return ["\n".join(ddl(one, dialect=dialect, only="guards")) for one in lifecycles]


async def installed(engine: AsyncEngine, folder: Folders, own: OwnTables) -> Installed:
    """What the database lacks of these migrations and objects; reads only."""
    dialect = "sqlite" if engine.dialect.name == "sqlite" else "postgres"
    async with engine.connect() as connection:
        alone = await connection.execution_options(isolation_level="AUTOCOMMIT")
        return await look(alone, [name for name, _ in _scripts(folder)], own(dialect))


async def migrate(engine: AsyncEngine, folder: Folders, own: OwnTables) -> list[str]:
    """Apply what is new, in the order of its numbers, and install what is missing or has changed; returns what was new."""
    if (await installed(engine, folder, own)).complete:
        return []
    dialect = "sqlite" if engine.dialect.name == "sqlite" else "postgres"
    applied = []
    async with (
        engine.connect() as guard
    ):  # its transaction has the lock: behind a transaction pooler no session is ours
        if dialect == "postgres":
            await _lock(guard)
        for name, script in _scripts(folder):
            if await _patiently(partial(_apply, engine, name, script, dialect)):
                applied.append(name)
        if not (await installed(engine, folder, own)).complete:
            await _install(engine, list(own(dialect)), dialect)
    return applied


async def _install(engine: AsyncEngine, scripts: list[str], dialect: str) -> None:
    """On SQLite in one transaction, so that of two that start together none finds the other's trigger half made."""
    if dialect == "sqlite":
        async with engine.begin() as connection:
            for ddl in (RECORD, *scripts):
                await run_script(connection, ddl, dialect if ddl is RECORD else None)
            await remember(connection, scripts, WORDS[dialect]["now"])
        return
    await _patiently(partial(_install_one, engine, RECORD, dialect))
    for ddl in scripts:
        await _patiently(partial(_install_one, engine, ddl))
    async with engine.begin() as connection:
        await remember(connection, scripts, WORDS[dialect]["now"])


async def _install_one(engine: AsyncEngine, ddl: str, dialect: str | None = None) -> None:
    """An index built CONCURRENTLY blocks no other session while it waits; interrupted in the middle, it would be invalid."""
    if "CONCURRENTLY" in ddl:
        async with engine.connect() as connection:
            alone = await connection.execution_options(isolation_level="AUTOCOMMIT")
            for name in await invalid_indexes(alone, [ddl]):  # of a process that was killed while it made one
                await alone.exec_driver_sql(f"DROP INDEX CONCURRENTLY {name}")
            await run_script(alone, ddl)
        return
    async with engine.begin() as connection:
        await _wait_briefly(connection)
        await run_script(connection, ddl, dialect)


async def _wait_briefly(connection: AsyncConnection) -> None:
    """In this transaction only: behind a pooler no session is ours."""
    if connection.dialect.name != "sqlite":
        await connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_TABLE_WAIT * 1000:.0f}ms'")


async def _patiently(run: Callable[[], Awaitable[Result]]) -> Result:
    """Run DDL again while others use its table, with a rest in which they get at it."""
    for left in range(_TABLE_TRIES, -1, -1):
        try:
            return await run()
        except Exception as error:
            if _sqlstate(error) != "55P03":
                raise
            if not left:
                raise Unusable(
                    "a migration could not get at a table: another session holds it in an open transaction."
                    " End that session's transaction and try again; nothing is half done"
                ) from error
        await asyncio.sleep(_TABLE_REST)
    raise AssertionError


def _sqlstate(error: BaseException) -> str:
    """Of the driver's error, also behind SQLAlchemy's."""
    found: BaseException | None = error
    while found is not None:
        if state := getattr(found, "sqlstate", None):
            return str(state)
        found = getattr(found, "orig", None) or found.__cause__
    return ""


async def _lock(guard: AsyncConnection) -> None:
    """Nobody keeps a snapshot meanwhile: CREATE INDEX CONCURRENTLY would wait for the end of its transaction."""
    asked = text("SELECT pg_try_advisory_xact_lock(:lock)")
    while not (await guard.execute(asked, {"lock": _LOCK})).scalar_one():
        await guard.rollback()
        await asyncio.sleep(0.05)
    raw = (await guard.get_raw_connection()).driver_connection
    await raw.execute("SELECT 1")  # type: ignore[union-attr]  # a simple query ends the portal of the one before


def _scripts(folder: Folders) -> list[tuple[str, str]]:
    folders = (folder,) if isinstance(folder, Path) else folder
    found = [path for one in folders for path in one.glob("[0-9]*.sql")]
    return [(path.stem, path.read_text()) for path in sorted(found, key=lambda path: path.name)]


async def _apply(engine: AsyncEngine, name: str, script: str, dialect: str) -> bool:
    """One migration and the mark that it was applied, in one transaction; False if it was applied before."""
    async with engine.begin() as connection:
        await _wait_briefly(connection)
        await run_script(
            connection,
            "CREATE TABLE IF NOT EXISTS applied_migrations (name text PRIMARY KEY, applied_at {moment} NOT NULL)",
            dialect,
        )
        found = await connection.execute(text("SELECT 1 FROM applied_migrations WHERE name = :name"), {"name": name})
        if found.first():
            return False
        await run_script(connection, script, dialect)
        await connection.execute(
            text("INSERT INTO applied_migrations (name, applied_at) VALUES (:name, CURRENT_TIMESTAMP)"),
            {"name": name},
        )
        return True


async def run_script(connection: AsyncConnection, script: str, dialect: str | None = None) -> None:
    """Several statements, which neither driver takes at once as a prepared statement."""
    for name, word in WORDS[dialect].items() if dialect else ():
        script = script.replace(f"{{{name}}}", word)
    raw = (await connection.get_raw_connection()).driver_connection
    if connection.dialect.name == "sqlite":
        for statement in statements(script):
            await connection.exec_driver_sql(statement)
    else:
        await connection.exec_driver_sql("SELECT 1")  # so that a transaction of SQLAlchemy's is begun
        for statement in statements(script) if "CONCURRENTLY" in script else [script]:
            await raw.execute(statement)  # type: ignore[union-attr]


def statements(script: str) -> Iterable[str]:
    """The statements of a script; a trigger's body, with its own semicolons, is one."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip()
            statement = ""
    if statement.strip():
        yield statement.strip()
