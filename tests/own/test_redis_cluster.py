"""Redis Cluster: a row and its history share a slot, and every script stays within it (L3, L14)."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
import redis.asyncio

from raceproof import CallError, Missing, Moved, bind, column
from raceproof.testing import valkey
from tests.contract.grounds import Caller
from tests.contract.orders import orders
from tests.fix_waiting import until

SLOTS = 16384


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
