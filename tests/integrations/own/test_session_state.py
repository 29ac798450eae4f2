"""Nothing behind the caller's back (P15): no session state, no DDL, no thread; works behind a transaction pooler."""

import sqlite3
import threading
from typing import Any

import asyncpg
import psycopg

from raceproof import bind, column
from raceproof.declare import Spec
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import Caller, PostgresGround, SqliteGround
from raceproof.testing.contract.orders import orders


def prepared(ground: PostgresGround | SqliteGround) -> Spec[str]:
    order = orders(losers=True)
    ground.table(order)
    for key in "abc":
        ground.put(order, key, "NEW")
    return order


async def every_call(db: Caller, order: Spec[str], between: Any) -> None:
    """One of each, with something in between."""
    calls: list[Any] = [
        lambda: db.move(order.moves["pack"], "a"),
        lambda: db.move(order.moves["pack"], "a"),
        lambda: db.move(order.moves["pack"], "b", call="x"),
        lambda: db.move(order.moves["pack"], "b", call="x"),
        lambda: db.move_many(order.moves["pack"], ["a", "c"]),
        lambda: db.move_many(order.moves["send"], where=column("status") == "PACKED"),
        lambda: db.read(order, "a"),
        lambda: db.history(order, "a"),
        lambda: db.verify(order),
    ]
    for call in calls:
        await call()
        await between()


SESSION = (
    "SELECT (SELECT count(*) FROM pg_prepared_statements WHERE name <> ''), "
    "(SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()), "
    "(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'), "
    "(SELECT count(*) FROM pg_settings WHERE source = 'session' AND name <> 'application_name'), "
    "(SELECT count(*) FROM pg_listening_channels())"
)


async def test_asyncpg_behind_a_pooler_finds_a_new_session_each_time(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """DISCARD ALL between calls is what a transaction pooler does to a session; no call needs anything from before."""
    order = prepared(ground)
    connection: Any = await asyncpg.connect(postgres_server.url, statement_cache_size=0)
    before = await connection.fetchrow(SESSION)

    async def new_session() -> None:
        assert await connection.fetchrow(SESSION) == before
        await connection.execute("DISCARD ALL")

    await every_call(Caller(bind(connection)), order, new_session)
    await connection.close()


async def test_psycopg_behind_a_pooler_finds_a_new_session_each_time(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """The same with psycopg, told not to prepare."""
    order = prepared(ground)
    with psycopg.connect(postgres_server.url, autocommit=True, prepare_threshold=None) as connection:
        before = connection.execute(SESSION.encode()).fetchone()

        async def new_session() -> None:
            assert connection.execute(SESSION.encode()).fetchone() == before
            connection.execute("DISCARD ALL")

        await every_call(Caller(bind(connection)), order, new_session)


async def test_a_bound_sqlite_connection_is_left_as_it_was() -> None:
    """The same schema, settings, functions and threads as before."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    ground = SqliteGround(Caller(bind(connection)), lambda text, params=(): connection.execute(text, params).fetchall())
    order = prepared(ground)

    def state() -> list[Any]:
        pragmas = ("foreign_keys", "journal_mode", "synchronous", "busy_timeout", "recursive_triggers")
        return [
            ground.run("SELECT * FROM sqlite_master ORDER BY name"),
            ground.run("SELECT * FROM sqlite_temp_master"),
            [ground.run(f"PRAGMA {name}") for name in pragmas],
            ground.run("SELECT count(*) FROM pragma_function_list"),
            connection.row_factory,
            connection.isolation_level,
            connection.in_transaction,
            threading.active_count(),
        ]

    before = state()

    async def unchanged() -> None:
        assert state() == before

    await every_call(ground.db, order, unchanged)
    connection.close()
