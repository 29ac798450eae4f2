"""`ddl` as a list: statements that drivers and migration tools take one by one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal

import asyncpg
import psycopg
import pytest

from raceproof import bind, ddl
from raceproof.kernel.errors import CallError
from raceproof.ops.verify import verify
from raceproof.schema.guards import drop_statements, guard_statements
from raceproof.schema.tables import history_table, inbox_tables
from tests.ddl import script
from tests.integrations.migrations.declared import EVERYTHING, EXISTING, TABLES, Job, events, lease, logins, mails


@pytest.fixture
def sqlite() -> Iterator[sqlite3.Connection]:
    """The tables of an application that knows nothing of raceproof."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for table in TABLES:
            connection.execute(table)
        yield connection


async def test_asyncpg_prepares_each_statement(empty_postgres: str) -> None:
    """Also triggers, whose bodies have semicolons; all of it twice and in a transaction, as a migration runs."""
    statements = ddl(*EVERYTHING, dialect="postgres", guards=True)
    connection: Any = await asyncpg.connect(empty_postgres)
    try:
        for table in TABLES:
            await connection.execute(table)
        for _ in range(2):
            async with connection.transaction():
                for statement in statements:
                    # the extended protocol, as SQLAlchemy's dialect uses it: one command at a time
                    await (await connection.prepare(statement)).fetch()
        found = {thing: await verify(bind(connection), thing) for thing in EVERYTHING[:-1]}
    finally:
        await connection.close()
    assert [one for findings in found.values() for one in findings if one.level != "ok"] == []


def test_sqlite_executes_each_statement(sqlite: sqlite3.Connection) -> None:
    """Python's sqlite3 refuses two statements in one call."""
    for statement in ddl(*EVERYTHING, dialect="sqlite", guards=True, existing=EXISTING):
        sqlite.execute(statement)
    store = bind(sqlite)
    found = [one for thing in EVERYTHING[:-1] for one in verify(store, thing)]
    assert [one for one in found if one.level != "ok"] == []


def test_sqlite_adds_no_column_that_it_was_not_told_to_lack() -> None:
    """A second ADD COLUMN is an error there, and there is no IF NOT EXISTS."""
    assert not any("ADD COLUMN" in one for one in ddl(*EVERYTHING, dialect="sqlite"))
    told = ddl(Job, dialect="sqlite", existing={"jobs": ["id", "status", "rev"]})
    assert 'ALTER TABLE "jobs" ADD COLUMN "fence" INTEGER;' in told
    assert not any('"rev"' in one for one in told if "ADD COLUMN" in one)


def test_the_columns_of_the_user_are_never_added() -> None:
    """Neither keys nor columns that a caller sets or orders by: only their owner knows the type."""
    added = [one for one in ddl(*EVERYTHING, dialect="postgres") if "ADD COLUMN" in one]
    assert len(added) > 10
    assert not any(f'EXISTS "{name}"' in one for one in added for name in ("id", "status", "result", "owner"))


@pytest.mark.parametrize(("concurrently", "expected"), [(False, 0), (True, 4)])
def test_an_index_is_built_concurrently_only_on_request(concurrently: bool, expected: int) -> None:
    """Most migrations run in a transaction, where that word is an error."""
    statements = ddl(*EVERYTHING, dialect="postgres", concurrently=concurrently)
    assert sum("CONCURRENTLY" in one for one in statements) == expected


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_the_text_is_the_list_in_one_piece(dialect: Literal["postgres", "sqlite"]) -> None:
    """Each function that gives one text has a list behind it."""
    assert script(Job, dialect=dialect, only="guards") == "\n".join(guard_statements(Job, dialect))
    assert script(Job, dialect=dialect, drop_guards=True) == "\n".join(drop_statements(Job, dialect))
    assert script(Job, dialect=dialect, only="tables") == "\n".join(history_table(Job.spec, dialect))
    assert script(events, dialect=dialect) == "\n".join(inbox_tables(events, dialect))
    for statements in (guard_statements(Job, dialect), drop_statements(Job, dialect)):
        assert len(statements) >= 2
        assert all(one.endswith(";") for one in statements)


def test_the_guards_are_dropped_by_statements_too(sqlite: sqlite3.Connection) -> None:
    """For the way back of a migration; what is not a lifecycle has no guards."""
    for statement in ddl(Job, dialect="sqlite", guards=True, existing=EXISTING):
        sqlite.execute(statement)
    assert sqlite.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (4,)
    for statement in ddl(Job, lease, mails, dialect="sqlite", drop_guards=True):
        sqlite.execute(statement)
    assert sqlite.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (0,)


def test_a_lifecycle_that_is_named_twice_is_prepared_once(empty_postgres: str) -> None:
    """Attempts and claims bring their lifecycle along."""
    assert ddl(Job, logins, Job.work, dialect="postgres") == ddl(logins, dialect="postgres")
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute(TABLES[0].encode())
        for statement in ddl(logins, dialect="postgres", concurrently=True):
            connection.execute(statement.encode())


def test_a_dialect_without_ddl_is_refused() -> None:
    """As by every function that gives DDL."""
    with pytest.raises(CallError, match="write 'postgres' or 'sqlite'"):
        ddl(Job, dialect="redis")  # type: ignore[arg-type]
    with pytest.raises(CallError, match="expected declarations"):
        ddl("jobs", dialect="sqlite")  # type: ignore[arg-type]
