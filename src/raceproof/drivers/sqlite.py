"""SQLite through the standard library, on a connection of the caller's, and the embedded writer of `connect`.

A program's BEGIN is `BEGIN IMMEDIATE` where the connection has no transaction of its own to open; in a transaction of the
caller's it takes the write lock and sets a savepoint, so that a call which fails half-way leaves nothing of itself.
"""

import sqlite3
from typing import Any, Literal

from raceproof.driver import Driver
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Rows, Statement

_BUSY = 5
_LOCKED = 6
_IO_ERROR = 10
_CONTROL = frozenset(("BEGIN", "COMMIT", "ROLLBACK"))
_HAS_AUTOCOMMIT = hasattr(sqlite3.Connection, "autocommit")  # since Python 3.12
_SAVEPOINT = '"raceproof"'


class SqliteTransaction:
    """The meaning of BEGIN, COMMIT and ROLLBACK on one SQLite connection, whoever wraps it."""

    def __init__(self) -> None:
        self._open: Literal["nothing", "transaction", "savepoint"] = "nothing"

    @property
    def own(self) -> bool:
        return self._open == "transaction"

    def texts(self, statement: Statement, callers: bool) -> list[str]:
        """The statements to run instead; `callers`: the connection is in a transaction of the caller's, or opens one."""
        match statement.text, self._open:
            case "BEGIN", _:
                return [statement.params[0], f"SAVEPOINT {_SAVEPOINT}"] if callers else ["BEGIN IMMEDIATE"]
            case ending, "transaction":
                return [ending]
            case "COMMIT", "savepoint":
                return [f"RELEASE {_SAVEPOINT}"]
            case "ROLLBACK", "savepoint":
                return [f"ROLLBACK TO {_SAVEPOINT}", f"RELEASE {_SAVEPOINT}"]
            case _:
                return []

    def ran(self, statement: Statement, callers: bool) -> None:
        """Called when these statements have run."""
        self._open = "nothing"
        if statement.text == "BEGIN":
            self._open = "savepoint" if callers else "transaction"

    def translate(self, error: sqlite3.Error, statement: Statement, callers: bool) -> Exception:
        """The driver's error as the library's own kind, if it has one."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (_BUSY, _LOCKED) and callers and not self.own:
            # the caller's snapshot is older than another write, or another writer is in the way: it must start again
            return Conflicted()
        if code == _IO_ERROR and statement.text == "COMMIT":
            return AcknowledgementLost()
        return error


def opens_by_itself(connection: sqlite3.Connection) -> bool:
    """Whether the module opens transactions behind the first write, so that their end is the caller's business."""
    if _HAS_AUTOCOMMIT and isinstance(connection.autocommit, bool):  # type: ignore[attr-defined]
        return not connection.autocommit  # type: ignore[attr-defined]
    return connection.isolation_level is not None


class SqliteConnection(Driver):
    """One sqlite3 connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(SqliteDialect("question"))
        self._connection = connection
        self._cursor = connection.cursor()
        self._cursor.row_factory = None
        self._transaction = SqliteTransaction()

    @property
    def settled(self) -> bool:
        return not (self._connection.in_transaction or opens_by_itself(self._connection))

    def execute(self, statement: Statement) -> Rows:
        try:
            if statement.text in _CONTROL:
                return self._control(statement)
            rows: list[tuple[Any, ...]] = self._cursor.execute(statement.text, statement.params).fetchall()
            return rows if self._connection.text_factory is str else _as_text(rows)
        except sqlite3.Error as error:
            translated = self._transaction.translate(error, statement, self._connection.in_transaction)
            if translated is error:
                raise
            raise translated from error

    def _control(self, statement: Statement) -> Rows:
        connection = self._connection
        if statement.text == "ROLLBACK" and not connection.in_transaction:
            return ()
        callers = connection.in_transaction or opens_by_itself(connection)
        for text in self._transaction.texts(statement, callers):
            self._cursor.execute(text)
        self._transaction.ran(statement, callers)
        return ()


def _as_text(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of a connection whose owner wants bytes, or something else, for text."""
    return [tuple(_plain(value) for value in row) for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value if value is None or isinstance(value, str | int | float) else str(value)
