"""Closing a store: what was asked before is answered, nothing stays open, and nothing opens it again (P15)."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from raceproof import Moved, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer, ValkeyServer
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, fresh_name
from raceproof.testing.contract.orders import orders
from tests.fix_waiting import DEADLINE, until

OUTCOMES = ("moved", "unknown", "conflict")


def prepared(ground: Ground, count: int = 60) -> Spec[str]:
    order = orders(history=True)
    ground.table(order)
    for number in range(count):
        ground.put(order, f"k{number}", "NEW")
    return order


async def test_calls_on_their_way_are_answered_when_the_store_is_closed(ground: Ground) -> None:
    """With an answer or a clear error, never with silence; who is told moved has moved."""
    order = prepared(ground)
    calls = [asyncio.create_task(ground.db.move(order.moves["pack"], f"k{number}")) for number in range(60)]
    for _ in range(3):
        await asyncio.sleep(0)
    async with asyncio.timeout(DEADLINE):
        await ground.db.close()
        answers = await asyncio.gather(*calls, return_exceptions=True)
    for number, answer in enumerate(answers):
        if isinstance(answer, BaseException):
            assert isinstance(answer, Exception), repr(answer)
            assert any(f"'k{number}'" in note for note in answer.__notes__)
        else:
            assert answer.outcome in OUTCOMES
            if isinstance(answer, Moved):
                assert ground.get(order, f"k{number}")["status"] == "PACKED"


async def test_a_closed_store_stays_closed(ground: Ground) -> None:
    """A call says so, and moves nothing; closing twice is no error."""
    order = prepared(ground, 2)
    assert isinstance(await ground.db.move(order.moves["pack"], "k0"), Moved)
    await ground.db.close()
    await ground.db.close()
    calls: list[Any] = [
        lambda: ground.db.move(order.moves["pack"], "k1"),
        lambda: ground.db.move_many(order.moves["pack"], ["k1"]),
        lambda: ground.db.read(order, "k1"),
    ]
    for call in calls:
        with pytest.raises(Exception, match="closed"):
            await call()
    assert ground.get(order, "k1")["status"] == "NEW"


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_a_closed_sync_store_stays_closed(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The same without asyncio."""
    url = f"sqlite:///{tmp_path}/closed.db"
    if kind != "sqlite":
        server = request.getfixturevalue("postgres_server" if kind == "postgres" else "valkey_server")
        url = server.url
    store = connect(url).open()
    store.close()
    store.close()
    order = orders()
    with pytest.raises(Exception, match="closed"):
        store.move(order.moves["pack"], "a")
    with pytest.raises(Exception, match="closed"):
        store.read(order, "a")


@pytest.mark.parametrize("busy", [False, True])
async def test_no_connection_to_postgresql_stays_open(postgres_server: PostgresServer, busy: bool) -> None:
    """Not even those of calls that were on their way."""
    name = fresh_name("closing")
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:

        def run(text: str, params: Any = None) -> list[tuple[Any, ...]]:
            cursor = admin.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

        def sessions() -> int:
            ((count,),) = run(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'")
            return int(count)

        async with connect(postgres_server.url, server_settings={"application_name": name}) as db:
            order = prepared(PostgresGround(Caller(db), run))
            await asyncio.gather(*(db.move(order.moves["pack"], f"k{number}") for number in range(30)))
            assert sessions() > 0
            calls = [asyncio.create_task(db.move(order.moves["pack"], f"k{number}")) for number in range(60)]
            if busy:
                await asyncio.sleep(0)
            else:
                await asyncio.gather(*calls)
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: sessions() == 0, "all sessions are gone")


async def test_no_connection_to_redis_stays_open(valkey_server: ValkeyServer) -> None:
    """The one warm connection goes with the store."""
    name = fresh_name("closing")
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as beside:

        def clients() -> int:
            listed: Any = beside.client_list()
            return sum(client["name"] == name for client in listed)

        async with connect(valkey_server.url, client_name=name) as db:
            await asyncio.gather(*(db.move(orders().moves["pack"], f"k{number}") for number in range(30)))
            assert clients() == 1
        await until(lambda: clients() == 0, "the connection is gone")


async def test_no_thread_of_sqlite_stays(tmp_path: Path) -> None:
    """The writer ends with the store, and the file can be moved away."""
    before = set(threading.enumerate())

    def writers() -> list[str]:
        """Of this store: other tests may have one open that outlasts them."""
        new = set(threading.enumerate()) - before
        return [thread.name for thread in new if thread.name.startswith("raceproof")]

    async with connect(f"sqlite:///{tmp_path}/threads.db"):
        assert writers()
    assert not writers()
    assert len(set(threading.enumerate()) - before) <= 1  # one of asyncio's own, which it keeps
