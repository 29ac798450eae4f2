"""`sql` prints the columns that the user's tables lack, and the lease of rows in work at the first deploy."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.integrations.migrations.declared import TABLES
from tests.ops.cli.conftest import Cli

APP = "tests.integrations.migrations.declared"
VERIFIED = ("Job", "Dated", "Marked", "Staying", "mails", "logins")


@pytest.fixture
def postgres_tables(empty_postgres: str) -> str:
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(table.encode())
    return empty_postgres


@pytest.fixture
def sqlite_tables(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        for table in TABLES:
            connection.execute(table)
    return f"sqlite:///{tmp_path / 'shop.db'}"


def run_on_postgres(url: str, text: str) -> None:
    """Statement by statement, as psql does it."""
    bare = "\n".join(line for line in text.splitlines() if not line.startswith("--")) + "\n"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in bare.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode())


def test_what_is_printed_for_postgresql_makes_a_bare_table_fit(cli: Cli, postgres_tables: str) -> None:
    """Columns of claims, deliveries and attempts too; twice, without a look at the database."""
    printed = cli("sql", "--app", APP).stdout
    assert 'ALTER TABLE "mails" ADD COLUMN IF NOT EXISTS "delivering_at" timestamptz;' in printed
    run_on_postgres(postgres_tables, printed)
    run_on_postgres(postgres_tables, printed)
    result = cli("verify", "--app", APP, "--url", postgres_tables, *VERIFIED)
    assert result.exit_code == 0, result.stdout


def test_for_sqlite_the_columns_are_comments(cli: Cli, sqlite_tables: str) -> None:
    """It has no ADD COLUMN IF NOT EXISTS, and what is printed is safe to run again."""
    printed = cli("sql", "--app", APP, "Job", "mails", "--url", sqlite_tables).stdout
    assert '-- ALTER TABLE "jobs" ADD COLUMN "fence" INTEGER;' in printed
    assert '-- ALTER TABLE "mails" ADD COLUMN "delivering_at" TEXT;' in printed
    assert not any(line.startswith("ALTER") for line in printed.splitlines())
    assert "--missing" in printed


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_missing_prints_what_the_tables_lack_and_no_more(cli: Cli, kind: str, request: pytest.FixtureRequest) -> None:
    """Once that has been run, there is nothing left to add."""
    url: str = request.getfixturevalue(f"{kind}_tables")
    printed = cli("sql", "--app", APP, "--missing", "--url", url).stdout
    assert printed.count("ADD COLUMN") > 10
    assert "IF NOT EXISTS" not in "".join(line for line in printed.splitlines() if "ADD COLUMN" in line)
    if kind == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(printed)
    else:
        run_on_postgres(url, printed)
    assert "ADD COLUMN" not in cli("sql", "--app", APP, "--missing", "--url", url).stdout
    result = cli("verify", "--app", APP, "--url", url, *VERIFIED)
    assert result.exit_code == 0, result.stdout


def test_a_column_of_the_users_is_only_proposed(cli: Cli, sqlite_tables: str) -> None:
    """Its type is not ours to choose, so it stays a comment."""
    with closing(sqlite3.connect(sqlite_tables.removeprefix("sqlite:///"))) as connection:
        connection.execute("ALTER TABLE jobs DROP COLUMN result")
    printed = cli("sql", "--app", APP, "Job", "--missing", "--url", sqlite_tables).stdout
    assert '-- ALTER TABLE "jobs" ADD COLUMN "result" TEXT;' in printed
    assert 'ALTER TABLE "jobs" ADD COLUMN "fence" INTEGER;' in printed.splitlines()


def test_a_table_that_does_not_exist_is_printed_whole(cli: Cli, sqlite_tables: str) -> None:
    """Its index would have nothing to be on."""
    with closing(sqlite3.connect(sqlite_tables.removeprefix("sqlite:///"))) as connection:
        connection.execute("DROP TABLE mails")
        printed = cli("sql", "--app", APP, "mails", "--missing", "--url", sqlite_tables).stdout
        assert "table mails does not exist" in printed
        connection.executescript(printed)
        assert connection.execute("SELECT delivering_at FROM mails").fetchall() == []


def test_missing_needs_a_database_of_the_same_kind(cli: Cli, sqlite_tables: str) -> None:
    """Columns of one database say nothing about another."""
    assert "no store given" in cli("sql", "--app", APP, "--missing").stderr
    other = cli("sql", "--app", APP, "--missing", "--url", sqlite_tables, "--dialect", "postgres")
    assert (other.exit_code, "leave out --dialect" in other.stderr) == (2, True)
    redis = cli("sql", "--app", APP, "--missing", "--dialect", "redis")
    assert (redis.exit_code, "Redis has no columns" in redis.stderr) == (2, True)


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_rows_in_work_get_a_lease(cli: Cli, dialect: str) -> None:
    """The statement of each claim; where none is possible, a comment says what to do instead."""
    printed = cli("sql", "--app", APP, "--dialect", dialect).stdout
    assert printed.count("'before raceproof'") == 1
    assert printed.count("UPDATE ") == 3
    assert "-- Staying.work: no statement finds its rows in work" in printed
