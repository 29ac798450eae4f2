"""A server that is killed and comes back in the middle of a stream of moves: none is lost, none happens twice (P1, P12)."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
import redis

from raceproof import Moved, Store, Unknown, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer, Server, ValkeyServer, postgres, valkey
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, RedisGround
from raceproof.testing.contract.orders import orders
from tests.fix_told import says_it_wrote_nothing, says_nothing_was_kept, told
from tests.fix_waiting import blocked, until

ROWS = 120
WORKERS = 6


@pytest.fixture(scope="module")
def mortal_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL to maltreat."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="module")
def mortal_valkey() -> Iterator[ValkeyServer]:
    """A Valkey to maltreat, which has on its disk whatever it has answered."""
    with valkey(appendfsync="always") as server:
        yield server


class Stream:
    """Workers that move one row after the other, as a careful caller does: whatever is unknown is asked again."""

    def __init__(self, db: Caller, order: Spec[str]) -> None:
        self.db = db
        self.order = order
        self.told: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()

    async def work(self, worker: int) -> None:
        for number in range(worker, ROWS, WORKERS):
            await self.move(f"k{number}")

    async def move(self, key: str) -> None:
        call: str | None = None
        while True:
            pack, store = self.order.moves["pack"], self.db.store
            if isinstance(store, Store):
                answer = await told(asyncio.to_thread(store.move, pack, key, call=call))
            else:
                answer = await told(store.move(pack, key, call=call))
            if isinstance(answer, Exception):
                says = says_nothing_was_kept if call is None else says_it_wrote_nothing
                assert says(answer), answer
                self.told["error"] += 1
                await asyncio.sleep(0)
                continue
            self.told[answer.outcome] += 1
            if not isinstance(answer, Unknown):
                assert isinstance(answer, Moved), str(answer)
                self.moved[key] += 1
                return
            call = answer.call


async def kill_and_restart(server: Server, stream: Stream, ground: Ground) -> None:
    """Kill it while the stream flows, let the callers feel it, bring it back."""
    workers = [asyncio.create_task(stream.work(worker)) for worker in range(WORKERS)]
    for share in (ROWS // 4, ROWS // 2):
        await until(lambda share=share: stream.moved.total() >= share, f"{share} rows have moved")  # type: ignore[misc]
        server.kill()
        felt = stream.told["error"] + stream.told["unknown"]
        await until(
            lambda felt=felt: stream.told["error"] + stream.told["unknown"] > felt,  # type: ignore[misc]
            "somebody has felt it",
        )
        server.restart()
    await asyncio.gather(*workers)


async def check(stream: Stream, ground: Ground) -> None:
    assert stream.moved == Counter({f"k{number}": 1 for number in range(ROWS)})
    for number in range(ROWS):
        row = ground.get(stream.order, f"k{number}")
        assert (row["status"], row["rev"]) == ("PACKED", "1")
        entries = await ground.db.history(stream.order, f"k{number}")
        assert [entry.outcome for entry in entries] == ["moved"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_postgresql_is_killed_and_comes_back(mortal_postgres: PostgresServer, kind: str) -> None:
    """History rows = moved answers, each unknown resolved by its id; `connect` recovers by itself."""
    url = mortal_postgres.url
    order = orders(history=True)

    def run(text: str, params: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(url, autocommit=True) as admin:
            cursor = admin.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

    connecting = connect(url)
    store = connecting.open() if kind == "sync" else await connecting
    ground = PostgresGround(Caller(store), run)
    ground.table(order)
    values = ", ".join(f"('k{number}', 'NEW', 0)" for number in range(ROWS))
    run(f"INSERT INTO {order.table} (order_id, status, rev) VALUES {values}")
    stream = Stream(ground.db, order)
    await kill_and_restart(mortal_postgres, stream, ground)
    with psycopg.connect(url, autocommit=True) as admin:
        ground.run = lambda text, params=None: admin.execute(text.encode(), params).fetchall()
        await check(stream, ground)
    await ground.db.close()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_valkey_is_killed_and_comes_back(mortal_valkey: ValkeyServer, kind: str) -> None:
    """The same with scripts that the new server has never seen."""
    order = orders(history=True)
    connecting = connect(mortal_valkey.url)
    store = connecting.open() if kind == "sync" else await connecting
    beside = redis.Redis.from_url(mortal_valkey.url, decode_responses=True)
    ground = RedisGround(Caller(store), beside)
    for number in range(ROWS):
        ground.put(order, f"k{number}", "NEW")
    beside.connection_pool.disconnect()
    stream = Stream(ground.db, order)
    await kill_and_restart(mortal_valkey, stream, ground)
    await check(stream, ground)
    await ground.db.close()
    beside.close()


def test_ctrl_c_in_a_call_that_waits_leaves_the_store_usable(postgres_server: PostgresServer) -> None:
    """The wait ends, and the next call works; the statement was not cancelled, so it may still move the row, once."""
    order = orders(history=True)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin, connect(postgres_server.url) as db:

        def run(text: str, params: Any = None) -> list[tuple[Any, ...]]:
            cursor = admin.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

        ground = PostgresGround(Caller(db), run)
        ground.table(order)
        for key in "ab":
            ground.put(order, key, "NEW")
        with psycopg.connect(postgres_server.url) as rival:
            rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = 'a' FOR UPDATE".encode())
            for call in (None, "once"):
                main = threading.get_ident()

                def interrupt(main: int = main, before: int = blocked(run, order.table)) -> None:
                    while blocked(run, order.table) <= before:
                        pass
                    signal.pthread_kill(main, signal.SIGINT)

                thread = threading.Thread(target=interrupt)
                thread.start()
                with pytest.raises(KeyboardInterrupt):
                    db.move(order.moves["pack"], "a", call=call)
                thread.join()
            assert isinstance(db.move(order.moves["pack"], "b"), Moved)
            assert ground.get(order, "b")["status"] == "PACKED"
            assert ground.get(order, "a")["status"] == "NEW"
        assert db.move(order.moves["pack"], "a").reached
        assert (ground.get(order, "a")["status"], ground.get(order, "a")["rev"]) == ("PACKED", "1")


def test_ctrl_c_in_the_middle_of_a_statement_costs_a_connection_and_no_more(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes where the driver does not expect it, and is heard; the next call does not meet the rest of the statement."""
    order = orders(history=True)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin, connect(postgres_server.url) as db:

        def run(text: str, params: Any = None) -> list[tuple[Any, ...]]:
            cursor = admin.execute(text.encode(), params)
            return cursor.fetchall() if cursor.description else []

        ground = PostgresGround(Caller(db), run)
        ground.table(order)
        ground.put(order, "a", "NEW")
        driver: Any = db.driver
        for call in (None, "once"):
            assert db.read(order, "a")  # on a connection that works
            sent: list[str] = []

            def interrupted(*_: Any, warm: Any = driver._driver, sent: list[str] = sent) -> Any:
                if not sent:
                    sent.append("SELECT")
                    warm._pgconn.send_query(b"SELECT pg_sleep(10)")
                    raise KeyboardInterrupt
                raise psycopg.OperationalError("another command is already in progress")

            monkeypatch.setattr(driver._driver, "_cursor", Mock(run=interrupted, commit=interrupted))
            with pytest.raises(KeyboardInterrupt):
                db.move(order.moves["pack"], "a", call=call)
        assert isinstance(db.move(order.moves["pack"], "a"), Moved)
        assert ground.get(order, "a")["status"] == "PACKED"
