"""A connection on which nothing is heard any more costs the call that was on it, and not the store (P13, P14; L11)."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio

from raceproof import AsyncStore, bind, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer, ValkeyServer
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.orders import orders
from tests.fix_waiting import until
from tests.promises.faults.fix_cancel import cancelled_at

_names = count(1)
PATIENCE = 0.3


class Shop:
    """A store whose sessions can be told from those of others, and a row to move for each call."""

    def __init__(self, server: PostgresServer, db: AsyncStore, name: str) -> None:
        self.db = db
        self._name = name
        self._beside = psycopg.connect(server.url, autocommit=True)
        self.ground = PostgresGround(Caller(db), self._run)
        self.order: Spec[str] = orders(history=True)
        self.ground.table(self.order)
        self._keys = count(1)

    def _run(self, text: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        cursor = self._beside.execute(text, values or None)
        return cursor.fetchall() if cursor.description else []

    async def move(self) -> str:
        """Move a row that is new."""
        key = f"k{next(self._keys)}"
        self.ground.put(self.order, key, "NEW")
        return (await self.db.move(self.order.moves["pack"], key)).outcome

    async def move_some(self) -> list[str]:
        """Several at once, which share statements."""
        return await asyncio.gather(*[self.move() for _ in range(5)])

    def sessions(self) -> list[int]:
        found = self._run(f"SELECT pid FROM pg_stat_activity WHERE application_name = '{self._name}'")
        return [pid for (pid,) in found]

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """Nobody answers on the sessions that there are; others can be had."""
        pids = self.sessions()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            self.close()

    def close(self) -> None:
        self._beside.close()


@pytest.mark.parametrize("how", ["alone", "together", "searching"])
async def test_who_gives_up_on_a_dead_connection_leaves_it_to_nobody(postgres_server: PostgresServer, how: str) -> None:
    """The next call has a connection that answers, also where calls share one."""
    name = f"hanging-{next(_names)}"
    async with connect(postgres_server.url, server_settings={"application_name": name}) as db:
        shop = Shop(postgres_server, db, name)
        calls: dict[str, Callable[[], Any]] = {
            "alone": shop.move,
            "together": shop.move_some,
            "searching": lambda: db.history(shop.order, "k1"),
        }
        call = calls[how]
        expected = await call()
        with shop.deaf():
            for _ in shop.sessions():  # each that is dead may cost one call
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE):
                        await call()
            async with asyncio.timeout(10):
                assert await call() == expected


async def test_whatever_a_dead_connection_raises_it_is_closed_and_nobody_hears_of_it(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what asyncpg raises of a connection that is closed under it: an AttributeError."""
    unheard: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(told))
    asking = asyncpg.Connection.fetchval

    async def closed_under_it(self: Any, query: str, *rest: Any, **options: Any) -> Any:
        if query == "SELECT 1":
            raise AttributeError("'NoneType' object has no attribute 'bind_execute'")
        return await asking(self, query, *rest, **options)

    monkeypatch.setattr(asyncpg.Connection, "fetchval", closed_under_it)
    name = f"hanging-{next(_names)}"
    async with connect(postgres_server.url, server_settings={"application_name": name}) as db:
        shop = Shop(postgres_server, db, name)
        await db.history(shop.order, "k1")
        before = set(shop.sessions())
        assert await cancelled_at(db.history(shop.order, "k1"), 1)
        await until(lambda: not before <= set(shop.sessions()), "it is closed")
        assert await shop.move() == "moved"
        shop.close()
    gc.collect()
    assert not unheard


@pytest.mark.parametrize("kind", ["bound", "one-connection", "connect"])
async def test_a_cancellation_is_never_forgotten_on_redis(valkey_server: ValkeyServer, kind: str) -> None:
    """Also if it comes while the client sends: who was asked to end does not go on to the next call."""
    order = orders()
    beside = redis.Redis.from_url(valkey_server.url)
    beside.hset(f"{order.table}:a", mapping={"status": "NEW", "rev": 0})
    went_on: list[int] = []

    async def call(store: AsyncStore, number: int) -> None:
        await store.move(order.moves["take_back"], "a")
        for _ in range(3):
            await asyncio.sleep(0)
        went_on.append(number)

    async def each(store: AsyncStore) -> None:
        for _ in range(10):
            for suspension in range(1, 100):
                if not await cancelled_at(call(store, suspension), suspension):
                    break
                assert not went_on, "the cancellation was forgotten"
            assert went_on
            went_on.clear()

    if kind == "connect":
        async with connect(valkey_server.url) as store:
            await each(store)
    else:
        one = kind == "one-connection"
        async with redis.asyncio.Redis.from_url(valkey_server.url, single_connection_client=one) as own:
            await each(bind(own))
    beside.close()
