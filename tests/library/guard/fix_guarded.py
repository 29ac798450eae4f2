"""A table with guards in it, on PostgreSQL and on SQLite, and raw SQL on it."""

import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg

from raceproof import Lifecycle, Store, bind
from raceproof.declare import Spec
from raceproof.schema.guards import drop_statements
from raceproof.testing.contract.grounds import Caller, PostgresGround, SqlGround, SqliteGround
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.ddl import script

Rows = list[tuple[Any, ...]]
STATUSES: tuple[str, ...] = tuple(DECLARATION["statuses"])


class Guarded:
    """A database: raw SQL, guards to install, and the library on the same connection."""

    dialect: Any
    Refusal: type[Exception]

    def __init__(self, store: Store, ground: SqlGround) -> None:
        self.db = store
        self.ground = ground
        self.run = ground.run

    def script(self, text: str) -> None:
        """Several statements at once."""
        raise NotImplementedError

    def table(self, order: Spec[str] | None = None, types: dict[str, str] | None = None) -> Spec[str]:
        """An empty table for a lifecycle, without guards."""
        order = order or orders(history=True)
        self.ground.table(order, types)
        return order

    def install(self, order: Spec[str]) -> Spec[str]:
        self.script(script(order, dialect=self.dialect, only="guards"))
        return order

    def drop(self, order: Spec[str]) -> None:
        self.script(script(order, dialect=self.dialect, drop_guards=True))

    def drop_triggers(self, order: Spec[str]) -> None:
        """As a migration does it that knows nothing of us: what does not hang on the table stays."""
        for statement in drop_statements(order, self.dialect):
            if statement.startswith("DROP TRIGGER"):
                self.script(statement)

    def guarded(self, order: Spec[str] | None = None, types: dict[str, str] | None = None) -> Spec[str]:
        """A table with its guards and a row at every status, `at-NEW` and so on, put there before the guards."""
        order = self.table(order, types)
        for status in order.statuses:
            self.ground.put(order, f"at-{status}", status)
        return self.install(order)

    def status(self, order: Spec[str], key: str) -> str | None:
        found: str | None = self.ground.get(order, key)["status"]
        return found

    def update(self, order: Spec[str], key: str, status: str | None) -> Rows:
        """Raw SQL, as anybody may write it."""
        value = "NULL" if status is None else f"'{status}'"
        return self.run(f"UPDATE {order.table} SET status = {value} WHERE order_id = '{key}'")

    def insert(self, order: Spec[str], key: str, status: str | None) -> Rows:
        value = "NULL" if status is None else f"'{status}'"
        return self.run(f"INSERT INTO {order.table} (order_id, status, rev) VALUES ('{key}', {value}, 0)")

    def override(self, order: Spec[str], reason: str) -> None:
        """Say an override, inside a transaction."""
        raise NotImplementedError

    def overrides(self, order: Spec[str]) -> Rows:
        """What the history has kept of overrides."""
        assert order.history is not None
        return self.run(
            f"SELECT key, outcome, before, after, reason FROM {order.history.table} WHERE move = 'override' ORDER BY id"
        )


class GuardedPostgres(Guarded):
    """PostgreSQL through psycopg in autocommit."""

    dialect = "postgres"
    Refusal = psycopg.errors.CheckViolation

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        def run(text: str, params: Any = None) -> Rows:
            cursor = connection.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

        store = bind(connection)
        super().__init__(store, PostgresGround(Caller(store), run))
        self.connection = connection

    def script(self, text: str) -> None:
        self.run(text)

    def override(self, order: Spec[str], reason: str) -> None:
        self.run(f"SET LOCAL raceproof.override = '{reason}'")


class GuardedSqlite(Guarded):
    """SQLite through the standard module without transactions of its own."""

    dialect = "sqlite"
    Refusal = sqlite3.IntegrityError

    def __init__(self, connection: sqlite3.Connection) -> None:
        store = bind(connection)
        run: Callable[..., Rows] = lambda text, params=(): connection.execute(text, params).fetchall()  # noqa: E731
        super().__init__(store, SqliteGround(Caller(store), run))
        self.connection = connection

    def script(self, text: str) -> None:
        self.connection.executescript(text)

    def override(self, order: Spec[str], reason: str) -> None:
        self.run(
            "INSERT INTO raceproof_override (lifecycle, actor, reason) VALUES (?, 'me', ?)",
            (order.name, reason),
        )


def declared(order: Spec[str]) -> set[tuple[str, str]]:
    """The pairs of statuses that some move connects."""
    return {(source, one.target) for one in order.moves.values() for source in one.sources}


def renamed(order: Spec[str], **changes: Any) -> Spec[str]:
    """The same declaration with changes, as somebody would edit it later."""
    return Lifecycle.from_dict({**order.to_dict(), **changes})
