"""A store from `connect` leaves a primary that takes no writes any more, and finds the new one (P13)."""

import asyncio
from itertools import count
from typing import Any

import asyncpg
import psycopg
import pytest

from raceproof import AsyncStore, Store, connect
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.orders import orders
from tests.fix_told import notes_of, told
from tests.fix_waiting import DEADLINE
from tests.promises.standby.fix_standby import Pair

READ_ONLY = (asyncpg.ReadOnlySQLTransactionError, psycopg.errors.ReadOnlySqlTransaction)
ROWS = 200


class Shop:
    """Rows to move, one for each call."""

    def __init__(self, pair: Pair, db: Store | AsyncStore) -> None:
        self.order: Spec[str] = orders()
        ground = PostgresGround(None, pair.run)  # type: ignore[arg-type]
        ground.table(self.order)
        pair.run(
            f"INSERT INTO {self.order.table} (order_id, status, rev) "
            f"SELECT 'k' || n, 'NEW', 0 FROM generate_series(1, {ROWS}) AS n"
        )
        self.db = Caller(db)
        self._keys = count(1)

    async def move(self) -> Any:
        return await told(self.db.move(self.order.moves["pack"], f"k{next(self._keys)}"))

    async def move_until_refused(self) -> BaseException:
        """Each session learns of the reload in its own time."""
        async with asyncio.timeout(DEADLINE):
            while True:
                answer = await self.move()
                if isinstance(answer, BaseException):
                    return answer
                assert answer.outcome == "moved"


def demote(pair: Pair) -> None:
    """Make the primary read-only, and the standby the primary."""
    pair.run("ALTER SYSTEM SET default_transaction_read_only = on")
    pair.run("SELECT pg_reload_conf()")
    pair.link.cut()
    pair.standby.promote()


@pytest.mark.parametrize("how", ["alone", "together"])
async def test_an_async_store_leaves_a_primary_that_became_read_only(mortal_pair: Pair, how: str) -> None:
    """One call learns of it, and all its connections are to the new primary from then on."""
    async with connect(mortal_pair.url) as db:
        shop = Shop(mortal_pair, db)
        answers = await asyncio.gather(*(shop.move() for _ in range(5)))
        assert {one.outcome for one in answers} == {"moved"}
        await asyncio.gather(*(db.read(shop.order, "k1") for _ in range(4)))  # each opens a connection
        await asyncio.to_thread(demote, mortal_pair)
        refused = await shop.move_until_refused()
        assert isinstance(refused, READ_ONLY)
        assert "takes no writes" in notes_of(refused)
        if how == "alone":
            answers = [await shop.move() for _ in range(5)]
        else:
            answers = await asyncio.gather(*(shop.move() for _ in range(5)))
        assert [str(one.outcome) for one in answers] == ["moved"] * 5


async def test_a_sync_store_leaves_a_primary_that_became_read_only(mortal_pair: Pair) -> None:
    """One call learns of it, and the next one is made on the new primary."""
    with connect(mortal_pair.url) as db:
        shop = Shop(mortal_pair, db)
        assert (await shop.move()).outcome == "moved"
        await asyncio.to_thread(demote, mortal_pair)
        refused = await shop.move_until_refused()
        assert isinstance(refused, READ_ONLY)
        assert "takes no writes" in notes_of(refused)
        assert [(await shop.move()).outcome for _ in range(3)] == ["moved"] * 3
