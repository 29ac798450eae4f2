"""A statement that may commit is never cancelled on the server (P8, P14).

A cancel that meets a commit which waits for its standby would show the row to everyone, unreplicated. So the call ends, and
its commit goes on waiting: others still see the row as it was.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from raceproof import AsyncStore, bind, connect
from raceproof.connect import postgres_connection as connecting_postgres
from raceproof.declare import Spec
from raceproof.drivers import psycopg_cursor, unbroken
from raceproof.inbox import Arrival
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.inbox import an_inbox
from raceproof.testing.contract.orders import orders
from tests.fix_told import told
from tests.fix_waiting import DEADLINE, until
from tests.promises.standby.fix_kinds import ASYNC, opened
from tests.promises.standby.fix_standby import Pair

SHORT = 0.1


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled call waits for the end of its statement only briefly here."""
    monkeypatch.setattr(unbroken, "PATIENCE", SHORT)
    monkeypatch.setattr(psycopg_cursor, "PATIENCE", SHORT)
    monkeypatch.setattr(connecting_postgres, "STILL_THERE", SHORT)


@pytest.fixture
def order(ground: PostgresGround) -> Spec[str]:
    """A table with one new row."""
    spec = orders(history=True)
    ground.table(spec)
    ground.put(spec, "a", "NEW")
    return spec


async def settled() -> None:
    """Let everything come to its end that was begun in the background, such as a cancel that is on its way."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=2)


@pytest.mark.parametrize("repeat", [None, "mine"], ids=["one statement", "a transaction"])
@pytest.mark.parametrize("kind", ASYNC)
async def test_a_cancelled_call_cancels_no_commit(
    pair: Pair, ground: PostgresGround, order: Spec[str], kind: str, repeat: str | None
) -> None:
    """It still waits for the standby when its caller has gone, and no other session sees the row moved."""
    async with opened(kind, pair.primary.url) as store:
        assert isinstance(store, AsyncStore)
        with pair.held():
            task = asyncio.create_task(store.move(order.moves["pack"], "a", call=repeat))
            await until(lambda: bool(pair.waiting()), "the commit waits for the standby")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await settled()
            assert pair.waiting(), "the wait was cancelled"
            assert ground.get(order, "a")["status"] == "NEW"
    await until(lambda: ground.get(order, "a")["status"] == "PACKED", "the commit has ended by itself")


@pytest.mark.parametrize("kind", ["asyncpg", "sqlalchemy-asyncpg"])
async def test_a_connection_is_not_left_busy_by_a_cancelled_call(
    pair: Pair, order: Spec[str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is closed if the statement does not end in time, and can be used at once if it does."""
    async with opened(kind, pair.primary.url) as first, opened(kind, pair.primary.url) as second:
        assert isinstance(first, AsyncStore)
        assert isinstance(second, AsyncStore)
        with pair.held():
            hanging = asyncio.create_task(first.move(order.moves["pack"], "a"))
            await until(lambda: bool(pair.waiting()), "the commit waits for the standby")
            hanging.cancel()
            await asyncio.wait((hanging,), timeout=DEADLINE)
            assert hanging.done(), "the cancelled call still waits for its statement"
            with pytest.raises(asyncio.CancelledError):
                await hanging
            after = asyncio.create_task(first.move(order.moves["send"], "a"))
            await asyncio.wait((after,), timeout=DEADLINE)
            assert after.done(), "the connection is busy with the cancelled call"
            with pytest.raises((asyncpg.InterfaceError, DBAPIError, InvalidRequestError)):  # it is closed
                await after
        monkeypatch.setattr(unbroken, "PATIENCE", DEADLINE)
        with pair.held():
            ending = asyncio.create_task(second.move(order.moves["send"], "a"))
            await until(lambda: bool(pair.waiting()), "the commit waits for the standby")
            ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert (await second.move(order.moves["finish"], "a")).outcome == "moved"


async def test_a_call_cancelled_while_it_is_prepared_comes_to_its_end(
    pair: Pair, ground: PostgresGround, order: Spec[str]
) -> None:
    """The cancellation reaches the caller once, after the statement has ended, and the connection can be used."""
    connection = await asyncpg.connect(pair.primary.url)
    try:
        task = asyncio.create_task(bind(connection).move(order.moves["pack"], "a"))
        await asyncio.sleep(0)  # begun; its first message is under way
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not connection.is_closed()
        assert ground.get(order, "a")["status"] == "PACKED"
        assert (await bind(connection).move(order.moves["send"], "a")).outcome == "moved"
    finally:
        connection.terminate()


async def test_a_timeout_around_a_call_ends_as_a_timeout(pair: Pair, order: Spec[str]) -> None:
    """`asyncio.timeout` cancels the caller's task: it has to see its own CancelledError to turn it into TimeoutError."""
    async with opened("asyncpg", pair.primary.url) as store:
        assert isinstance(store, AsyncStore)
        with pair.held():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(SHORT):
                    await store.move(order.moves["pack"], "a")


async def test_a_cancelled_shared_statement_cancels_no_commit(
    pair: Pair, ground: PostgresGround, order: Spec[str]
) -> None:
    """All who share it go away; it goes on."""
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        ground.put(order, key, "NEW")
    async with connect(pair.primary.url) as db:
        with pair.held():
            tasks = [asyncio.create_task(db.move(order.moves["pack"], key)) for key in keys]
            await until(lambda: len(pair.waiting()) == 2, "a lone call and a shared statement wait")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await settled()
            assert len(pair.waiting()) == 2
            assert {ground.get(order, key)["status"] for key in keys} == {"NEW"}
    await until(lambda: ground.get(order, "k4")["status"] == "PACKED", "it has ended by itself")


async def test_a_store_that_is_closed_cancels_no_commit(pair: Pair, ground: PostgresGround, order: Spec[str]) -> None:
    """Calls whose statement was under way end as unknown."""
    keys = [f"k{number}" for number in range(3)]
    for key in keys:
        ground.put(order, key, "NEW")
    db = await connect(pair.primary.url, command_timeout=1)
    with pair.held():
        tasks = [asyncio.create_task(told(db.move(order.moves["pack"], key))) for key in keys]
        await until(lambda: len(pair.waiting()) == 2, "a lone call and a shared statement wait")
        await db.close()
        answers = await asyncio.gather(*tasks)
        assert len(pair.waiting()) == 2
        assert {ground.get(order, key)["status"] for key in keys} == {"NEW"}
    assert {one.outcome for one in answers} == {"unknown"}


@pytest.mark.parametrize("kind", ["connect", "connect-async"])
async def test_a_deadline_cancels_no_commit(pair: Pair, ground: PostgresGround, order: Spec[str], kind: str) -> None:
    """The answer is unknown; the commit goes on."""
    async with opened(kind, pair.primary.url, command_timeout=SHORT) as store:
        with pair.held():
            answer = await Caller(store).move(order.moves["pack"], "a")
            await settled()
            assert answer.outcome == "unknown"
            assert pair.waiting()
            assert ground.get(order, "a")["status"] == "NEW"


async def test_a_cancelled_event_is_not_seen_before_the_standby_has_it(pair: Pair, ground: PostgresGround) -> None:
    """The next call for the same event waits until it is durable."""
    inbox, event = an_inbox(ground), Arrival("t", "1", b"{}")
    first, second = await asyncpg.connect(pair.primary.url), await asyncpg.connect(pair.primary.url)
    try:
        with pair.held():
            task = asyncio.create_task(bind(first).receive_many(inbox, [event]))
            await until(lambda: bool(pair.waiting()), "the commit waits for the standby")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            again = asyncio.create_task(bind(second).receive(inbox, event))
            await settled()
            assert not again.done()
            assert ground.run(f"SELECT count(*) FROM {inbox.table}") == [(0,)]
        assert (await again).duplicate
    finally:
        first.terminate()
        await second.close()


@pytest.mark.parametrize("how", ["interrupt", "exit"])
@pytest.mark.parametrize("kind", ["psycopg", "connect"])
def test_ctrl_c_cancels_no_commit(pair: Pair, ground: PostgresGround, order: Spec[str], kind: str, how: str) -> None:
    """Also where a handler of the program's own ends it; a new call finds the row as it was."""
    handlers: dict[str, Callable[..., Any]] = {
        "interrupt": signal.default_int_handler,
        "exit": lambda *_: sys.exit(3),
    }
    before = signal.signal(signal.SIGINT, handlers[how])
    main = threading.get_ident()

    def interrupt() -> None:
        while not pair.waiting():
            pass
        signal.pthread_kill(main, signal.SIGINT)

    try:
        with psycopg.connect(pair.primary.url, autocommit=True) as own, connect(pair.primary.url) as db:
            store = db if kind == "connect" else bind(own)
            with pair.held():
                thread = threading.Thread(target=interrupt)
                thread.start()
                with pytest.raises((KeyboardInterrupt, SystemExit)):
                    store.move(order.moves["pack"], "a")
                thread.join()
                assert pair.waiting(), "the wait was cancelled"
                assert ground.get(order, "a")["status"] == "NEW"
            if kind == "connect":
                assert db.move(order.moves["pack"], "a").outcome in ("moved", "already")
    finally:
        signal.signal(signal.SIGINT, before)
