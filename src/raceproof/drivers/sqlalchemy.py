"""SQLAlchemy 2: Connection and AsyncConnection, on PostgreSQL and SQLite; for sessions see `sqlalchemy_session.py`.

Statements go through `exec_driver_sql`, so SQLAlchemy's own transaction begins and ends as its owner says.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import exc
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from raceproof.driver import AsyncDriver, Driver
from raceproof.drivers.conforming import backend_pid, refuse_escapes, setting_of
from raceproof.drivers.sqlalchemy_types import MappedTypes
from raceproof.drivers.sqlite import SqliteTransaction, opens_by_itself
from raceproof.drivers.typed import typed
from raceproof.drivers.unbroken import unbroken
from raceproof.drivers.unreplicated import confirming
from raceproof.kernel.errors import CallError
from raceproof.kernel.postgres import Catalogue, PostgresDialect
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Rows, Statement, Style, only_reads
from raceproof.programs import Programs

_STYLES: dict[str, Style] = {"numeric_dollar": "dollar", "qmark": "question", "pyformat": "format", "format": "format"}
_CONFLICTS = ("40001", "40P01")


_catalogues: "WeakKeyDictionary[Engine, Catalogue]" = WeakKeyDictionary()
"""What was learned of the tables, once for an engine: sessions come and go with every request."""


class Database:
    """What is known of the database behind SQLAlchemy, and how a statement runs there."""

    def __init__(self, engine: Engine) -> None:
        dialect: Any = engine.dialect
        style = _STYLES.get(dialect.paramstyle)
        if dialect.name not in ("postgresql", "sqlite") or style is None:
            raise CallError(
                f"SQLAlchemy on {dialect.name}+{dialect.driver} is not supported; PostgreSQL and SQLite are"
            )
        self.is_postgres = dialect.name == "postgresql"
        ours: Any = SqliteDialect(style)
        if self.is_postgres:
            catalogue = _catalogues.setdefault(engine, Catalogue())
            version = (dialect.server_version_info or (0,))[0]
            ours = PostgresDialect(style, version, catalogue, lambda: not self.alone)
        self.dialect = ours
        self.programs = typed(Programs(ours), MappedTypes(dialect))
        self._sqlite = SqliteTransaction()
        self._began = False
        self.alone = False
        """Whether the last statement committed by itself."""

    def run(self, connection: Connection, statement: Statement) -> Rows:
        with self._translating(statement, connection):
            if self.is_postgres:
                refuse_escapes(setting_of(connection.connection.driver_connection))
            if statement.text in ("BEGIN", "COMMIT", "ROLLBACK"):
                self._control(connection, statement)
                return ()
            result = connection.exec_driver_sql(statement.text, tuple(statement.params) or None)
            return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()

    def commits(self, connection: Connection, statement: Statement) -> bool:
        """Whether a statement commits what it does."""
        alone = commits_by_itself(connection)
        return alone and (statement.text == "COMMIT" or not (self._began or statement.text == "BEGIN"))

    def _control(self, connection: Connection, statement: Statement) -> None:
        """SQLAlchemy's transaction is not ours to begin or end, one in AUTOCOMMIT is; SQLite's write lock is taken."""
        if self.is_postgres:
            if commits_by_itself(connection):
                connection.exec_driver_sql(statement.text)
            return
        raw: Any = connection.connection.driver_connection
        raw = getattr(raw, "_conn", raw)  # aiosqlite keeps the sqlite3 connection inside
        callers = raw.in_transaction or opens_by_itself(raw)
        for text in self._sqlite.texts(statement, callers):
            connection.exec_driver_sql(text)
        self._sqlite.ran(statement, callers)

    @contextmanager
    def _translating(self, statement: Statement, connection: Connection) -> Iterator[None]:
        self.alone = commits_by_itself(connection)
        final = self.commits(connection, statement)
        try:
            if final and self.is_postgres and not only_reads(statement.text):
                with confirming(connection.connection.driver_connection):
                    yield
            else:
                yield
            self._began = statement.text == "BEGIN" or (self._began and statement.text not in ("COMMIT", "ROLLBACK"))
        except exc.DBAPIError as error:
            original: Any = error.orig
            code = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
            if code in _CONFLICTS:
                raise Conflicted from error
            if not self.is_postgres and original is not None:
                translated = self._sqlite.translate(original, statement, callers=True)
                if translated is not original:
                    raise translated from error
            if final and error.connection_invalidated and self.is_postgres:
                raise AcknowledgementLost from error
            raise


def commits_by_itself(connection: Connection) -> bool:
    """Whether SQLAlchemy has the connection in AUTOCOMMIT."""
    default = connection.dialect._on_connect_isolation_level
    return bool(connection.get_execution_options().get("isolation_level", default) == "AUTOCOMMIT")


class SqlalchemyConnection(Driver):
    """A SQLAlchemy Connection."""

    def __init__(self, connection: Connection) -> None:
        self._database = Database(connection.engine)
        super().__init__(self._database.dialect)
        self.programs = self._database.programs
        self._connection = connection

    @property
    def settled(self) -> bool:
        return commits_by_itself(self._connection)

    @property
    def backend_pid(self) -> int | None:
        return backend_pid(self._connection.connection.driver_connection)

    def execute(self, statement: Statement) -> Rows:
        return self._database.run(self._connection, statement)


class AsyncSqlalchemyConnection(AsyncDriver):
    """A SQLAlchemy AsyncConnection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._database = Database(connection.sync_engine)
        super().__init__(self._database.dialect)
        self.programs = self._database.programs
        self._connection = connection

    @property
    def settled(self) -> bool:
        return False

    @property
    def backend_pid(self) -> int | None:
        plain = self._connection.sync_connection
        return None if plain is None else backend_pid(plain.connection.driver_connection)

    async def execute(self, statement: Statement) -> Rows:
        return await run_unbroken(self._database, self._connection, statement)


async def run_unbroken(database: Database, connection: AsyncConnection, statement: Statement) -> Rows:
    """Run a statement on an async connection; one that may commit is not cancelled."""
    running = connection.run_sync(database.run, statement)
    plain = connection.sync_connection
    if not database.is_postgres or plain is None or plain.closed or plain.invalidated:
        return await running
    if not database.commits(plain, statement) or only_reads(statement.text):
        return await running
    raw: Any = plain.connection.driver_connection
    return await unbroken(running, raw.terminate if hasattr(raw, "terminate") else raw.pgconn.finish)
