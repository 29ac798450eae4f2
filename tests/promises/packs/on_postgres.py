"""Exploring on PostgreSQL, step by step: one statement at a time on one connection, with a clock of our own.

The clock stands in the search path before the server's own, so `clock_timestamp()` and `now()` are the run's. Tables are put
back from copies of what they were, which is quicker than making them again.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg

from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import identifier, qualified
from raceproof.kernel.statement import Rows, Statement
from raceproof.programs import Programs
from raceproof.schema import Dialect
from raceproof.testing.explorer.expiries import Spans
from raceproof.testing.explorer.ground import Tables, frozen, statements
from raceproof.testing.explorer.virtual import EPOCH

_LEARNT = ("move.table", "move.types")
_TYPES = {"text": "text", "number": "bigint", "time": "timestamptz"}
_PLACE = re.compile(r"'\(\d+,\d+\)'")
_CLOCKS = ("clock_timestamp", "statement_timestamp", "transaction_timestamp", "now")
_CLOCK = """CREATE FUNCTION explored_clock.{}() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT pg_catalog.current_setting('explored.now')::timestamptz $$"""


class PostgresGround:
    """A schema of its own on a server, made anew."""

    dialect = "postgres"

    def __init__(self, url: str, durations: Iterable[float] = ()) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._cursor = psycopg.RawCursor(self._connection)
        self._run("SET client_min_messages = error")
        self._run("DROP SCHEMA IF EXISTS explored, explored_clock CASCADE")
        self._run("CREATE SCHEMA explored")
        self._run("CREATE SCHEMA explored_clock")
        for name in _CLOCKS:
            self._run(_CLOCK.format(name))
        self._run("SET search_path = explored, explored_clock, pg_catalog")
        self._run("SET synchronous_commit = off")
        self._spans = Spans(durations)
        self._now = ""
        self._writes = 0
        self._open = 0
        self._tables: list[str] = []
        self._reset = ""
        version = self._connection.info.server_version // 10000
        self.programs = Programs(PostgresDialect("dollar", version, in_transaction=lambda: self._open > 0))
        self.set_clock(0.0)

    def _run(self, text: str, params: Sequence[Any] = ()) -> Rows:
        cursor = self._cursor.execute(text, params or None)
        return cursor.fetchall() if cursor.description else ()

    # the clock

    def set_clock(self, clock: float) -> None:
        self._now = datetime.fromtimestamp(EPOCH + clock, UTC).isoformat()
        self._show_time()
        self._spans.set_clock(clock)

    def _show_time(self) -> None:
        self._run("SELECT set_config('explored.now', $1, false)", (self._now,))

    def next_expiry(self) -> float | None:
        return self._spans.next()

    def expiries(self) -> object:
        return self._spans.state()

    # statements

    def learns(self, statement: Statement) -> bool:
        return statement.name in _LEARNT

    def execute(self, statement: Statement) -> Rows:
        self._writes += 1
        self._spans.ran()
        match statement.text:
            case "BEGIN":
                self.begin()
            case "COMMIT":
                self.commit()
            case "ROLLBACK":
                self.rollback()
            case text:
                return self._run(text, statement.params)
        return ()

    def sql(self, text: str, params: Sequence[Any]) -> Rows:
        self._writes += 1
        self._spans.ran()
        for number in range(1, len(params) + 1):
            text = text.replace("?", f"${number}", 1)
        return self._run(text, params)

    def observed(self, answer: Any) -> object:
        """Where a row stands in its file changes from run to run, and means nothing to anybody."""
        return frozen(_PLACE.sub("", repr(answer)))

    def begin(self) -> None:
        self._run("SAVEPOINT explored" if self._open else "BEGIN")
        self._open += 1

    def commit(self) -> None:
        self._open -= 1
        self._run("RELEASE explored" if self._open else "COMMIT")

    def rollback(self) -> None:
        self._writes += 1
        self._open -= 1
        self._run("ROLLBACK TO explored" if self._open else "ROLLBACK")
        self._show_time()  # a setting goes back with its transaction

    # the run

    def keep(self) -> None:
        found = self._run("SELECT tablename FROM pg_tables WHERE schemaname = 'explored' ORDER BY 1")
        self._tables = [str(name) for (name,) in found]
        for name in self._tables:
            table, copy = identifier(name), identifier(f"{name}_as_it_was")
            self._run(f"CREATE TABLE explored_clock.{copy} AS TABLE {table}")
            back = f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE explored_clock.{copy}"
            self._reset += f"DELETE FROM {table}; {back};"
        for sequence in self._run("SELECT sequencename FROM pg_sequences WHERE schemaname = 'explored'"):
            self._reset += f"ALTER SEQUENCE {identifier(sequence[0])} RESTART;"

    def reset(self) -> None:
        self._writes += 1
        while self._open:
            self.rollback()
        self._connection.pgconn.exec_(self._reset.encode())
        self._spans.clear()
        self.set_clock(0.0)

    def aside(self, look: Callable[[], object]) -> None:
        """Never."""

    def version(self) -> object:
        return self._writes

    def state(self) -> object:
        return tuple(
            tuple(map(str, self._run(f"SELECT t.* FROM {identifier(name)} AS t ORDER BY t::text")))
            for name in self._tables
        )

    def tables(self) -> Tables:
        return {name: self._rows(name) for name in self._tables}

    def _rows(self, name: str) -> Sequence[Mapping[str, Any]]:
        cursor = self._cursor.execute(f"SELECT t.* FROM {identifier(name)} AS t ORDER BY t::text")
        columns = [column.name for column in cursor.description or ()]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    # a scenario's beginning

    def script(self, text: str) -> None:
        for one in statements(text):
            self._run(one)

    def create(self, table: str, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        listed = ", ".join(f"{identifier(name)} {_TYPES.get(kind, kind)}" for name, kind in columns.items())
        primary = ", ".join(identifier(key) for key in keys)
        self._run(f"CREATE TABLE {qualified(table)} ({listed}, PRIMARY KEY ({primary}))")

    def ddl(self, texts: Mapping[Dialect, str]) -> None:
        self.script(texts["postgres"])

    def insert(self, table: str, keys: Sequence[str], values: Mapping[str, Any]) -> None:
        names = ", ".join(identifier(name) for name in values)
        marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        text = f"INSERT INTO {qualified(table)} ({names}) VALUES ({marks})"
        self._run(text, tuple(values.values()))

    def close(self) -> None:
        self._connection.close()
