"""A server that hangs is not like one that is down: every wait has a deadline, and what may have committed is unknown."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
import redis

from raceproof import bind, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer, ValkeyServer, postgres, valkey
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.orders import orders
from tests.fix_beside import runner
from tests.fix_told import told
from tests.fix_waiting import DEADLINE, until_blocked

SOON = 1.5
KEYS = tuple(f"k{number}" for number in range(20))


@pytest.fixture(scope="module")
def _mortal() -> Iterator[PostgresServer]:
    with postgres() as server:
        yield server


@pytest.fixture
def mortal(_mortal: PostgresServer) -> Iterator[PostgresServer]:
    """A PostgreSQL that a test may freeze."""
    yield _mortal
    _mortal.resume()


@pytest.fixture
def mortal_valkey() -> Iterator[ValkeyServer]:
    """A Valkey that a test may freeze."""
    with valkey() as server:
        yield server


def prepared(server: PostgresServer) -> Spec[str]:
    """Orders on a table of their own."""
    order = orders(history=True)
    with psycopg.connect(server.url, autocommit=True) as admin:
        ground = PostgresGround(None, runner(admin))  # type: ignore[arg-type]
        ground.table(order)
        for key in KEYS:
            ground.put(order, key, "NEW")
    return order


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_call_to_a_frozen_server_is_unknown_and_the_store_recovers(mortal: PostgresServer, kind: str) -> None:
    """The first call may have committed; those after it end as well, and afterwards all of them can be asked again."""
    order = prepared(mortal)
    connecting = connect(mortal.url, connect_timeout=SOON, command_timeout=SOON)
    store = Caller(connecting.open() if kind == "sync" else await connecting)
    try:
        await store.move(order.moves["pack"], KEYS[0])
        mortal.pause()
        async with asyncio.timeout(DEADLINE * 3):
            first = await told(store.move(order.moves["pack"], KEYS[1]))
            second = await told(store.move(order.moves["pack"], KEYS[2], call="second"))
        assert first.outcome == "unknown", first
        assert isinstance(second, TimeoutError | psycopg.OperationalError), second
        mortal.resume()
        async with asyncio.timeout(DEADLINE):
            assert (await store.move(order.moves["pack"], KEYS[1], call=first.call)).outcome == "moved"
            assert (await store.move(order.moves["pack"], KEYS[2], call="second")).outcome == "moved"
    finally:
        mortal.resume()
        await store.close()


async def test_many_calls_to_a_frozen_server_all_end(mortal: PostgresServer) -> None:
    """Neither those that share a statement nor those that wait for a place wait for ever; afterwards each row moves once."""
    order = prepared(mortal)
    async with connect(mortal.url, connect_timeout=SOON, command_timeout=SOON) as db:
        await db.read(order, KEYS[0])
        mortal.pause()
        async with asyncio.timeout(DEADLINE * 3):
            moved = [told(db.move(order.moves["pack"], key)) for key in KEYS]
            read = [told(db.read(order, key)) for key in KEYS]
            answers = await asyncio.gather(*moved, *read)
        for answer in answers:
            assert isinstance(answer, Exception) or answer.outcome == "unknown", answer
        mortal.resume()
        async with asyncio.timeout(DEADLINE):
            again = await asyncio.gather(*(db.move(order.moves["pack"], key) for key in KEYS))
        assert {one.outcome for one in again} <= {"moved", "already"}
        assert {(await db.read(order, key) or {})["rev"] for key in KEYS} == {1}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_connecting_to_a_frozen_server_ends(mortal: PostgresServer, kind: str) -> None:
    """The system accepts the connection in the server's name; nothing more is heard."""
    mortal.pause()
    connecting = connect(mortal.url, connect_timeout=SOON)
    try:
        async with asyncio.timeout(DEADLINE):
            if kind == "sync":
                with pytest.raises(psycopg.OperationalError, match="timeout"):
                    await asyncio.to_thread(connecting.open)
            else:
                with pytest.raises(TimeoutError, match="has not answered within"):
                    await connecting
    finally:
        mortal.resume()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_host_that_hangs_does_not_hide_the_next_one(
    mortal: PostgresServer, postgres_server: PostgresServer, kind: str
) -> None:
    """Each host of a URL has its own deadline."""
    order = prepared(postgres_server)
    hosts = f"127.0.0.1:{mortal.port},127.0.0.1:{postgres_server.port}"
    url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
    mortal.pause()
    try:
        async with asyncio.timeout(DEADLINE):
            connecting = connect(url, connect_timeout=SOON)
            store = Caller(await asyncio.to_thread(connecting.open) if kind == "sync" else await connecting.aopen())
            assert (await store.move(order.moves["pack"], KEYS[0])).outcome == "moved"
            await store.close()
    finally:
        mortal.resume()


async def test_a_call_that_waits_for_a_row_too_long_is_unknown_and_may_still_move_it(
    postgres_server: PostgresServer,
) -> None:
    """It is not cancelled, so it may still take effect; the same call again tells."""
    order = prepared(postgres_server)
    with psycopg.connect(postgres_server.url, autocommit=True) as beside:
        async with connect(postgres_server.url, command_timeout=SOON) as db:
            with psycopg.connect(postgres_server.url) as rival:
                rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = 'k0' FOR UPDATE".encode())
                answer = await db.move(order.moves["pack"], "k0")
                assert answer.outcome == "unknown"
                await until_blocked(runner(beside), order.table)
            assert (await db.move(order.moves["pack"], "k0")).outcome in ("moved", "already")
            assert (await db.read(order, "k0") or {})["rev"] == 1


async def test_threads_do_not_queue_for_ever_behind_a_call_that_waits(
    postgres_server: PostgresServer,
) -> None:
    """A sync store has one connection: a call that has waited for it long enough has sent nothing."""
    order = prepared(postgres_server)
    with psycopg.connect(postgres_server.url, autocommit=True) as beside:
        with connect(postgres_server.url, command_timeout=None) as db:
            db.driver._patience = SOON  # type: ignore[attr-defined]
            with psycopg.connect(postgres_server.url) as rival:
                rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = 'k0' FOR UPDATE".encode())
                first = asyncio.create_task(asyncio.to_thread(db.move, order.moves["pack"], "k0"))
                await until_blocked(runner(beside), order.table)
                async with asyncio.timeout(DEADLINE):
                    with pytest.raises(TimeoutError, match="nothing was sent"):
                        await asyncio.to_thread(db.move, order.moves["pack"], "k1")
            assert (await first).outcome == "moved"
            assert (await asyncio.to_thread(db.move, order.moves["pack"], "k1")).outcome == "moved"


async def test_calls_do_not_queue_for_ever_behind_those_that_wait(postgres_server: PostgresServer) -> None:
    """An async store has a few connections: a call that has waited for one long enough has sent nothing."""
    order = prepared(postgres_server)
    with psycopg.connect(postgres_server.url, autocommit=True) as beside:
        async with connect(postgres_server.url, command_timeout=None) as db:
            db.driver._patience = SOON  # type: ignore[attr-defined]
            with psycopg.connect(postgres_server.url) as rival:
                rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = 'k0' FOR UPDATE".encode())
                calls = [db.move(order.moves["pack"], "k0", call=f"call {number}") for number in range(4)]
                waiting = [asyncio.create_task(call) for call in calls]
                await until_blocked(runner(beside), order.table, sessions=4)
                async with asyncio.timeout(DEADLINE):
                    with pytest.raises(TimeoutError, match="nothing was sent"):
                        await db.move(order.moves["pack"], "k1", call="fifth")
            outcomes = sorted(one.outcome for one in await asyncio.gather(*waiting))
            assert outcomes == ["already", "already", "already", "moved"]
            assert (await db.move(order.moves["pack"], "k1", call="fifth")).outcome == "moved"


async def test_calls_do_not_queue_for_ever_for_the_connection_to_valkey(valkey_server: ValkeyServer) -> None:
    """An async store on Redis has one connection; a call that has waited for it long enough has sent nothing."""
    order = orders()
    with redis.Redis.from_url(valkey_server.url) as beside:
        beside.hset(f"{order.table}:a", mapping={"status": "NEW", "rev": 0})
    async with connect(valkey_server.url, command_timeout=SOON) as db:
        async with db.driver._lock:  # type: ignore[attr-defined]
            async with asyncio.timeout(DEADLINE):
                with pytest.raises(TimeoutError, match="nothing was sent"):
                    await db.move(order.moves["pack"], "a")
        assert (await db.move(order.moves["pack"], "a")).outcome == "moved"


def test_deadlines_are_set_unless_the_caller_says_otherwise() -> None:
    """A program that says nothing does not wait for ever."""
    settings = inspect.signature(connect).parameters
    assert (settings["connect_timeout"].default, settings["command_timeout"].default) == (10.0, 30.0)


async def test_a_pool_that_is_used_up_is_waited_for_until_the_deadline(
    postgres_server: PostgresServer,
) -> None:
    """Nothing was sent, so it is an error."""
    order = prepared(postgres_server)
    pool: Any = await asyncpg.create_pool(postgres_server.url, min_size=1, max_size=1)
    async with pool:
        db = bind(pool, acquire_timeout=SOON)
        async with pool.acquire():
            async with asyncio.timeout(DEADLINE):
                with pytest.raises(TimeoutError):
                    await db.move(order.moves["pack"], "k0")
        assert (await db.move(order.moves["pack"], "k0")).outcome == "moved"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_call_to_a_frozen_valkey_is_unknown_and_the_store_recovers(
    mortal_valkey: ValkeyServer, kind: str
) -> None:
    """The script may have run; the same call again tells."""
    order = orders(history=True)
    with redis.Redis.from_url(mortal_valkey.url) as beside:
        for key in KEYS[:3]:
            beside.hset(f"{order.table}:{key}", mapping={"status": "NEW", "rev": 0})
    connecting = connect(mortal_valkey.url, connect_timeout=SOON, command_timeout=SOON)
    store = Caller(connecting.open() if kind == "sync" else await connecting)
    try:
        await store.move(order.moves["pack"], KEYS[0])
        mortal_valkey.pause()
        async with asyncio.timeout(DEADLINE * 3):
            answer = await told(store.move(order.moves["pack"], KEYS[1]))
        assert answer.outcome == "unknown", answer
        mortal_valkey.resume()
        async with asyncio.timeout(DEADLINE):
            assert (await store.move(order.moves["pack"], KEYS[1], call=answer.call)).outcome == "moved"
    finally:
        mortal_valkey.resume()
        await store.close()
