"""Stores to run the contract on: how to make a table, and how to write and read rows without the library.

A test calls the library through `ground.db` and looks at the result through the ground. Choose a ready-made ground for
your database, or write one with the methods of `Ground`.
"""

import inspect
import itertools
import os
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from raceproof import AsyncStore, Inbox, Lease, Store
from raceproof.declare import Claimable, Spec
from raceproof.declare import claim_forms as forms
from raceproof.kernel.keys import key_text
from raceproof.kernel.quoting import identifier, qualified
from raceproof.ops.verify import Finding, verify
from raceproof.schema import Dialect, ddl

_numbers = itertools.count(1)

Columns = dict[str, str]


def fresh_name(base: str = "rows") -> str:
    """A table name that no other test uses."""
    return f"{base}_{os.getpid()}_{next(_numbers)}"


class Caller:
    """A sync or async store whose calls are always awaited, so that one test serves both."""

    def __init__(self, store: Store | AsyncStore) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.store, name)

        async def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return call

    async def verify(self, declared: Any) -> list[Finding]:
        found: Any = verify(self.store, declared)
        result: list[Finding] = await found if inspect.isawaitable(found) else found
        return result

    def for_tenant(self, tenant: Any) -> "Caller":
        return Caller(self.store.for_tenant(tenant))


class Ground(Protocol):
    """One store: `db` calls it through the library, the methods go around the library."""

    db: Caller

    @property
    def searches(self) -> bool:
        """Whether the store finds and sorts rows by any column. Redis does not."""

    def table(self, spec: Spec[Any], types: Columns | None = None) -> None:
        """Make the table of a lifecycle, and its history; `types` are those of other columns."""

    def lease_table(self, table: str) -> None:
        """Make a table of leases."""

    def inbox_table(self, inbox: Inbox) -> None:
        """Make the table of an inbox."""

    def put(self, spec: Spec[Any], key: Any, status: str, **columns: Any) -> None:
        """Insert a row."""

    def get(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        """The columns that the library writes: as text, or None for NULL."""

    def remove(self, spec: Spec[Any], key: Any) -> None:
        """Delete a row."""


class SqlGround:
    """A SQL database. `run(text, params)` runs one statement, commits it and returns its rows.

    `run` needs a connection of its own: through the library's connection it would see what was never committed. A
    subclass names the database's types and the placeholder that `run` takes.
    """

    dialect: Dialect
    number = "bigint"
    time: str
    mark: str
    searches = True

    def __init__(self, db: Caller, run: Callable[..., list[tuple[Any, ...]]]) -> None:
        self.db = db
        self.run = run

    def table(self, spec: Spec[Any], types: Columns | None = None) -> None:
        kinds = dict.fromkeys((*spec.key_columns, spec.column), "text")
        for one in spec.moves.values():
            kinds |= dict.fromkeys(one.stamp, self.time) | dict.fromkeys(one.sets, "text")
        kinds |= {column: self.number for column in (spec.revision, spec.fence) if column}
        for claim in spec.claims.values():
            kinds |= self._claim_columns(claim)
        kinds |= types or {}
        listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in kinds.items())
        keys = ", ".join(identifier(column) for column in spec.key_columns)
        self.run(f"CREATE TABLE {qualified(spec.table)} ({listed}, PRIMARY KEY ({keys}))")
        for statement in ddl(spec, dialect=self.dialect, only="tables"):
            self.run(statement)

    def lease_table(self, table: str) -> None:
        for statement in ddl(Lease("any", table=table), dialect=self.dialect):
            self.run(statement)

    def inbox_table(self, inbox: Inbox) -> None:
        for statement in ddl(inbox, dialect=self.dialect):
            self.run(statement)

    def _claim_columns(self, claim: Claimable[Any]) -> Columns:
        match claim.form:
            case forms.ClaimColumns(holder=holder, until=until, fence=fence):
                kinds = {holder: "text", until: self.time, fence: self.number}
            case forms.TimestampClaim(column=column):
                kinds = {column: self.time}
            case forms.TextMarker(column=column):
                kinds = {column: "text"}
        kinds |= {claim.attempts: "integer"} if claim.attempts else {}
        return kinds | ({claim.not_before: self.time} if claim.not_before else {})

    def put(self, spec: Spec[Any], key: Any, status: str, **columns: Any) -> None:
        values = {**self._key(spec, key), spec.column: status, **columns}
        if spec.revision:
            values.setdefault(spec.revision, 0)
        names = ", ".join(self._text(identifier(name)) for name in values)
        marks = ", ".join(self.mark for _ in values)
        table = self._text(qualified(spec.table))
        self.run(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(map(self._value, values.values())))

    def get(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        columns = sorted({spec.column, *self._written(spec)})
        names = ", ".join(self._text(identifier(name)) for name in columns)
        where = " AND ".join(f"{self._text(identifier(name))} = {self.mark}" for name in spec.key_columns)
        text = f"SELECT {names} FROM {self._text(qualified(spec.table))} WHERE {where}"
        (row,) = self.run(text, tuple(map(self._value, self._key(spec, key).values())))
        return {name: None if value is None else str(value) for name, value in zip(columns, row, strict=True)}

    def remove(self, spec: Spec[Any], key: Any) -> None:
        where = " AND ".join(f"{self._text(identifier(name))} = {self.mark}" for name in spec.key_columns)
        text = f"DELETE FROM {self._text(qualified(spec.table))} WHERE {where}"
        self.run(text, tuple(map(self._value, self._key(spec, key).values())))

    def _text(self, quoted: str) -> str:
        """A quoted name, escaped for this placeholder style."""
        return quoted.replace("%", "%%") if self.mark == "%s" else quoted

    def _written(self, spec: Spec[Any]) -> set[str]:
        columns = {column for one in spec.moves.values() for column in (*one.stamp, *one.sets)}
        return columns | {column for column in (spec.revision, spec.fence) if column} | claim_columns(spec)

    def _key(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        parts = key if isinstance(key, tuple) else (key,)
        return dict(zip(spec.key_columns, parts, strict=True))

    def _value(self, value: Any) -> Any:
        return value


class PostgresGround(SqlGround):
    """PostgreSQL, with the placeholders of psycopg."""

    dialect: Dialect = "postgres"
    time = "timestamptz"
    mark = "%s"


class SqliteGround(SqlGround):
    """SQLite, with the placeholders of the standard library."""

    dialect: Dialect = "sqlite"
    time = "text"
    mark = "?"

    def _value(self, value: Any) -> Any:
        return str(value) if isinstance(value, UUID) else value


class RedisGround:
    """Redis or Valkey, where rows are hashes and need no table. `client` decodes its answers."""

    searches = False

    def __init__(self, db: Caller, client: Any) -> None:
        self.db = db
        self._client = client

    def table(self, spec: Spec[Any], types: Columns | None = None) -> None:
        """A hash needs no table."""

    def lease_table(self, table: str) -> None:
        """A lease needs no table."""

    def inbox_table(self, inbox: Inbox) -> None:
        """An inbox needs no table."""

    def put(self, spec: Spec[Any], key: Any, status: str, **columns: Any) -> None:
        parts = key if isinstance(key, tuple) else (key,)
        fields = dict(zip(spec.key_columns, map(str, parts), strict=True)) | {spec.column: status}
        if spec.revision:
            fields[spec.revision] = "0"
        fields |= {name: str(value) for name, value in columns.items() if value is not None}
        self._client.hset(f"{spec.table}:{key_text(parts)}", mapping=fields)

    def get(self, spec: Spec[Any], key: Any) -> dict[str, Any]:
        parts = key if isinstance(key, tuple) else (key,)
        found = self._client.hgetall(f"{spec.table}:{key_text(parts)}")
        columns = {column for one in spec.moves.values() for column in (*one.stamp, *one.sets)}
        columns |= {column for column in (spec.column, spec.revision, spec.fence) if column} | claim_columns(spec)
        return {name: found.get(name) for name in sorted(columns)}

    def remove(self, spec: Spec[Any], key: Any) -> None:
        self._client.delete(f"{spec.table}:{key_text(key if isinstance(key, tuple) else (key,))}")


def claim_columns(spec: Spec[Any]) -> set[str]:
    """The columns that claims of a lifecycle write."""
    columns: set[str] = set()
    for claim in spec.claims.values():
        columns |= {*forms.form_columns(claim.form), *(c for c in (claim.attempts, claim.not_before) if c)}
    return columns
