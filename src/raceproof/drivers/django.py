"""Django's own connection (`django.db.connection` or `connections["…"]`), on PostgreSQL and SQLite.

Statements go through Django's cursor, so `transaction.atomic` means what it always means.
"""

from typing import Any

from django.db import connections
from django.db.utils import Error

from raceproof.driver import Driver
from raceproof.drivers.conforming import backend_pid, refuse_escapes, setting_of
from raceproof.drivers.django_types import ModelTypes
from raceproof.drivers.sqlite import SqliteTransaction
from raceproof.drivers.typed import typed
from raceproof.drivers.unreplicated import confirming
from raceproof.kernel.errors import CallError
from raceproof.kernel.postgres import Catalogue, PostgresDialect
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Rows, Statement, only_reads

_CONFLICTS = ("40001", "40P01")


_catalogues: dict[tuple[Any, ...], Catalogue] = {}


def _catalogue(settings: dict[str, Any]) -> Catalogue:
    """What was learned of the tables, once for a database: its connections come and go with threads."""
    database = tuple(settings[name] for name in ("HOST", "PORT", "NAME", "USER"))
    return _catalogues.setdefault(database, Catalogue())


class DjangoConnection(Driver):
    """One of Django's database connections, in the thread that it belongs to."""

    def __init__(self, connection: Any) -> None:
        found: Any = connections[connection.alias]
        self._connection = found
        vendor = found.vendor
        if vendor not in ("postgresql", "sqlite"):
            raise CallError(f"Django on {vendor} is not supported; PostgreSQL and SQLite are")
        self._is_postgres = vendor == "postgresql"
        dialect: Any = SqliteDialect("format")
        if self._is_postgres:
            catalogue, version = _catalogue(found.settings_dict), found.pg_version // 10000
            dialect = PostgresDialect("format", version, catalogue, lambda: self._in_transaction)
        super().__init__(dialect)
        self.programs = typed(self.programs, ModelTypes(found))
        self._sqlite = SqliteTransaction()
        self._began = False

    @property
    def settled(self) -> bool:
        return self._began or not self._in_transaction

    @property
    def backend_pid(self) -> int | None:
        return backend_pid(self._connection.connection)

    @property
    def _in_transaction(self) -> bool:
        return bool(self._connection.in_atomic_block or not self._connection.get_autocommit())

    def execute(self, statement: Statement) -> Rows:
        alone = not self._in_transaction and not self._began
        try:
            with self._connection.cursor() as cursor:
                if self._is_postgres:
                    refuse_escapes(setting_of(self._connection.connection))
                if statement.text in ("BEGIN", "COMMIT", "ROLLBACK"):
                    self._control(cursor, statement)
                    return ()
                if alone and self._is_postgres and not only_reads(statement.text):
                    with confirming(self._connection.connection):
                        cursor.execute(statement.text, list(statement.params))
                else:
                    cursor.execute(statement.text, list(statement.params))
                rows: Rows = cursor.fetchall() if cursor.description else ()
                return rows
        except Error as error:
            self._raise_translated(error, statement, final=alone or statement.text == "COMMIT")
            raise

    def _control(self, cursor: Any, statement: Statement) -> None:
        """Begin and end what is ours; in a transaction of Django's only a savepoint, and that on SQLite alone."""
        callers = self._in_transaction
        if not self._is_postgres:
            for text in self._sqlite.texts(statement, callers):
                cursor.execute(text, [])
            self._sqlite.ran(statement, callers)
            return
        began = self._began
        self._began = statement.text == "BEGIN" and not callers
        if began and statement.text == "COMMIT":
            with confirming(self._connection.connection):
                cursor.execute(statement.text)
        elif began or self._began:
            cursor.execute(statement.text)

    def _raise_translated(self, error: Error, statement: Statement, final: bool) -> None:
        original: Any = error.__cause__
        code = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
        if code in _CONFLICTS:
            raise Conflicted from error
        if not self._is_postgres and original is not None:
            translated = self._sqlite.translate(original, statement, self._in_transaction)
            if translated is not original:
                raise translated from error
        if final and self._is_postgres and getattr(self._connection.connection, "closed", False):
            raise AcknowledgementLost from error
