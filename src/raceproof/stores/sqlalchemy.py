"""SQLAlchemy 2: Connection and Session, AsyncConnection and AsyncSession, on PostgreSQL and SQLite.

Statements go through `exec_driver_sql`, so SQLAlchemy's own transaction begins and ends as its owner says. In a session
a change of the guarded column that is not flushed yet is refused, because the flush would overwrite the move; after
a move the loaded object forgets the columns that it wrote.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import exc, inspect
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from raceproof.driver import AsyncDriver, Driver, Moves
from raceproof.errors import CallError
from raceproof.moves import MoveRequest, PostgresMoves, SqliteMoves
from raceproof.outcome import Answer
from raceproof.quoting import split_qualified
from raceproof.statement import Conflicted, Rows, Statement, Style
from raceproof.stores.sqlite import SqliteTransaction, opens_by_itself

_STYLES: dict[str, Style] = {
    "numeric_dollar": "dollar",
    "qmark": "question",
    "pyformat": "format",
    "format": "format",
}
_CONFLICTS = ("40001", "40P01")


class _Dialect:
    """What is known of the database behind SQLAlchemy."""

    def __init__(self, dialect: Any) -> None:
        style = _STYLES.get(dialect.paramstyle)
        if dialect.name not in ("postgresql", "sqlite") or style is None:
            raise CallError(
                f"SQLAlchemy on {dialect.name}+{dialect.driver} is not supported; PostgreSQL and SQLite are"
            )
        self.name = "postgres" if dialect.name == "postgresql" else "sqlite"
        self.moves: Moves
        if self.name == "postgres":
            self.moves = PostgresMoves(style, (dialect.server_version_info or (0,))[0])
        else:
            self.moves = SqliteMoves(style)
        self.sqlite = SqliteTransaction()

    def run(self, connection: Connection, statement: Statement) -> Rows:
        with self.translating(statement):
            if statement.text in ("BEGIN", "COMMIT", "ROLLBACK"):
                self._control(connection, statement)
                return ()
            result = connection.exec_driver_sql(statement.text, tuple(statement.params) or None)
            return [tuple(row) for row in result.fetchall()] if result.returns_rows else ()

    def _control(self, connection: Connection, statement: Statement) -> None:
        """On PostgreSQL the transaction is SQLAlchemy's: nothing to begin or end. On SQLite the write lock is taken."""
        if self.name == "postgres":
            return
        raw: Any = connection.connection.driver_connection
        raw = getattr(raw, "_conn", raw)  # aiosqlite keeps the sqlite3 connection inside
        callers = raw.in_transaction or opens_by_itself(raw)
        for text in self.sqlite.texts(statement, callers):
            connection.exec_driver_sql(text)
        self.sqlite.ran(statement, callers)

    @contextmanager
    def translating(self, statement: Statement) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            original: Any = error.orig
            code = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
            if code in _CONFLICTS:
                raise Conflicted from error
            if self.name == "sqlite" and original is not None:
                translated = self.sqlite.translate(original, statement, callers=True)
                if translated is not original:
                    raise translated from error
            raise


class SqlalchemyConnection(Driver):
    """A SQLAlchemy Connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dialect = _Dialect(connection.dialect)
        self.dialect, self.moves = self._dialect.name, self._dialect.moves

    @property
    def settled(self) -> bool:
        return False

    def execute(self, statement: Statement) -> Rows:
        return self._dialect.run(self._connection, statement)


class SqlalchemySession(Driver):
    """A SQLAlchemy Session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._dialect = _Dialect(session.get_bind().dialect)
        self.dialect, self.moves = self._dialect.name, self._dialect.moves

    @property
    def settled(self) -> bool:
        return False

    def execute(self, statement: Statement) -> Rows:
        return self._dialect.run(self._session.connection(), statement)

    def move(self, request: MoveRequest) -> Answer[Any, Any]:
        _refuse_pending_change(self._session, request)
        answer = super().move(request)
        _forget(self._session, request)
        return answer


class AsyncSqlalchemyConnection(AsyncDriver):
    """A SQLAlchemy AsyncConnection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._dialect = _Dialect(connection.dialect)
        self.dialect, self.moves = self._dialect.name, self._dialect.moves

    @property
    def settled(self) -> bool:
        return False

    async def execute(self, statement: Statement) -> Rows:
        return await self._connection.run_sync(self._dialect.run, statement)


class AsyncSqlalchemySession(AsyncDriver):
    """A SQLAlchemy AsyncSession."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._dialect = _Dialect(session.get_bind().dialect)
        self.dialect, self.moves = self._dialect.name, self._dialect.moves

    @property
    def settled(self) -> bool:
        return False

    async def execute(self, statement: Statement) -> Rows:
        connection = await self._session.connection()
        return await connection.run_sync(self._dialect.run, statement)

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        _refuse_pending_change(self._session.sync_session, request)
        answer = await super().move(request)
        _forget(self._session.sync_session, request)
        return answer


def _loaded(session: Session, request: MoveRequest) -> Iterator[Any]:
    """The state of objects in the session that are this row (new ones, which have no key yet, included)."""
    spec = request.move.lifecycle
    for instance in (*session.identity_map.values(), *session.new):
        state = inspect(instance)
        if not _is_table(state.mapper.local_table, spec.table):
            continue
        wanted = dict(zip(spec.key_columns, request.parts, strict=True))
        names = {
            column.name: state.mapper.get_property_by_column(column).key
            for column in state.mapper.local_table.columns
        }
        if all(
            name not in names or str(state.dict.get(names[name], part)) == str(part)
            for name, part in wanted.items()
        ):
            yield state, names


def _is_table(table: Any, name: str) -> bool:
    *schema, bare = split_qualified(name)
    return bool(table.name == bare and (not schema or table.schema is None or table.schema == schema[-1]))


def _refuse_pending_change(session: Session, request: MoveRequest) -> None:
    column = request.move.lifecycle.column
    for state, names in _loaded(session, request):
        if (
            column in names
            and names[column] in state.dict
            and state.attrs[names[column]].history.has_changes()
        ):
            raise CallError(
                f"{request.move}: the session holds a change of {column} of {request.key!r} that is not flushed and would "
                "overwrite the move; take the assignment out, or expire the object first"
            )


def _forget(session: Session, request: MoveRequest) -> None:
    spec, move = request.move.lifecycle, request.move
    written = {spec.column, spec.revision, *move.stamp, *request.set}
    for state, names in _loaded(session, request):
        if state.persistent:
            session.expire(state.object, [names[column] for column in written if column in names])
