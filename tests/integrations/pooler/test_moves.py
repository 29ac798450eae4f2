"""P15: no session state. Between two calls the session is wiped, as a transaction pooler may hand it to somebody else."""

from typing import Any

import asyncpg
import psycopg
import pytest

from raceproof import AsyncStore, Store, bind, column
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround, fresh_name
from raceproof.testing.contract.orders import orders

LEFT_BEHIND = """
SELECT (SELECT count(*) FROM pg_prepared_statements)
     + (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')
     + (SELECT count(*) FROM pg_class WHERE relpersistence = 't')
"""


def prepare(url: str) -> Any:
    order = orders(history=True, name=fresh_name("Order"))
    with psycopg.connect(url, autocommit=True) as admin:

        def run(text: str, params: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
            cursor = admin.execute(text, params)
            return cursor.fetchall() if cursor.description else []

        ground = PostgresGround(None, run)  # type: ignore[arg-type]
        ground.table(order)
        for key in "abcdef":
            ground.put(order, key, "NEW")
    return order


async def test_every_asyncpg_call_stands_alone(postgres_server: PostgresServer) -> None:
    """With the statement cache off, as poolers want it, nothing is left in the session and nothing is missed there."""
    order = prepare(postgres_server.url)
    connection = await asyncpg.connect(postgres_server.url, statement_cache_size=0)
    db: AsyncStore = bind(connection)
    pack, send = order.moves["pack"], order.moves["send"]
    for _ in range(2):
        await db.move(pack, "a", by="ann")
        assert await connection.fetchval(LEFT_BEHIND) == 0
        await connection.execute("DISCARD ALL")
    await db.move(pack, "b", call="call-1")
    await connection.execute("DISCARD ALL")
    answer = await db.move(pack, "b", call="call-1")
    assert answer.won
    await connection.execute("DISCARD ALL")
    assert [a.outcome for a in await db.move_many(pack, ["c", "a"])] == ["moved", "already"]
    await connection.execute("DISCARD ALL")
    assert len(await db.move_many(send, where=column("rev") == 1)) == 3
    assert await connection.fetchval(LEFT_BEHIND) == 0
    assert not connection.is_in_transaction()
    await connection.close()


@pytest.mark.parametrize("threshold", [None, 5])
def test_every_psycopg_call_stands_alone(postgres_server: PostgresServer, threshold: int | None) -> None:
    """Prepared statements are the connection's own choice, never ours."""
    order = prepare(postgres_server.url)
    with psycopg.connect(postgres_server.url, autocommit=True, prepare_threshold=threshold) as connection:
        db: Store = bind(connection)
        for key in "abc":
            assert db.move(order.moves["pack"], key).won
            assert connection.execute(LEFT_BEHIND).fetchone() == (0,)
            connection.execute("DISCARD ALL")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
