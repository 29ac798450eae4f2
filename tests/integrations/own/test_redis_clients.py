"""Redis clients as callers have them: decoding or not, one connection or a pool, sync and async (L3, L14)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
import redis.asyncio

from raceproof import Already, Inbox, Lost, Moved, Refused, Store, bind, column
from raceproof.declare import Spec
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Rows, Statement
from raceproof.testing import ValkeyServer
from raceproof.testing.contract.grounds import Caller, RedisGround, fresh_name
from raceproof.testing.contract.jobs import jobs
from raceproof.testing.contract.orders import orders

OPTIONS: dict[str, dict[str, Any]] = {
    "bytes": {},
    "text": {"decode_responses": True},
    "one-connection": {"single_connection_client": True},
    "one-connection-text": {"single_connection_client": True, "decode_responses": True},
    "resp2": {"protocol": 2},
    "resp3": {"protocol": 3},
}


@pytest.fixture(params=[f"{kind}-{name}" for kind in ("sync", "async") for name in OPTIONS])
async def ground(request: pytest.FixtureRequest, valkey_server: ValkeyServer) -> AsyncIterator[RedisGround]:
    """A client of the caller's with these options, and another one beside it."""
    kind, _, name = request.param.partition("-")
    beside = redis.Redis.from_url(valkey_server.url, decode_responses=True)
    if kind == "sync":
        client = redis.Redis.from_url(valkey_server.url, **OPTIONS[name])
        yield RedisGround(Caller(bind(client)), beside)
        assert client.ping()
        client.close()
    else:
        async_client = redis.asyncio.Redis.from_url(valkey_server.url, **OPTIONS[name])
        await async_client.initialize()
        yield RedisGround(Caller(bind(async_client)), beside)
        assert await async_client.ping()
        await async_client.aclose()
    beside.close()


def test_an_event_that_was_revived_has_no_end_any_more(valkey_server: ValkeyServer) -> None:
    """P8: Redis forgets what has ended by itself, and must be told that this one has not."""
    inbox = Inbox(fresh_name("inbox"), attempts=1)
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as client:
        db = bind(client)
        db.receive(inbox, Arrival("t", "1", b"{}"))
        row = f"{inbox.table}:t:1"
        assert client.ttl(row) == -1
        db.fail(db.claim(inbox.work))
        assert 0 < client.ttl(row) <= inbox.keep
        assert db.move(inbox.lifecycle.moves["revive"], ("t", "1")).won
        assert client.ttl(row) == -1


async def test_every_answer_is_the_same_text_whatever_the_client_decodes(ground: RedisGround) -> None:
    """Statuses, returned columns, actors, rows and history."""
    order = orders(losers=True)
    ground.put(order, "é", "NEW", box="ü", blob="x")
    moved = await ground.db.move(order.moves["pack"], "é", by="ann", returning=["box", "packer", "status"])
    assert isinstance(moved, Moved)
    assert (moved.before, moved.revision) == ("NEW", 1)
    assert moved.row == {"box": "ü", "packer": None, "status": "PACKED"}
    already = await ground.db.move(order.moves["pack"], "é", by="bob")
    assert isinstance(already, Already)
    assert (already.by, already.revision) == ("ann", 1)
    refused = await ground.db.move(order.moves["take_back"], "é")
    assert isinstance(refused, Refused)
    assert (refused.status, refused.by) == ("PACKED", "ann")
    assert (await ground.db.read(order, "é"))["box"] == "ü"
    entries = await ground.db.history(order, "é")
    assert [(entry.move, entry.outcome, entry.actor) for entry in entries] == [
        ("take_back", "refused", None),
        ("pack", "already", "bob"),
        ("pack", "moved", "ann"),
    ]


async def test_an_event_that_is_no_text_is_claimed_whatever_the_client_decodes(ground: RedisGround) -> None:
    """Its neighbours too: what was claimed must not be lost in the reading of the answer."""
    inbox = Inbox(table=fresh_name("inbox"))
    bodies = [b"{}", b"\xff\xfe", "é".encode()]
    for number, body in enumerate(bodies):
        await ground.db.receive(inbox, Arrival("kie", str(number), body))
    claims = await ground.db.claim(inbox.work, 5, returning=["body"])
    assert [one.row["body"] for one in claims] == bodies
    row = await ground.db.read(inbox.lifecycle, ("kie", "1"))
    assert row["status"] == "processing"


async def test_bulks_find_rows_whatever_the_client_decodes(ground: RedisGround) -> None:
    """By key and by a predicate."""
    order = orders()
    for number in range(5):
        ground.put(order, f"k{number}", "NEW", box=str(number))
    answers = await ground.db.move_many(order.moves["pack"], ["k0", "nobody", "k0"])
    assert [answer.outcome for answer in answers] == ["moved", "missing", "already"]
    answers = await ground.db.move_many(order.moves["pack"], where=column("box") >= 3)
    assert sorted(answer.key for answer in answers) == ["k3", "k4"]


async def test_calls_at_once_on_one_client_each_get_their_own_answer(ground: RedisGround) -> None:
    """A client is shared by tasks or threads, one connection or not: no reply may reach another caller."""
    order = orders()
    for number in range(40):
        ground.put(order, f"k{number}", "NEW" if number % 2 else "SENT")
    store = ground.db.store

    async def move(key: str) -> Any:
        if isinstance(store, Store):
            return await asyncio.to_thread(store.move, order.moves["pack"], key)
        return await store.move(order.moves["pack"], key)

    answers = await asyncio.gather(*(move(f"k{number}") for number in range(40)))
    assert [(answer.key, answer.outcome) for answer in answers] == [
        (f"k{number}", "moved" if number % 2 else "refused") for number in range(40)
    ]


def spec_with_row(client: "redis.Redis") -> Spec[str]:
    order = orders()
    client.hset(f"{order.table}:a", mapping={"status": "NEW", "rev": "0"})
    return order


def test_a_pipeline_is_refused(valkey_server: ValkeyServer) -> None:
    """What is queued there runs later, when the answer was given long ago."""
    with redis.Redis.from_url(valkey_server.url) as client:
        order = spec_with_row(client)
        with pytest.raises(CallError, match="pipeline"):
            bind(client.pipeline()).move(order.moves["pack"], "a")
        assert client.hget(f"{order.table}:a", "status") == b"NEW"


async def test_an_async_pipeline_is_refused(valkey_server: ValkeyServer) -> None:
    """The same for redis.asyncio."""
    async with redis.asyncio.Redis.from_url(valkey_server.url) as client:
        with pytest.raises(CallError, match="pipeline"):
            bind(client.pipeline())


def test_a_watched_row_of_the_callers_fails_their_transaction(valkey_server: ValkeyServer) -> None:
    """A move is a write like any other to those who WATCH the row."""
    with redis.Redis.from_url(valkey_server.url) as client:
        order = spec_with_row(client)
        with client.pipeline() as pipeline:
            pipeline.watch(f"{order.table}:a")
            assert isinstance(bind(client).move(order.moves["pack"], "a"), Moved)
            pipeline.multi()
            pipeline.hset(f"{order.table}:a", "packer", "me")
            with pytest.raises(redis.WatchError):
                pipeline.execute()


def test_scripts_that_the_server_forgot_are_sent_again(valkey_server: ValkeyServer) -> None:
    """SCRIPT FLUSH, a restart or a failover in between goes unnoticed."""
    with redis.Redis.from_url(valkey_server.url) as client:
        order = spec_with_row(client)
        db = bind(client)
        assert isinstance(db.move(order.moves["pack"], "a"), Moved)
        client.script_flush()
        assert isinstance(db.move(order.moves["pack"], "a"), Already)


async def test_a_row_that_is_offered_again_stands_in_the_line_of_its_new_value(
    valkey_server: ValkeyServer,
) -> None:
    """Whose it is has changed: those behind it in the old line follow, and in the new one it is the last."""
    client = redis.Redis.from_url(valkey_server.url, decode_responses=True)
    store = bind(client)
    ground = RedisGround(Caller(store), client)
    job = jobs(ground, claim={"ordering_key": "owner"})
    work = job.claims["work"]
    for key, owner in (("k0", "ann"), ("k1", "ann"), ("k2", "bob")):
        ground.put(job, key, "QUEUED", owner=owner)
        store.offer(work, [key])
    client.hset(f"{job.table}:k0", "owner", "bob")
    store.offer(work, ["k0"])
    claims = store.claim(work, 5)
    assert [one.key for one in claims] == ["k2", "k1"]
    assert [answer.won for answer in store.move_many(job.moves["finish"], claims)] == [True, True]
    (last,) = store.claim(work, 5)
    assert store.move(job.moves["finish"], last).won
    assert (last.key, client.keys(f"{job.table}/*")) == ("k0", [])
    client.close()


async def test_a_claim_and_its_end_are_one_script_each(valkey_server: ValkeyServer) -> None:
    """Searching is part of claiming, and leaving the index and the line part of the move that ends the claim."""
    client = redis.Redis.from_url(valkey_server.url, decode_responses=True)
    store = bind(client)
    ground = RedisGround(Caller(store), client)
    job = jobs(ground, history=True, claim={"ordering_key": "owner", "dead_letter": None})
    work = job.claims["work"]
    for number in range(3):
        ground.put(job, f"k{number}", "QUEUED", owner="ann")
        store.offer(work, [f"k{number}"])
    sent: list[str] = []
    driver = store.driver
    execute = driver.execute

    def counted(statement: Statement) -> Rows:
        sent.append(statement.name)
        return execute(statement)

    driver.execute = counted  # type: ignore[method-assign]
    (first,) = store.claim(work, 1)
    assert store.move(job.moves["finish"], first).won
    second = store.claim(work, 1)
    assert [answer.won for answer in store.move_many(job.moves["finish"], second)] == [True]
    assert sent == ["claim.acquire", "move"] * 2
    assert client.zrange(f"{job.table}/work", 0, -1) == ["k2"]
    assert client.zrange(f"{job.table}/work/line:ann", 0, -1) == ["k2"]
    client.close()


@pytest.mark.parametrize("fence", ["٣", "²", "9" * 5000, "-1", "1_0"], ids=lambda fence: ascii(fence[:8]))
def test_a_fence_that_was_not_counted_is_returned_as_it_stands_in_the_row(
    valkey_server: ValkeyServer, fence: str
) -> None:
    """Digits of another alphabet are not a number of ours, and int() raises for thousands of digits."""
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as client:
        db = bind(client)
        job = jobs(RedisGround(Caller(db), client))
        client.hset(f"{job.table}:a", mapping={"status": "QUEUED", "made_at": 1})
        db.offer(job.claims["work"], ["a"])
        [claim] = db.claim(job.claims["work"])
        client.hset(f"{job.table}:a", "fence", fence)
        lost = db.move(job.moves["finish"], claim)
        assert isinstance(lost, Lost)
        assert lost.fence == fence
        [renewal] = db.renew(claim)
        assert isinstance(renewal, Lost)
        assert renewal.fence == fence
