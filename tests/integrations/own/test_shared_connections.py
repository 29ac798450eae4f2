"""One connection used by several tasks or threads, as psycopg allows: no call gets into another's transaction (P1, P15)."""

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row

from raceproof import AsyncStore, Moved, Store, bind
from raceproof.declare import Spec
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround
from raceproof.testing.contract.orders import orders
from tests.fix_waiting import until_blocked


def prepared(ground: PostgresGround) -> Spec[str]:
    """Two rows; the first one's packer is refused by the table."""
    order = orders(history=True)
    ground.table(order, {"packer": "text CHECK (packer <> 'bad')"})
    for key in "ab":
        ground.put(order, key, "NEW")
    return order


async def both_at_once(
    store: Store | AsyncStore, ground: PostgresGround, order: Spec[str], url: str
) -> tuple[object, object]:
    """The first call has begun its transaction and waits for its row, the second comes in behind it; then both go on."""
    pack = order.moves["pack"]

    async def move(key: str, packer: str, call: str | None) -> object:
        if isinstance(store, Store):
            return await asyncio.to_thread(store.move, pack, key, set={"packer": packer}, call=call)
        return await store.move(pack, key, set={"packer": packer}, call=call)

    with psycopg.connect(url) as rival:
        rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = 'a' FOR UPDATE".encode())
        first = asyncio.create_task(move("a", "bad", "once"))
        await until_blocked(ground.run, order.table)
        second = asyncio.create_task(move("b", "good", None))
        for _ in range(100):
            await asyncio.sleep(0)
        rival.rollback()
        return tuple(await asyncio.gather(first, second, return_exceptions=True))  # type: ignore[return-value]


async def test_a_failing_call_of_another_task_undoes_nothing_of_mine(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """Told moved is moved, although the other call's transaction on the same connection was rolled back."""
    order = prepared(ground)
    url = postgres_server.url
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        bad, good = await both_at_once(bind(connection), ground, order, url)
        assert isinstance(bad, psycopg.errors.CheckViolation)
        assert isinstance(good, Moved)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert [ground.get(order, key)["status"] for key in "ab"] == ["NEW", "PACKED"]


async def test_a_failing_call_of_another_thread_undoes_nothing_of_mine(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """The same for a sync connection that threads share."""
    order = prepared(ground)
    url = postgres_server.url
    with psycopg.connect(url, autocommit=True) as connection:
        bad, good = await both_at_once(bind(connection), ground, order, url)
        assert isinstance(bad, psycopg.errors.CheckViolation)
        assert isinstance(good, Moved)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert [ground.get(order, key)["status"] for key in "ab"] == ["NEW", "PACKED"]


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row])
def test_the_callers_row_factory_changes_nothing(
    ground: PostgresGround, postgres_server: PostgresServer, factory: Any
) -> None:
    """Rows come to the library as they are, and to the caller as they want them."""
    order = prepared(ground)
    with psycopg.connect(postgres_server.url, row_factory=factory) as connection:
        db = bind(connection)
        assert [db.move(order.moves["pack"], "a").outcome for _ in range(2)] == ["moved", "already"]
        assert [one.outcome for one in db.move_many(order.moves["pack"], ["a", "b"])] == ["already", "moved"]
        row = db.read(order, "a")
        assert row is not None
        assert row["status"] == "PACKED"
        assert type(connection.execute("SELECT 1 AS one").fetchone()) is not tuple
