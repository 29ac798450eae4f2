"""Cancellation at every point of a call leaves the row and the store in good order (P14)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio

from raceproof import AsyncStore, Moved, bind, connect
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import Caller, Ground
from raceproof.testing.contract.orders import orders
from tests.promises.contract.grounds import asked_ground, open_ground
from tests.promises.faults.fix_cancel import cancelled_at

KINDS = (
    "asyncpg",
    "asyncpg pool",
    "psycopg async",
    "postgres connect async",
    "sqlite connect async",
    "redis async",
    "redis connect async",
)

Call = Callable[[AsyncStore, Spec[str], str], Coroutine[Any, Any, Any]]

CALLS: dict[str, Call] = {
    "move": lambda db, order, key: db.move(order.moves["pack"], key),
    "repeated": lambda db, order, key: db.move(order.moves["pack"], key, call=f"once-{key}"),
    "refused": lambda db, order, key: db.move(order.moves["take_back"], key),
    "many": lambda db, order, key: db.move_many(order.moves["pack"], [key, "nobody", "packed"]),
    "read": lambda db, order, key: db.read(order, key),
}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.replace(" ", "-"))
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    """An async store of each kind."""
    async with asked_ground(request, tmp_path) as found:
        yield found


async def check_row(ground: Ground, order: Spec[str], key: str) -> None:
    """The row is as before or moved once, and its history says the same."""
    row = ground.get(order, key)
    assert (row["status"], row["rev"]) in (("NEW", "0"), ("PACKED", "1"))
    entries = await ground.db.history(order, key)
    assert [entry.outcome for entry in entries] == ["moved"] * int(row["rev"] or 0)


@pytest.mark.parametrize("call", list(CALLS))
async def test_a_call_can_be_cancelled_at_every_point(ground: Ground, call: str) -> None:
    """Whatever it was doing, the row is whole, and the next calls on the same store work and are committed."""
    order = orders(history=True)
    ground.table(order)
    ground.put(order, "packed", "PACKED")
    store = ground.db.store
    assert isinstance(store, AsyncStore)
    for suspension in range(1, 200):
        key, other = f"k{suspension}", f"other{suspension}"
        for one in (key, other):
            ground.put(order, one, "NEW")
        reached = await cancelled_at(CALLS[call](store, order, key), suspension)
        after = await store.move(order.moves["fail"], other, by=f"by {suspension}")
        assert isinstance(after, Moved)
        assert (after.key, ground.get(order, other)["status"]) == (other, "FAILED")
        await check_row(ground, order, key)
        if not reached:
            break
    assert suspension > 1


@pytest.mark.parametrize("client", ["bound", "one-connection", "connect"])
async def test_a_call_that_sends_its_script_whole_can_be_cancelled_at_every_point(
    valkey_server: Any, client: str
) -> None:
    """No reply that comes late is taken for the next one's."""
    async with AsyncExitStack() as stack:
        beside = stack.enter_context(redis.Redis.from_url(valkey_server.url))
        if client == "connect":
            store = await stack.enter_async_context(connect(valkey_server.url))
        else:
            own = redis.asyncio.Redis.from_url(valkey_server.url, single_connection_client=client == "one-connection")
            store = bind(await stack.enter_async_context(own))
        order = orders()
        for suspension in range(1, 200):
            for key, status in (("a", "NEW"), ("b", "SENT")):
                beside.hset(f"{order.table}:{key}", mapping={"status": status, "rev": 0})
            beside.script_flush()
            reached = await cancelled_at(store.move(order.moves["pack"], "a"), suspension)
            answers = [await store.move(order.moves["take_back"], key) for key in ("b", "nobody", "b")]
            assert [answer.outcome for answer in answers] == ["moved", "missing", "already"]
            if not reached:
                break
        assert suspension > 1


async def test_a_call_that_connects_again_can_be_cancelled_at_every_point(valkey_server: Any) -> None:
    """Half a handshake is not left for the next call to trip over."""
    beside = redis.Redis.from_url(valkey_server.url)
    async with connect(valkey_server.url) as store:
        order = orders()
        for suspension in range(1, 200):
            beside.hset(f"{order.table}:a", mapping={"status": "NEW", "rev": 0})
            beside.client_kill_filter(_type="normal", skipme=True)
            await store.move(order.moves["pack"], "nobody")
            reached = await cancelled_at(store.move(order.moves["pack"], "nobody"), suspension)
            assert (await store.move(order.moves["pack"], "a")).outcome == "moved"
            assert (await store.move(order.moves["pack"], "nobody")).outcome == "missing"
            if not reached:
                break
        assert suspension > 1
    beside.close()


@pytest.mark.parametrize("kind", ["asyncpg", "psycopg"])
async def test_a_cancelled_call_leaves_no_transaction_on_the_callers_connection(
    postgres_server: Any, kind: str
) -> None:
    """What the library began it has ended, even if the cancellation came in the middle of its BEGIN or COMMIT."""
    async with AsyncExitStack() as stack:
        async with open_ground("psycopg", lambda: postgres_server, lambda: None, Path()) as ground:  # type: ignore[arg-type, return-value]
            order = orders(history=True)
            ground.table(order)
            if kind == "asyncpg":
                own: Any = await asyncpg.connect(postgres_server.url)
                stack.push_async_callback(own.close)
                idle: Callable[[], bool] = lambda: not own.is_in_transaction()  # noqa: E731
            else:
                own = await psycopg.AsyncConnection.connect(postgres_server.url, autocommit=True)
                stack.push_async_callback(own.close)
                idle = lambda: own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE  # noqa: E731
            store: Any = bind(own)
            for suspension in range(1, 200):
                ground.put(order, f"k{suspension}", "NEW")
                call = store.move(order.moves["pack"], f"k{suspension}", call=f"once {suspension}")
                reached = await cancelled_at(call, suspension)
                await store.read(order, "nobody")
                assert idle(), f"a transaction is open after a cancellation at suspension {suspension}"
                if not reached:
                    break


@pytest.mark.parametrize("kind", ["postgres connect async", "sqlite connect async", "redis connect async"])
async def test_cancelled_callers_do_not_affect_their_neighbours(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Every third of those that share statements goes away, at different points; the others get their own answers."""
    async with open_ground(
        kind,
        lambda: request.getfixturevalue("postgres_server"),
        lambda: request.getfixturevalue("valkey_server"),
        tmp_path,
    ) as ground:
        order = orders(history=True)
        ground.table(order)
        keys = [f"k{number}" for number in range(60)]
        for key in keys:
            ground.put(order, key, "NEW")
        store: Any = ground.db.store

        def call(number: int) -> Coroutine[Any, Any, Any]:
            moving = store.move(order.moves["pack"], keys[number], set={"packer": keys[number]})
            return cancelled_at(moving, 1 + number % 4) if number % 3 == 0 else moving

        answers = await asyncio.gather(*(call(number) for number in range(60)))
        for number, (key, answer) in enumerate(zip(keys, answers, strict=True)):
            await check_row(ground, order, key)
            if number % 3:
                assert (answer.key, answer.outcome) == (key, "moved")
                assert ground.get(order, key)["packer"] == key
        again = await asyncio.gather(*(Caller(store).move(order.moves["pack"], key) for key in keys))
        assert {answer.outcome for answer in again} <= {"moved", "already"}
        assert {ground.get(order, key)["rev"] for key in keys} == {"1"}
