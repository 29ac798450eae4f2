"""L4: a bulk locks its rows in the order of their keys, whatever order it was given them in."""

import asyncio

import asyncpg
import psycopg
import pytest

from raceproof import bind, column
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround
from raceproof.testing.contract.orders import orders
from tests.fix_waiting import until_blocked


@pytest.mark.parametrize("by", ["keys", "predicate"])
async def test_a_bulk_that_waits_for_a_row_holds_none_that_comes_after_it(
    ground: PostgresGround, postgres_server: PostgresServer, by: str
) -> None:
    """So two bulks can wait for each other in one direction only, and never deadlock."""
    order = orders()
    ground.table(order)
    for key in ("b", "c", "a"):
        ground.put(order, key, "NEW")
    pack = order.moves["pack"]
    connection = await asyncpg.connect(postgres_server.url)
    with psycopg.connect(postgres_server.url) as holder:
        holder.execute(f"SELECT 1 FROM {order.table} WHERE order_id = 'a' FOR UPDATE".encode())
        db = bind(connection)
        if by == "keys":
            waiting = asyncio.create_task(db.move_many(pack, ["c", "b", "a"]))
        else:
            waiting = asyncio.create_task(db.move_many(pack, where=column("rev") == 0))
        await until_blocked(ground.run, order.table)
        for key in ("b", "c"):
            ground.run(f"SELECT 1 FROM {order.table} WHERE order_id = '{key}' FOR UPDATE NOWAIT")
        holder.rollback()
    assert {answer.outcome for answer in await waiting} == {"moved"}
    await connection.close()
