"""The quick ends of many claims on PostgreSQL: all or none, by the key's index, and for keys as the caller writes them."""

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from raceproof import Claim, Lifecycle, Moved, Unknown, bind, connect
from raceproof.declare import Spec
from raceproof.kernel.postgres import PostgresDialect
from raceproof.moves.fast.postgres import FastPostgresMoves
from raceproof.moves.fast.postgres_ends import PostgresEnds
from raceproof.moves.request import request
from raceproof.moves.slots import values
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import PostgresGround, fresh_name
from tests.ddl import script
from tests.fix_beside import postgres_beside
from tests.promises.faults.fix_cut import Faulty, open_faulty

KIND = {"bigint": "number bigint", "uuid": "number uuid"}


@pytest.fixture
def ground(postgres_server: PostgresServer) -> Iterator[PostgresGround]:
    """PostgreSQL, seen from beside."""
    with postgres_beside(postgres_server.url) as found:
        yield found


def prepared(ground: PostgresGround, rows: int, kind: str = "bigint") -> Spec[str]:
    """Jobs that wait, numbered from 1."""
    spec = Lifecycle.from_dict(
        {
            "name": "Job",
            "table": fresh_name("jobs"),
            "key": "number",
            "statuses": ["QUEUED", "RUNNING", "DONE"],
            "moves": {
                "start": {"from": ["QUEUED"], "to": "RUNNING"},
                "finish": {"from": ["RUNNING"], "to": "DONE"},
            },
            "claims": {"work": {"move": "start", "lease": 60}},
        }
    )
    ground.run(
        f"CREATE TABLE {spec.table} ({KIND[kind]} PRIMARY KEY, status text NOT NULL DEFAULT 'QUEUED',"
        " claimed_by text, claimed_until timestamptz, fence bigint)"
    )
    ground.run(script(spec.claims["work"], dialect="postgres", only="indexes").replace("CONCURRENTLY ", ""))
    made = "n" if kind == "bigint" else "lpad(n::text, 32, '0')::uuid"
    ground.run(f"INSERT INTO {spec.table} (number) SELECT {made} FROM generate_series(1, {rows}) n")
    return spec


def counted(ground: PostgresGround, spec: Spec[str]) -> dict[str, int]:
    return dict(ground.run(f"SELECT status, count(*)::int FROM {spec.table} GROUP BY 1"))


async def test_what_the_store_refuses_for_one_row_takes_all_of_two_calls_back(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """The first statement has written by then; nothing of it stays, as the error says."""
    spec = prepared(ground, 200)
    ground.run(
        f"CREATE FUNCTION {spec.table}_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.status = 'DONE' AND NEW.number = 200 THEN RAISE 'not this one'; END IF; RETURN NEW; END $$"
    )
    ground.run(
        f"CREATE TRIGGER refuse BEFORE UPDATE ON {spec.table} FOR EACH ROW EXECUTE FUNCTION {spec.table}_refuse()"
    )
    async with connect(postgres_server.url) as db:
        claims = [
            *await db.claim(spec.claims["work"], 100),
            *await db.claim(spec.claims["work"], 100),
        ]
        assert len({one.fence for one in claims}) == 2
        with pytest.raises(Exception, match="not this one") as refused:
            await db.move_many(spec.moves["finish"], claims)
        assert "this call wrote nothing" in "".join(refused.value.__notes__)
        assert counted(ground, spec) == {"RUNNING": 200}
        answers = await db.move_many(spec.moves["finish"], claims[:-1])
        assert {type(answer) for answer in answers} == {Moved}
    assert counted(ground, spec) == {"RUNNING": 1, "DONE": 199}


async def test_the_ends_of_two_calls_have_an_unknown_end_together(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """The commit's acknowledgement is lost: each row says so, and asking again tells what is so."""
    spec = prepared(ground, 200)
    async with open_faulty("postgres-connect-async", postgres_server.url) as faulty:
        claims = await _two_calls(faulty, spec)
        faulty.proxy.cut_after_reply("COMMIT")
        answers = await faulty.db.move_many(spec.moves["finish"], claims)
        assert {type(answer) for answer in answers} == {Unknown}
        db = await faulty.after_the_cut()
        again = await db.move_many(spec.moves["finish"], claims)
        assert {answer.outcome for answer in again} == {"already"}
    assert counted(ground, spec) == {"DONE": 200}


async def _two_calls(faulty: Faulty, spec: Spec[str]) -> list[Claim[str, Any]]:
    work = spec.claims["work"]
    return [*await faulty.db.claim(work, 100), *await faulty.db.claim(work, 100)]


async def test_a_key_may_be_written_otherwise_than_the_store_writes_it(
    ground: PostgresGround, postgres_server: PostgresServer
) -> None:
    """A UUID as a text in capitals: the answer has the caller's own key, also where another of them was lost."""
    spec = prepared(ground, 3, "uuid")
    work, finish = spec.claims["work"], spec.moves["finish"]
    written = str(UUID(int=0xABC)).upper()
    ground.run(f"INSERT INTO {spec.table} (number) VALUES ('{written}')")
    async with connect(postgres_server.url) as db:
        mine = await db.claim_one(work, written)
        assert isinstance(mine, Claim)
        ground.run(f"UPDATE {spec.table} SET fence = {mine.fence}, status = 'RUNNING'")
        others = [_like(mine, key) for (key,) in ground.run(f"SELECT number::text FROM {spec.table}")[:3]]
        ground.run(f"UPDATE {spec.table} SET fence = 1 WHERE number = '{others[1].key}'")
        answers = await db.move_many(finish, [mine, *others])
    assert [answer.key for answer in answers] == [written, *(one.key for one in others)]
    assert [answer.outcome for answer in answers] == ["moved", "moved", "lost", "moved"]


def _like(one: Claim[str, Any], key: Any) -> Claim[str, Any]:
    return Claim(key, one.declared, one.fence, one.by, one.attempt, one.before, one.deadline, None)


@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
def test_rows_are_found_by_their_keys_however_many_wait(
    ground: PostgresGround, postgres_server: PostgresServer, plan: str
) -> None:
    """Without statistics too: a plan that reads all that waits would grow with it."""
    spec = prepared(ground, 20_000)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        claims = bind(connection).claim(spec.claims["work"], 500)
        first = request(spec.moves["finish"], claims[0])
        types = {"number": "bigint", "fence": "bigint"}
        statement = (
            PostgresEnds(FastPostgresMoves(PostgresDialect("format", 18)))
            .alike_text(first, types)
            .bind({**values(first), "rp_wanted_0": [one.key for one in claims]})
        )
        connection.execute(f"SET plan_cache_mode = {plan}")
        ((found,),) = connection.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", statement.params
        ).fetchall()
        told = json.dumps(found)
        assert "Seq Scan" not in told
        assert {int(rows) for rows in re.findall(r'"Rows Removed by [^"]*": (\d+)', told)} <= {0}
        assert counted(ground, spec) == {"QUEUED": 19_500, "DONE": 500}
