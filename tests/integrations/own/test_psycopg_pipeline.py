"""psycopg's pipeline mode hands out results late: a move in it tells the truth, or is refused (L3, P1)."""

import psycopg

from raceproof import bind
from raceproof.declare import Spec
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import Caller, PostgresGround
from raceproof.testing.contract.orders import orders


def prepared(ground: PostgresGround) -> Spec[str]:
    order = orders(history=True)
    ground.table(order)
    for key in "abc":
        ground.put(order, key, "NEW")
    return order


async def check(db: Caller, ground: PostgresGround, order: Spec[str]) -> list[str]:
    """What the calls were told; none, if the first was refused and moved nothing."""
    pack = order.moves["pack"]
    try:
        told = [(await db.move(pack, "a")).outcome]
    except CallError:
        assert ground.get(order, "a")["status"] == "NEW"
        return []
    told.append((await db.move(pack, "a")).outcome)
    told.append((await db.move(pack, "b", call="x")).outcome)
    return told + [answer.outcome for answer in await db.move_many(pack, ["a", "c"])]


async def test_a_sync_pipeline(ground: PostgresGround, postgres_server: PostgresServer) -> None:
    """Nobody is told that a row is missing which was moved."""
    order = prepared(ground)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        with connection.pipeline():
            told = await check(Caller(bind(connection)), ground, order)
    assert told in ([], ["moved", "already", "moved", "already", "moved"])
    assert [ground.get(order, key)["rev"] for key in "abc"] == (["1"] * 3 if told else ["0"] * 3)


async def test_an_async_pipeline(ground: PostgresGround, postgres_server: PostgresServer) -> None:
    """The same for an async connection."""
    order = prepared(ground)
    async with await psycopg.AsyncConnection.connect(postgres_server.url, autocommit=True) as connection:
        async with connection.pipeline():
            told = await check(Caller(bind(connection)), ground, order)
    assert told in ([], ["moved", "already", "moved", "already", "moved"])
    assert [ground.get(order, key)["rev"] for key in "abc"] == (["1"] * 3 if told else ["0"] * 3)
