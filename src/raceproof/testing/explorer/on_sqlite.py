"""Exploring on SQLite: the embedded store's own texts, in memory, with a clock of our own.

The whole run lives in one transaction that is rolled back at its end, which is quicker than a new database and keeps the
prepared statements; a transaction of the explored code is a savepoint in it. There is one writer at a time, as ever: the
run lets nobody else at the store while one is open.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil
from typing import Any, TypeVar

from raceproof.kernel.quoting import identifier, qualified
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Rows, Statement
from raceproof.moves.fast.sqlite import FastSqliteMoves
from raceproof.programs import Programs
from raceproof.schema import Dialect
from raceproof.testing.explorer.ground import Tables, frozen, statements
from raceproof.testing.explorer.virtual import EPOCH

T = TypeVar("T")

_FUNCTIONS = ("strftime", "datetime", "date", "time", "julianday", "unixepoch")
_A_STEP = 0.0015
"""A claim steps ahead of the last one by a millisecond; that is no lease that ends."""
_COARSE = ("datetime", "time", "unixepoch")
_KEYWORDS = {"current_timestamp": "datetime", "current_date": "date", "current_time": "time"}
_TYPES = {"text": "TEXT", "number": "INTEGER", "time": "TEXT"}


class SqliteGround:
    """SQLite in memory."""

    dialect = "sqlite"

    def __init__(self) -> None:
        dialect = SqliteDialect("question")
        self.programs = Programs(dialect)
        # the order in which it looks for rows must not depend on earlier runs
        self.programs.moves = FastSqliteMoves(dialect, prefers=False)
        self.durations: set[float] = set()
        """Every span of time that a statement has reckoned with."""
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._cursor = self._connection.cursor()
        self._clock = 0.0
        self._now = ""
        self._expiries: set[float] = set()
        self._selects: list[tuple[str, list[str], str]] = []
        self._drawn = 0
        self._rollbacks = 0
        self._undone = 0
        self._inserts = 0
        self._numbers = ""
        self._keep_time()
        self._connection.create_function("random", 0, self._draw)
        self.set_clock(0.0)

    # the clock

    def _keep_time(self) -> None:
        """Replace SQLite's functions of time: 'now' is the run's, and what they reckon with is noted."""
        self._clockwork = real = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

        @lru_cache(maxsize=4096)
        def asked(name: str, *args: Any) -> Any:
            marks = ", ".join("?" for _ in args)
            return real.execute(f"SELECT {name}({marks})", args).fetchone()[0]

        @lru_cache(maxsize=4096)
        def seconds(*args: Any) -> float | None:
            moment = asked("julianday", *args)
            return None if moment is None else round((moment - 2440587.5) * 86400.0 - EPOCH, 3)

        def virtual(name: str, first: int) -> Any:
            def function(*args: Any) -> Any:
                given = args[first:] or ("now",)
                if any(map(_is_now, given)):
                    given = tuple(self._now if _is_now(one) else one for one in given)
                if len(given) > 1:
                    coarse = name in _COARSE or (name == "strftime" and "%f" not in str(args[0]))
                    self._reckon(seconds(*given), seconds(given[0]), 0.999 if coarse else 0.0)
                return asked(name, *args[:first], *given)

            return function

        for name in _FUNCTIONS:
            function = virtual(name, 1 if name == "strftime" else 0)
            self._connection.create_function(name, -1, function, deterministic=True)
        for keyword, name in _KEYWORDS.items():
            self._connection.create_function(keyword, 0, virtual(name, 0), deterministic=True)

    def _reckon(self, result: float | None, moment: float | None, coarse: float) -> None:
        """A statement looks ahead to a moment, or back over a span: then something is over when that has passed.

        What is written in whole seconds is surely over a second later.
        """
        if result is None or moment is None or abs(result - moment) < _A_STEP:
            return
        span = round(abs(result - moment), 3)
        self.durations.add(span)
        if result > self._clock:
            self._expiries.add(result + coarse)
        elif result < moment:
            self._expiries.add(round(self._clock + span + coarse, 3))

    def _draw(self) -> int:
        """SQLite's `random()`: another one each time, and the same in every run of a schedule."""
        self._drawn += 1
        return self._drawn

    def set_clock(self, clock: float) -> None:
        self._clock = clock
        self._now = _text(clock)
        if self._expiries:
            self._expiries = {expiry for expiry in self._expiries if expiry >= clock}

    def next_expiry(self) -> float | None:
        return ceil(min(self._expiries) * 1000) / 1000 if self._expiries else None

    def expiries(self) -> object:
        return frozenset(self._expiries)

    # statements

    def learns(self, statement: Statement) -> bool:
        return False

    def execute(self, statement: Statement) -> Rows:
        match statement.text:
            case "BEGIN":
                self.begin()
            case "COMMIT":
                self.commit()
            case "ROLLBACK":
                self.rollback()
            case text:
                return self.sql(text, statement.params)
        return ()

    def sql(self, text: str, params: Sequence[Any]) -> Rows:
        if self._numbers and _inserts(text):
            self._inserts += 1
        return self._cursor.execute(text, params).fetchall()

    def observed(self, answer: Any) -> object:
        return frozen(answer)

    def begin(self) -> None:
        self._cursor.execute("SAVEPOINT explored")

    def commit(self) -> None:
        self._cursor.execute("RELEASE explored")

    def rollback(self) -> None:
        self._cursor.execute("ROLLBACK TO explored")
        self._cursor.execute("RELEASE explored")
        self._rollbacks += 1

    def aside(self, look: Callable[[], T]) -> T:
        drawn, expiries, changes = self._drawn, self._expiries, self._connection.total_changes
        rollbacks, inserts = self._rollbacks, self._inserts
        self._expiries = set(expiries)
        self._cursor.execute("SAVEPOINT aside")
        try:
            return look()
        finally:
            self._cursor.execute("ROLLBACK TO aside")
            self._cursor.execute("RELEASE aside")
            self._drawn, self._expiries, self._rollbacks, self._inserts = drawn, expiries, rollbacks, inserts
            self._undone += self._connection.total_changes - changes

    # the run

    def keep(self) -> None:
        names = self._cursor.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        ).fetchall()
        for (name,) in names:
            columns = [str(row[1]) for row in self._cursor.execute(f"PRAGMA table_info({identifier(name)})")]
            self._selects.append((name, columns, f"SELECT * FROM {identifier(name)}"))  # noqa: S608
        if self._cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchall():
            self._numbers = "SELECT * FROM sqlite_sequence"
        self._cursor.execute("BEGIN")
        self._cursor.execute("SAVEPOINT beginning")

    def reset(self) -> None:
        self._cursor.execute("ROLLBACK TO beginning")
        self._expiries.clear()
        self._drawn = 0
        self.set_clock(0.0)

    def version(self) -> object:
        # an INSERT may use up a number without a change, and a SELECT may draw
        return self._connection.total_changes - self._undone, self._rollbacks, self._inserts, self._drawn

    def state(self) -> object:
        """All rows as values, for the hash of a state."""
        # in the order in which they stand there, which a statement without ORDER BY can see
        rows = [self._cursor.execute(text).fetchall() for _, _, text in self._selects]
        numbers = self._cursor.execute(self._numbers).fetchall() if self._numbers else ()
        return repr((rows, numbers, self._drawn))

    def tables(self) -> Tables:
        return {
            name: [
                dict(zip(columns, row, strict=True)) for row in sorted(self._cursor.execute(text).fetchall(), key=repr)
            ]
            for name, columns, text in self._selects
        }

    # a scenario's beginning

    def script(self, text: str) -> None:
        for one in statements(text):
            self._cursor.execute(one)

    def create(self, table: str, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        listed = ", ".join(f"{identifier(name)} {_TYPES.get(kind, kind)}" for name, kind in columns.items())
        primary = ", ".join(identifier(key) for key in keys)
        self._cursor.execute(f"CREATE TABLE {qualified(table)} ({listed}, PRIMARY KEY ({primary}))")

    def ddl(self, texts: Mapping[Dialect, str]) -> None:
        self.script(texts["sqlite"])

    def insert(self, table: str, keys: Sequence[str], values: Mapping[str, Any]) -> None:
        names = ", ".join(identifier(name) for name in values)
        marks = ", ".join("?" for _ in values)
        text = f"INSERT INTO {qualified(table)} ({names}) VALUES ({marks})"  # noqa: S608
        self._cursor.execute(text, tuple(values.values()))

    def close(self) -> None:
        self._connection.close()
        self._clockwork.close()


@lru_cache(maxsize=4096)
def _text(clock: float) -> str:
    """A moment as SQLite writes it."""
    moment = datetime.fromtimestamp(EPOCH + clock, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


@lru_cache(maxsize=4096)
def _inserts(text: str) -> bool:
    return "insert" in text.lower()


def _is_now(value: object) -> bool:
    return isinstance(value, str) and value.lower() == "now"
