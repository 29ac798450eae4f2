"""`sql`: DDL that a database takes, and statements that are the ones really sent."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest

from raceproof import bind
from raceproof.declare import spec_of
from raceproof.kernel.events import subscribed
from tests.ops.cli.conftest import APP, TABLES, Cli
from tests.ops.cli.declared import Command, Payment


def test_the_ddl_installs_on_postgresql(cli: Cli, empty_postgres: str) -> None:
    """History and guards of all lifecycles run as they are printed, twice, and verify finds nothing wrong."""
    ddl = cli("sql", "--app", APP, "--guards").stdout
    with psycopg.connect(empty_postgres, autocommit=True) as connection:
        connection.execute(TABLES.format(uuid="uuid").encode())
        connection.execute(ddl.encode())
        connection.execute(ddl.encode())
    result = cli("verify", "--app", APP, "--url", empty_postgres, "--matrix", "--strict")
    assert result.exit_code == 0, result.stdout


def test_the_ddl_installs_on_sqlite(cli: Cli, sqlite_url: str) -> None:
    """The dialect is that of the URL; what is printed runs twice, and verify finds nothing wrong."""
    ddl = cli("sql", "--app", APP, "--guards", "--url", sqlite_url).stdout
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as connection:
        connection.executescript(ddl)
        connection.executescript(ddl)
    result = cli("verify", "--app", APP, "--url", sqlite_url, "--matrix", "--strict")
    assert result.exit_code == 0, result.stdout


def test_the_guards_can_be_taken_away_again(cli: Cli, sqlite_url: str) -> None:
    """After --drop-guards verify warns that there are none, as before."""
    path = sqlite_url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        for option in ("--guards", "--drop-guards"):
            connection.executescript(cli("sql", "--app", APP, option, "--dialect", "sqlite").stdout)
        triggers = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'")
        assert triggers.fetchone() == (0,)
    assert "no guards" in cli("verify", "--app", APP, "--url", sqlite_url).stdout


def test_a_shared_history_is_printed_once(cli: Cli) -> None:
    """Command and Job name the same history table."""
    ddl = cli("sql", "--app", APP).stdout
    assert ddl.count("CREATE TABLE") == 1
    assert all(f"-- {name} · " in ddl for name in ("Command", "Job", "Ticket", "Line"))


class Recording(sqlite3.Connection):
    """A connection that remembers the text of every statement."""

    sent: ClassVar[list[str]] = []

    def cursor(self, *args: Any) -> Any:
        class Cursor(sqlite3.Cursor):
            def execute(self, text: str, *values: Any) -> Any:
                Recording.sent.append(text)
                return super().execute(text, *values)

        return super().cursor(Cursor)


def test_the_statements_are_those_that_sqlite_runs(cli: Cli, sqlite_url: str) -> None:
    """Every statement of a real move, won and lost, stands word for word in the output."""
    printed = cli("sql", "--app", APP, "Command", "--statements", "--dialect", "sqlite").stdout
    path = sqlite_url.removeprefix("sqlite:///")
    Recording.sent.clear()
    with closing(sqlite3.connect(path, isolation_level=None, factory=Recording)) as connection:
        store = bind(connection)
        assert store.move(Command.send, "c-1", by="a", reason="b").won
        assert not store.move(Command.send, "nobody", by="a", reason="b").reached
    sent = set(Recording.sent)
    assert len(sent) > 5
    assert {text for text in sent if f"{text};" not in printed} == set()
    assert "-- ? in order: <cmd_id>" in printed


def test_the_statements_for_postgresql_can_be_prepared(cli: Cli, postgres_url: str) -> None:
    """PostgreSQL accepts each of them as a prepared statement, with parameters of the types it finds."""
    printed = cli("sql", "--app", APP, "--statements", "--dialect", "postgres").stdout
    parts = printed.partition("-- Command.send move")[2].split("\n-- ")
    statements = ["\n".join(part.splitlines()[1:]) for part in parts]
    prepared = 0
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for text in statements:
            body = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
            if body.startswith(("WITH", "UPDATE")):
                connection.execute(f"PREPARE s{prepared} AS {body}".encode())
                prepared += 1
    moves = 4 + 2 + 2 + 2 + 2
    assert prepared == 2 * moves


def test_the_finished_redis_script_of_each_move_is_printed(cli: Cli) -> None:
    """With its KEYS and ARGV; what a move has no use for is not in its script."""
    printed = cli("sql", "--app", APP, "Job", "Ticket", "--statements", "--dialect", "redis").stdout
    assert "-- if:" not in printed
    assert "redis.call('HSET', row, 'status', " in printed
    assert "KEYS[1] jobs:<id>" in printed
    assert '[["attempts", "<", 3]]' in printed


def test_a_guard_that_redis_cannot_decide_is_an_error(cli: Cli) -> None:
    """An sql(…) guard has no form in Redis, and the message says how to write it instead."""
    result = cli("sql", "--app", f"{APP}:Payment", "--statements", "--dialect", "redis")
    assert (result.exit_code, "column(…)" in result.stderr) == (1, True)
    assert spec_of(Payment).moves["start"].where


@pytest.mark.parametrize("dialect", ["postgres", "sqlite", "redis"])
def test_a_name_cannot_leave_its_comment(cli: Cli, tmp_path: Path, dialect: str) -> None:
    """Line breaks in the names of a declaration do not begin a statement of their own."""
    path = tmp_path / "odd.toml"
    path.write_text(
        'name = "Odd\\nDROP TABLE x;"\ntable = "odd"\nstatuses = ["A", "B"]\n'
        '[moves."go\\nDROP TABLE y;"]\nfrom = ["A"]\nto = "B"\n'
    )
    printed = cli("sql", "--app", str(path), "--statements", "--dialect", dialect)
    assert printed.exit_code == 0, printed.stderr
    assert not any(line.startswith("DROP") for line in printed.stdout.splitlines())


def test_nothing_is_sent_for_printing(cli: Cli) -> None:
    """Printing statements runs programs without a store, so no event tells of a move."""
    told: list[object] = []
    with subscribed(told.append):
        assert cli("sql", "--app", APP, "Command", "--statements").exit_code == 0
    assert told == []
