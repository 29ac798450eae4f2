"""One bad row, locked row or failing caller never spoils a neighbour that shares its statement (P1, P12)."""

import asyncio
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import pytest
import redis

from raceproof import Conflict, Moved, Refused, connect, sql
from raceproof.declare import Spec
from raceproof.kernel.errors import ScriptFailed
from raceproof.testing import PostgresServer, ValkeyServer
from raceproof.testing.contract.grounds import Ground, PostgresGround, RedisGround
from raceproof.testing.contract.orders import orders
from tests.fix_waiting import DEADLINE, blocked, until_blocked

KEYS = [f"k{number}" for number in range(40)]
BAD = "k17"


def rows(ground: Ground, order: Spec[str], types: dict[str, str] | None = None) -> Spec[str]:
    ground.table(order, types)
    for key in KEYS:
        ground.put(order, key, "NEW")
    return order


async def all_at_once(ground: Ground, order: Spec[str], **options: Any) -> list[Any]:
    """Every key in one crowd; the bad one's packer is `bad`."""
    return await asyncio.gather(
        *(
            ground.db.move(order.moves["pack"], key, set={"packer": "bad" if key == BAD else "good"}, **options)
            for key in KEYS
        ),
        return_exceptions=True,
    )


def check_neighbours(ground: Ground, order: Spec[str], answers: list[Any]) -> Any:
    """All but the bad one are told that they moved, and did; returns what the bad one was told."""
    told = dict(zip(KEYS, answers, strict=True))
    bad = told.pop(BAD)
    for key, answer in told.items():
        assert isinstance(answer, Moved), f"{key}: {answer}"
        assert (answer.key, ground.get(order, key)["rev"]) == (key, "1")
    return bad


@pytest.mark.parametrize("history", [False, True])
async def test_a_value_that_the_table_refuses_fails_alone(on_postgres: PostgresGround, history: bool) -> None:
    """A CHECK constraint on one row of the statement."""
    order = rows(on_postgres, orders(history=history), {"packer": "text CHECK (packer <> 'bad')"})
    bad = check_neighbours(on_postgres, order, await all_at_once(on_postgres, order))
    assert isinstance(bad, asyncpg.CheckViolationError)
    assert any(repr(BAD) in note for note in bad.__notes__)
    assert on_postgres.get(order, BAD)["status"] == "NEW"


async def test_a_value_that_the_table_refuses_fails_alone_everywhere(ground: Ground) -> None:
    """On SQLite a CHECK too; a hash in Redis refuses bytes, before anything is sent."""
    order = rows(ground, orders(history=True), {"packer": "text CHECK (packer <> 'bad')"})
    refused = b"bad" if isinstance(ground, RedisGround) else "bad"
    answers = await asyncio.gather(
        *(ground.db.move(order.moves["pack"], key, set={"packer": refused if key == BAD else "good"}) for key in KEYS),
        return_exceptions=True,
    )
    assert isinstance(check_neighbours(ground, order, answers), Exception)
    assert ground.get(order, BAD)["status"] == "NEW"


async def test_a_value_of_the_wrong_type_fails_alone(on_postgres: PostgresGround) -> None:
    """It does not even reach the server."""
    order = rows(on_postgres, orders(), {"packer": "int"})
    answers = await asyncio.gather(
        *(on_postgres.db.move(order.moves["pack"], key, set={"packer": "x" if key == BAD else 5}) for key in KEYS),
        return_exceptions=True,
    )
    assert isinstance(check_neighbours(on_postgres, order, answers), Exception)


async def test_a_key_of_the_wrong_type_fails_alone(on_postgres: PostgresGround) -> None:
    """The neighbours' keys are right."""
    order = orders()
    on_postgres.table(order, {"order_id": "int"})
    for number in range(20):
        on_postgres.put(order, number, "NEW")
    keys: list[Any] = [*range(20), "seventeen", 2**70]
    answers: list[Any] = await asyncio.gather(
        *(on_postgres.db.move(order.moves["pack"], key) for key in keys), return_exceptions=True
    )
    assert [answer.outcome for answer in answers[:20]] == ["moved"] * 20
    assert isinstance(answers[20], Exception)
    assert any("seventeen" in note for note in answers[20].__notes__)


@pytest.mark.parametrize("errcode", ["raise_exception", "serialization_failure", "deadlock_detected"])
async def test_a_trigger_that_raises_fails_alone(on_postgres: PostgresGround, errcode: str) -> None:
    """Whatever it raises: an error for the one, or a conflict, and nothing for the others."""
    order = rows(on_postgres, orders(history=True))
    on_postgres.run(
        f"CREATE FUNCTION {order.table}_f() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE '{errcode}' USING ERRCODE = '{errcode}'; END $$"
    )
    on_postgres.run(
        f"CREATE TRIGGER no BEFORE UPDATE ON {order.table} FOR EACH ROW WHEN (NEW.order_id = '{BAD}') "
        f"EXECUTE FUNCTION {order.table}_f()"
    )
    bad = check_neighbours(on_postgres, order, await all_at_once(on_postgres, order))
    assert isinstance(bad, Exception if errcode == "raise_exception" else Conflict)


async def test_a_row_that_redis_cannot_write_fails_alone(valkey_server: ValkeyServer) -> None:
    """The history of one row is not a stream: that row does not move, and the others' moves are told as such."""
    order = orders(history=True)
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as client:
        for key in KEYS:
            client.hset(f"{order.table}:{key}", mapping={"status": "NEW", "rev": 0})
        client.set(f"{order.table}/history:{BAD}", "not a stream")
        async with connect(valkey_server.url) as db:
            answers = await asyncio.gather(*(db.move(order.moves["pack"], key) for key in KEYS), return_exceptions=True)
        told = dict(zip(KEYS, answers, strict=True))
        bad = told.pop(BAD)
        assert isinstance(bad, ScriptFailed)
        assert client.hget(f"{order.table}:{BAD}", "status") == "NEW"
        assert {key: str(answer) for key, answer in told.items() if not isinstance(answer, Moved)} == {}


async def test_a_caller_whose_class_refuses_the_row_fails_alone(ground: Ground) -> None:
    """The neighbours' rows were moved by then, and they are told so."""

    @dataclass
    class Picky:
        order_id: str

        def __post_init__(self) -> None:
            raise ValueError("I do not like it")

    order = rows(ground, orders())
    answers = await asyncio.gather(
        *(ground.db.move(order.moves["pack"], key, returning=Picky if key == BAD else "order_id") for key in KEYS),
        return_exceptions=True,
    )
    assert isinstance(check_neighbours(ground, order, answers), ValueError)


async def test_a_locked_row_holds_up_nobody_else(on_postgres: PostgresGround, postgres_server: PostgresServer) -> None:
    """Its own caller waits, the others do not, and all get their answers in the end."""
    order = rows(on_postgres, orders(history=True))
    pack = order.moves["pack"]
    with psycopg.connect(postgres_server.url) as rival:
        rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = '{BAD}' FOR UPDATE".encode())
        waiting = asyncio.create_task(on_postgres.db.move(pack, BAD))
        await until_blocked(on_postgres.run, order.table)
        async with asyncio.timeout(DEADLINE):
            others = [key for key in KEYS if key != BAD]
            answers = await asyncio.gather(*(on_postgres.db.move(pack, key) for key in (*others, "nobody")))
            lone = await on_postgres.db.move(order.moves["send"], "k1")
        assert [answer.outcome for answer in answers] == ["moved"] * len(others) + ["missing"]
        assert isinstance(lone, Moved)
        assert not waiting.done()
        rival.rollback()
    assert isinstance(await waiting, Moved)


async def all_that_will_block(ground: PostgresGround, order: Spec[str]) -> None:
    """Wait until one is seen blocked, and give the others the chance to get there too."""
    await until_blocked(ground.run, order.table)
    for _ in range(100):
        blocked(ground.run, order.table)
        await asyncio.sleep(0)


@pytest.mark.parametrize("leaver", [False, True], ids=["all-wait", "one-leaves"])
async def test_many_callers_of_a_locked_row_hold_up_nobody_else(
    on_postgres: PostgresGround, postgres_server: PostgresServer, leaver: bool
) -> None:
    """However many wait, there is a way through for calls that need not: moves, missing rows, guards, reading."""
    order = rows(on_postgres, orders(history=True))
    pack = order.moves["pack"]
    with psycopg.connect(postgres_server.url) as rival:
        rival.execute(f"SELECT 1 FROM {order.table} WHERE order_id = '{BAD}' FOR UPDATE".encode())
        waiting = [asyncio.create_task(on_postgres.db.move(pack, BAD)) for _ in range(8)]
        await all_that_will_block(on_postgres, order)
        if leaver:
            waiting.pop(0).cancel()
            await all_that_will_block(on_postgres, order)
        try:
            async with asyncio.timeout(5):
                assert isinstance(await on_postgres.db.move(pack, "k1"), Moved)
                assert (await on_postgres.db.move(pack, "nobody")).outcome == "missing"
                assert isinstance(await on_postgres.db.move(pack, "k2", where=sql("rev = {r}", r=0)), Moved)
                assert isinstance(await on_postgres.db.move(order.moves["take_back"], "k1"), Refused)
                assert (await on_postgres.db.read(order, "k1"))["status"] == "PACKED"
        finally:
            rival.rollback()
            outcomes = [answer.outcome for answer in await asyncio.gather(*waiting)]
    # a call that was cancelled goes on in the server, so it may be the one that has moved the row
    assert outcomes.count("moved") in ((0, 1) if leaver else (1,))
    assert set(outcomes) <= {"already", "moved"}
    assert on_postgres.get(order, BAD)["rev"] == "1"


async def test_a_lock_on_another_table_holds_up_nobody_else(
    on_postgres: PostgresGround, postgres_server: PostgresServer
) -> None:
    """One row's new value refers to a row that somebody holds; only that caller has to wait for it."""
    order = orders()
    people = f"{order.table}_people"
    on_postgres.run(f"CREATE TABLE {people} (name text PRIMARY KEY)")
    on_postgres.run(f"INSERT INTO {people} VALUES ('good'), ('bad')")
    rows(on_postgres, order, {"packer": f"text REFERENCES {people} (name)"})
    with psycopg.connect(postgres_server.url) as rival:
        rival.execute(f"SELECT 1 FROM {people} WHERE name = 'bad' FOR UPDATE".encode())
        pack = order.moves["pack"]
        calls = {
            key: asyncio.create_task(on_postgres.db.move(pack, key, set={"packer": "bad" if key == BAD else "good"}))
            for key in KEYS
        }
        waiting = calls.pop(BAD)
        try:
            async with asyncio.timeout(5):
                answers = await asyncio.gather(*calls.values())
        finally:
            rival.rollback()
    assert {type(answer) for answer in answers} == {Moved}
    assert isinstance(await waiting, Moved)
