"""Many calls at once share statements, and each still gets its own answer (P1, L2)."""

import asyncio
import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from raceproof import Already, Lost, Missing, Moved, Refused, connect
from raceproof.declare import Spec
from raceproof.testing import PostgresServer, ValkeyServer
from raceproof.testing.contract.grounds import Ground, PostgresGround, RedisGround
from raceproof.testing.contract.orders import orders
from tests.promises.contract.grounds import open_ground

CALLS = 200


@dataclass
class Parcel:
    """What a caller may want back."""

    order_id: str
    packer: str | None


def prepared(ground: Ground, **options: Any) -> Spec[str]:
    """Rows of every kind, in turn: to be moved from either source, there already, to be refused; every fifth is missing."""
    order = orders(**options)
    ground.table(order)
    for number in range(CALLS):
        if number % 5 < 4:
            ground.put(order, f"k{number}", ("NEW", "RETURNED", "PACKED", "SENT")[number % 5])
    return order


@pytest.mark.parametrize("history", [False, True])
async def test_two_hundred_calls_at_once_each_get_their_own_answer(ground: Ground, history: bool) -> None:
    """Moved, already, refused and missing in one crowd, each with the key, status and columns of its own row."""
    order = prepared(ground, history=history)

    async def move(number: int) -> Any:
        return await ground.db.move(
            order.moves["pack"],
            f"k{number}",
            set={"packer": f"p{number}"},
            by=f"b{number}",
            returning=Parcel if number % 2 else ("order_id", "packer"),
        )

    answers = await asyncio.gather(*(move(number) for number in range(CALLS)))
    kinds = (Moved, Moved, Already, Refused, Missing)
    for number, answer in enumerate(answers):
        assert (answer.key, type(answer)) == (f"k{number}", kinds[number % 5])
        if isinstance(answer, Moved):
            assert (answer.before, answer.revision) == (("NEW", "RETURNED")[number % 5], 1)
            parcel = Parcel(f"k{number}", f"p{number}")
            assert answer.row == (parcel if number % 2 else vars(parcel))
            assert ground.get(order, f"k{number}")["packer"] == f"p{number}"
            if history:
                (entry,) = await ground.db.history(order, f"k{number}")
                assert entry.actor == f"b{number}"
        elif isinstance(answer, Refused):
            assert answer.status == "SENT"


async def test_different_calls_at_once_do_not_mix(ground: Ground) -> None:
    """Other moves, other columns, other guards in the same moment."""
    order = prepared(ground)
    pack, fail = order.moves["pack"], order.moves["fail"]

    def call(number: int) -> Any:
        key = f"k{number * 5}"
        match number % 4:
            case 0:
                return ground.db.move(pack, key, set={"packer": key})
            case 1:
                return ground.db.move(pack, key, set={"box": key, "packer": None})
            case 2:
                return ground.db.move(fail, key)
            case _:
                return ground.db.move(pack, key, revision=0, returning="order_id")

    answers = await asyncio.gather(*(call(number) for number in range(40)))
    assert {type(answer) for answer in answers} == {Moved}
    for number in range(40):
        row = ground.get(order, f"k{number * 5}")
        expected = {0: (f"k{number * 5}", None), 1: (None, f"k{number * 5}")}.get(number % 4, (None, None))
        assert (row["packer"], row["box"]) == expected
        assert row["status"] == ("FAILED" if number % 4 == 2 else "PACKED")


async def test_of_many_calls_for_the_same_row_exactly_one_moves_it(ground: Ground) -> None:
    """The others are told that it is there already, and by whom."""
    order = orders(history=True)
    ground.table(order)
    for key in ("a", "b", "c"):
        ground.put(order, key, "NEW")
    answers = await asyncio.gather(
        *(ground.db.move(order.moves["pack"], "abc"[number % 3], by=f"b{number}") for number in range(90))
    )
    for key in "abc":
        own = [answer for answer in answers if answer.key == key]
        assert Counter(answer.outcome for answer in own) == {"moved": 1, "already": 29}
        (entry,) = await ground.db.history(order, key)
        assert {answer.by for answer in own if isinstance(answer, Already)} == {entry.actor}
        assert ground.get(order, key)["rev"] == "1"


async def test_different_fences_for_the_same_row_are_decided_each_for_itself(ground: Ground) -> None:
    """Only the one that the row carries gets through."""
    order = orders(fence="fence")
    ground.table(order)
    for number in range(10):
        ground.put(order, f"k{number}", "NEW", fence=7)
    calls = [(f"k{number % 10}", fence) for fence in (5, 6, 7, 8) for number in range(10)]
    answers = await asyncio.gather(*(ground.db.move(order.moves["pack"], key, fence=fence) for key, fence in calls))
    for (key, fence), answer in zip(calls, answers, strict=True):
        assert (answer.key, type(answer)) == (key, Moved if fence == 7 else Lost)
        if isinstance(answer, Lost):
            assert answer.fence == 7


async def test_tenants_at_once_keep_to_their_own_rows(ground: Ground) -> None:
    """The same keys, in the same statements."""
    order = orders(tenant="tenant")
    ground.table(order)
    for tenant in ("t1", "t2"):
        for number in range(20):
            ground.put(order, (tenant, f"k{number}"), "NEW" if tenant == "t1" else "SENT")
    stores = [ground.db.for_tenant(tenant) for tenant in ("t1", "t2")]
    answers = await asyncio.gather(
        *(store.move(order.moves["pack"], f"k{number}") for number in range(20) for store in stores)
    )
    assert [answer.outcome for answer in answers] == ["moved", "refused"] * 20


async def test_calls_on_postgresql_share_transactions(on_postgres: PostgresGround) -> None:
    """Seen by the transaction ids that the rows carry: far fewer than calls."""
    order = prepared(on_postgres, history=True)
    await asyncio.gather(*(on_postgres.db.move(order.moves["fail"], f"k{number}") for number in range(CALLS)))
    ((transactions,),) = on_postgres.run(
        f"SELECT count(DISTINCT xmin::text) FROM {order.table} WHERE status = 'FAILED'"
    )
    assert transactions <= CALLS // 10


async def test_calls_on_sqlite_share_commits(tmp_path: Path) -> None:
    """Seen by the statements that SQLite runs."""
    seen: list[str] = []

    class Traced(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.set_trace_callback(seen.append)

    async with open_ground("sqlite connect async", lambda: None, lambda: None, tmp_path) as ground:  # type: ignore[arg-type, return-value]
        order = prepared(ground, history=True)
        async with connect(f"sqlite:///{tmp_path}/ground.db", factory=Traced) as db:
            await asyncio.gather(*(db.move(order.moves["fail"], f"k{number}") for number in range(CALLS)))
    assert 1 <= seen.count("COMMIT") <= CALLS // 10


async def test_calls_on_redis_share_scripts(valkey_server: ValkeyServer) -> None:
    """Seen by the server's count of commands."""
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as client:
        async with connect(valkey_server.url) as db:
            ground = RedisGround(None, client)  # type: ignore[arg-type]
            order = prepared(ground, history=True)
            await db.move(order.moves["fail"], "nobody")
            client.config_resetstat()
            await asyncio.gather(*(db.move(order.moves["fail"], f"k{number}") for number in range(CALLS)))
            stats: Any = client.info("commandstats")
    assert 1 <= stats["cmdstat_evalsha"]["calls"] <= CALLS // 10


async def test_a_lone_call_is_one_statement_on_its_own(postgres_server: PostgresServer) -> None:
    """Nobody pays for a crowd that is not there: each call has a transaction of its own."""
    async with open_ground("postgres connect async", lambda: postgres_server, lambda: None, Path()) as ground:  # type: ignore[arg-type, return-value]
        order = prepared(ground)
        for number in (0, 5, 10):
            assert isinstance(await ground.db.move(order.moves["pack"], f"k{number}"), Moved)
        assert isinstance(ground, PostgresGround)
        query = f"SELECT count(DISTINCT xmin::text) FROM {order.table} WHERE status = 'PACKED' AND rev = 1"
        assert ground.run(query) == [(3,)]
