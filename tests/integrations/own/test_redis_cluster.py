"""Redis Cluster: a row and its history share a slot, and every script stays within it (L3, L14)."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from typing import Any

import pytest
import redis
import redis.asyncio

from raceproof import (
    Attempts,
    Delivery,
    DeliveryRecorded,
    Lifecycle,
    Lost,
    Missing,
    Moved,
    SendPermit,
    Taken,
    bind,
    claimable,
    column,
    move,
)
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Rows, Statement
from raceproof.testing import valkey
from raceproof.testing.contract.grounds import Caller, fresh_name
from raceproof.testing.contract.orders import orders
from tests.fix_waiting import until

SLOTS = 16384


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


@pytest.fixture(scope="module")
def cluster() -> Iterator[int]:
    """Three nodes that share the slots; the port of one of them."""
    with ExitStack() as stack:
        nodes = []
        for number in range(3):
            server = stack.enter_context(valkey(cluster_enabled="yes", cluster_port=free_port()))
            client: Any = stack.enter_context(redis.Redis(port=server.port, decode_responses=True))
            first = number * SLOTS // 3
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, (number + 1) * SLOTS // 3 - 1)
            nodes.append((server.port, client))
        for port, client in nodes[1:]:
            bus = client.config_get("cluster-port")["cluster-port"]
            nodes[0][1].execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        for _, client in nodes:
            wait_for_state(client)
        yield nodes[0][0]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_state(client: Any) -> None:
    def settled() -> bool:
        info = client.execute_command("CLUSTER", "INFO")
        text = info if isinstance(info, str) else "".join(f"{key}:{value}\n" for key, value in info.items())
        return "cluster_state:ok" in text and "cluster_known_nodes:3" in text

    asyncio.run(until(settled, "the cluster is complete"))


async def check(db: Caller, client: Any) -> None:
    """Single moves, bulks over many slots, history and repeated calls; a search is refused with a reason."""
    order = orders(history=True)
    keys = [f"k{number}" for number in range(30)]
    for key in keys:
        client.hset(f"{order.table}:{{{key}}}", mapping={"status": "NEW", "rev": 0})
    pack = order.moves["pack"]
    first = await db.move(pack, "k0", by="ann", call="once")
    again = await db.move(pack, "k0", by="ann", call="once")
    assert (type(first), again.replayed, again.revision) == (Moved, True, 1)
    answers = await db.move_many(pack, [*keys, "nobody"])
    assert [answer.outcome for answer in answers] == ["already"] + ["moved"] * 29 + ["missing"]
    assert isinstance(await db.move(pack, "nobody"), Missing)
    assert [entry.actor for entry in await db.history(order, "k0")] == ["ann"]
    row = await db.read(order, "k7")
    assert row["status"] == "PACKED"
    with pytest.raises(CallError, match="cluster"):
        await db.move_many(pack, where=column("rev") == 0)


async def test_moves_on_a_cluster(cluster: int) -> None:
    """With the sync client, which knows the nodes."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster)
    await check(Caller(bind(client)), client)
    client.close()


async def test_moves_on_a_cluster_async(cluster: int) -> None:
    """With the async one."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster)
    async with redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster) as async_client:
        await check(Caller(bind(async_client)), client)
    client.close()


async def check_work(db: Caller, client: Any) -> None:
    """A row is claimed, renewed, given back and finished by its key; what needs an index is refused with a reason."""
    name = fresh_name("jobs")

    class Job(Lifecycle[Status], table=name, tenant="shop", history=name):
        start = move(Status.QUEUED, to=Status.RUNNING)
        finish = move(Status.RUNNING, to=Status.DONE)
        work = claimable(start, lease=30)
        lined = claimable(start, lease=30, ordering_key="owner")

    client.hset(f"{name}:{{red}}:k1", mapping={"status": "QUEUED"})
    red = db.for_tenant("red")
    first = await red.claim_one(Job.work, "k1", by="ann")
    (again,) = await red.renew(first)
    assert (again.fence, type(await red.claim_one(Job.work, "k1"))) == (first.fence, Taken)
    await red.release(again)
    second = await red.claim_one(Job.work, "k1", by="bob")
    assert isinstance(await red.move(Job.finish, first), Lost)
    assert isinstance(await red.move(Job.finish, second), Moved)
    assert {"claimed_by", "claimed_until"}.isdisjoint(await red.read(Job, "k1"))
    for refused in (red.claim(Job.work), red.offer(Job.work, ["k1"]), red.claim_one(Job.lined, "k1")):
        with pytest.raises(CallError, match="cluster"):
            await refused


async def test_claims_by_key_on_a_cluster(cluster: int) -> None:
    """With the sync client; also where the tenant is the hash tag."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster)
    await check_work(Caller(bind(client)), client)
    client.close()


def test_deliveries_on_a_cluster(cluster: int) -> None:
    """They are sent from the rows that moves find: also where the tenant is the hash tag, and a key is escaped."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster, decode_responses=True)
    for tenant, row in ((None, "{k:1}"), ("shop", "{eu%3A1}:k%3A1")):
        name = fresh_name("jobs")
        client.hset(f"{name}:{row}", "status", "QUEUED")
        db = bind(client).for_tenant("eu:1") if tenant else bind(client)

        class Job(Lifecycle[Status], table=name, tenant=tenant):
            start = move(Status.QUEUED, to=Status.RUNNING)
            finish = move(Status.RUNNING, to=Status.DONE)

        assert isinstance(db.move(Job.start, "k:1"), Moved)
        permit = db.begin_delivery(Delivery("picture", name, tenant=tenant), "k:1")
        assert isinstance(permit, SendPermit)
        assert isinstance(db.delivered(permit), DeliveryRecorded)
        assert client.hget(f"{name}:{row}", "delivered_at") is not None
    client.close()


def test_a_key_that_is_no_hash_tag_is_refused_where_its_history_would_be_apart(cluster: int) -> None:
    """What begins with a closing brace is an empty tag, and that is none; the error comes before anything is sent."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster, decode_responses=True)
    order = orders(history=True)
    client.hset(f"{order.table}:{{a}}b}}", mapping={"status": "NEW", "rev": 0})
    for key in ("}x", ""):
        with pytest.raises(CallError, match="hash tag"):
            bind(client).move(order.moves["pack"], key)
    assert isinstance(bind(client).move(order.moves["pack"], "a}b"), Moved)
    client.close()


def logins_of_owners() -> Attempts:
    """Attempts whose owner is the tenant, so that all keys of an owner are in one slot."""
    name = fresh_name("logins")

    class Login(Lifecycle[Status], table=name, tenant="owner"):
        begin = move(Status.QUEUED, to=Status.RUNNING)
        end = move(Status.QUEUED, Status.RUNNING, to=Status.DONE)

    return Attempts(Login, owner="owner", supersede=Login.end)


def test_attempts_on_a_cluster(cluster: int) -> None:
    """Each start ends its predecessor; an open one is kept or respected."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster, decode_responses=True)
    db, attempts = bind(client), logins_of_owners()
    for number, ended in enumerate([None, "k0", "k1"]):
        answer: Any = db.start_attempt(attempts, "ann", f"k{number}")
        assert (answer.outcome, answer.superseded) == ("started", ended)
    kept: Any = db.start_attempt(attempts, "ann", "k3", when_open="keep")
    respected: Any = db.start_attempt(attempts, "ann", "k3", when_open="reject")
    assert (kept.outcome, kept.key, respected.outcome, respected.active) == (
        "already active",
        "k2",
        "rejected",
        "k2",
    )
    client.close()


@pytest.mark.parametrize("owner", ["tg:17", "50%", "a}b", "{x", "%3A"])
def test_the_keys_of_an_owner_are_in_one_slot_however_it_is_named(cluster: int, owner: str) -> None:
    """L3: the hash tag of its rows, in which some characters are escaped, is that of its pointer."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster, decode_responses=True)
    db, attempts = bind(client), logins_of_owners()
    for number, ended in enumerate([None, "k0"]):
        answer: Any = db.start_attempt(attempts, owner, f"k{number}")
        assert (answer.outcome, answer.superseded) == ("started", ended)
    current: Any = db.current_attempt(attempts, owner)
    assert current["id"] == "k1"
    with pytest.raises(CallError, match="hash tag"):
        db.start_attempt(attempts, "}" + owner, "k0")
    client.close()


def test_a_pointer_that_has_changed_since_it_was_read_is_read_again(cluster: int) -> None:
    """Somebody starts an attempt between the look and the script: that one is ended, not the one that was seen."""
    client = redis.RedisCluster(host="127.0.0.1", port=cluster, decode_responses=True)
    db, attempts = bind(client), logins_of_owners()
    db.start_attempt(attempts, "ann", "k0")
    driver = db.driver
    execute, waiting = driver.execute, ["k1"]

    def overtaken(statement: Statement) -> Rows:
        rows = execute(statement)
        if statement.name == "attempt.pointer" and waiting:
            bind(client).start_attempt(attempts, "ann", waiting.pop())
        return rows

    driver.execute = overtaken  # type: ignore[method-assign]
    answer: Any = db.start_attempt(attempts, "ann", "k2")
    assert (answer.outcome, answer.superseded) == ("started", "k1")
    table = attempts.lifecycle.table
    statuses = [client.hget(f"{table}:{{ann}}:k{number}", "status") for number in range(3)]
    assert statuses == ["DONE", "DONE", "QUEUED"]
    client.close()
