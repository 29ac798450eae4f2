"""How a claim finds its rows: by its partial index, whatever the size of the table, and also in a partitioned one."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest

from raceproof import Lifecycle, bind, connect
from raceproof.claims.fast.postgres import FastPostgresClaims
from raceproof.claims.request import claim_request
from raceproof.claims.sqlite import SqliteClaims
from raceproof.declare import Spec
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.sqlite import SqliteDialect
from raceproof.kernel.statement import Statement
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import fresh_name
from tests.ddl import script
from tests.promises.plans.test_moves import nodes


def declare(ordered: bool = False) -> Spec[str]:
    work: dict[str, Any] = {
        "move": "start",
        "lease": 30,
        "order_by": ["made_at"],
        "not_before": "rests_until",
    }
    if ordered:
        work["ordering_key"] = "owner"
    return Lifecycle.from_dict(
        {
            "name": "Big",
            "table": fresh_name("big_jobs"),
            "statuses": ["QUEUED", "RUNNING", "DONE"],
            "moves": {
                "start": {"from": ["QUEUED"], "to": "RUNNING"},
                "finish": {"from": ["RUNNING"], "to": "DONE"},
            },
            "claims": {"work": work},
        }
    )


COLUMNS = "status text NOT NULL, made_at bigint, owner text, claimed_by text, fence bigint"


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "ordering_key"])
def big(
    request: pytest.FixtureRequest, postgres_server: PostgresServer
) -> Iterator[tuple[psycopg.Connection[Any], Spec[str]]]:
    """A hundred thousand rows, of which a thousand wait."""
    spec = declare(request.param)
    connection = psycopg.connect(postgres_server.url, autocommit=True)
    connection.execute(
        f"CREATE TABLE {spec.table} (id bigint PRIMARY KEY, {COLUMNS}, claimed_until timestamptz, rests_until timestamptz)"
    )
    connection.execute(
        f"INSERT INTO {spec.table} (id, status, made_at, owner)"
        " SELECT n, CASE WHEN n % 100 = 0 THEN 'QUEUED' ELSE 'DONE' END, n, n::text FROM generate_series(1, 100000) n"
    )
    for statement in script(spec.claims["work"], dialect="postgres", only="indexes").split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"ANALYZE {spec.table}")
    yield connection, spec
    connection.close()


def test_a_claim_reads_neither_the_table_nor_all_rows_that_wait(
    big: tuple[psycopg.Connection[Any], Spec[str]],
) -> None:
    """The index gives the rows in order, and their places lead to them."""
    connection, spec = big
    program = FastPostgresClaims(PostgresDialect("format", 18)).acquire(claim_request(spec.claims["work"], limit=10))
    assert next(program).name == "table.kind"
    statement: Statement = program.send([(False, False)])
    rows = connection.execute(f"EXPLAIN (FORMAT JSON) {statement.text}", statement.params).fetchall()
    plan = nodes(rows[0][0][0]["Plan"])
    scans = {node["Node Type"] for node in plan if node.get("Relation Name") == spec.table}
    assert "Seq Scan" not in scans
    assert "Tid Scan" in scans
    assert "Index Scan" in scans


async def test_a_claim_of_a_few_rows_is_planned_once_on_connections_of_our_own(
    big: tuple[psycopg.Connection[Any], Spec[str]], postgres_server: PostgresServer
) -> None:
    """They find rows by an index whatever the statistics say, so the plan can be kept; the rows are the next in order."""
    _, spec = big
    async with connect(postgres_server.url) as db:
        driver: Any = db.driver
        found = [one.key for _ in range(8) for one in await db.claim(spec.claims["work"], 3)]
        kept = await driver._idle[-1]._connection.fetch(
            "SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE 'WITH cur %'"
        )
    assert found == [100 * number for number in range(1, 25)]
    assert [row[0] for row in kept] == [3]


@pytest.mark.parametrize("analyzed", [True, False])
async def test_on_a_connection_of_the_caller_s_it_is_planned_once_if_the_table_is_known_to_be_big(
    big: tuple[psycopg.Connection[Any], Spec[str]], postgres_server: PostgresServer, analyzed: bool
) -> None:
    """A plan that was made for a table of a few rows would be kept as well."""
    connection, spec = big
    if not analyzed:
        connection.execute("UPDATE pg_class SET reltuples = -1 WHERE relname = %s", [spec.table])
    own = await asyncpg.connect(postgres_server.url)
    try:
        db = bind(own)
        found = [one.key for _ in range(8) for one in await db.claim(spec.claims["work"], 3)]
        kept = await own.fetch(
            "SELECT generic_plans, statement FROM pg_prepared_statements WHERE statement LIKE 'WITH cur %'"
        )
    finally:
        await own.close()
        connection.execute(f"ANALYZE {spec.table}")
    assert found == sorted(set(found))
    assert len(found) == 24
    ((times, text),) = kept
    if analyzed:
        assert (times, "LIMIT 3\n" in text) == (3, True)
    else:
        assert "LIMIT $" in text


def test_a_claim_on_sqlite_uses_its_index() -> None:
    """The partial index gives the rows in order; nothing is sorted."""
    spec = declare()
    connection = sqlite3.connect(":memory:")
    connection.execute(
        f"CREATE TABLE {spec.table} (id INTEGER PRIMARY KEY, {COLUMNS}, claimed_until text, rests_until text)"
    )
    connection.executescript(script(spec.claims["work"], dialect="sqlite", only="indexes"))
    program = SqliteClaims(SqliteDialect("question")).acquire(claim_request(spec.claims["work"], limit=10))
    next(program)
    statement = program.send([])
    plan = json.dumps(connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", statement.params).fetchall())
    assert f"USING INDEX {spec.table}_work" in plan
    assert "TEMP B-TREE" not in plan
    connection.close()


async def test_rows_of_a_partitioned_table_are_claimed_by_their_keys(postgres_server: PostgresServer) -> None:
    """Two partitions have rows at the same places; nobody gets a row that was not found."""
    spec = declare()
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE {spec.table} (id bigint PRIMARY KEY, {COLUMNS}, claimed_until timestamptz,"
            " rests_until timestamptz) PARTITION BY RANGE (id)"
        )
        for number in range(3):
            connection.execute(
                f"CREATE TABLE {spec.table}_{number} PARTITION OF {spec.table}"
                f" FOR VALUES FROM ({number * 100}) TO ({number * 100 + 100})"
            )
        connection.execute(
            f"INSERT INTO {spec.table} (id, status, made_at) SELECT n, 'QUEUED', n FROM generate_series(0, 299) n"
        )
        first = bind(connection).claim(spec.claims["work"], 2)
        assert [one.key for one in first] == [0, 1]
        async with connect(postgres_server.url) as db:
            second = await db.claim(spec.claims["work"], 2)
            assert [one.key for one in second] == [2, 3]
            told = await db.move_many(spec.moves["finish"], [*first, *second])
        assert [one.outcome for one in told] == ["moved"] * 4
        found = connection.execute(f"SELECT status, count(*) FROM {spec.table} GROUP BY 1 ORDER BY 1").fetchall()
        assert found == [("DONE", 4), ("QUEUED", 296)]


@pytest.mark.parametrize("big", [True], indirect=True, ids=["ordering_key"])
def test_the_rows_before_one_in_its_line_are_found_by_the_whole_comparison(
    big: tuple[psycopg.Connection[Any], Spec[str]],
) -> None:
    """Also where the columns that order it may be NULL: for a row that has none, nobody looks for such."""
    connection, spec = big
    program = FastPostgresClaims(PostgresDialect("format", 18)).acquire(claim_request(spec.claims["work"], limit=10))
    next(program)
    statement: Statement = program.send([(False, False)])
    with connection.transaction(force_rollback=True):
        rows = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}", statement.params).fetchall()
    lines = [node for node in nodes(rows[0][0][0]["Plan"]) if node.get("Index Name") == f"{spec.table}_work_line"]
    ran = [node["Index Cond"] for node in lines if node["Actual Loops"]]
    assert len(ran) == 1
    assert "ROW(made_at, id) < ROW(t.made_at, t.id)" in ran[0]


def test_a_line_on_sqlite_is_looked_at_by_its_index() -> None:
    """Once for the rows before, and once for those that NULL puts first."""
    spec = declare(ordered=True)
    connection = sqlite3.connect(":memory:")
    connection.execute(
        f"CREATE TABLE {spec.table} (id INTEGER PRIMARY KEY, {COLUMNS}, claimed_until text, rests_until text)"
    )
    connection.executescript(script(spec.claims["work"], dialect="sqlite", only="indexes"))
    program = SqliteClaims(SqliteDialect("question")).acquire(claim_request(spec.claims["work"], limit=10))
    next(program)
    statement = program.send([])
    plan = [
        row[3]
        for row in connection.execute(f"EXPLAIN QUERY PLAN {statement.text}", statement.params)
        if row[3].startswith("SEARCH e ")
    ]
    line = f"SEARCH e USING COVERING INDEX {spec.table}_work_line"
    assert [one.replace("USING INDEX", "USING COVERING INDEX") for one in plan] == [
        f"{line} (owner=? AND made_at<?)",
        f"{line} (owner=? AND made_at=?)",
    ]
    connection.close()


@pytest.mark.parametrize("limit", [2, 100])
async def test_rows_are_claimed_through_a_view(postgres_server: PostgresServer, limit: int) -> None:
    """It has no places of rows; they are joined by their keys."""
    spec = declare()
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            f"CREATE TABLE {spec.table}_all (id bigint PRIMARY KEY, {COLUMNS}, claimed_until timestamptz,"
            " rests_until timestamptz)"
        )
        connection.execute(f"CREATE VIEW {spec.table} AS SELECT * FROM {spec.table}_all WHERE owner = 'ann'")
        connection.execute(
            f"INSERT INTO {spec.table}_all (id, status, made_at, owner)"
            " SELECT n, 'QUEUED', n, CASE WHEN n % 2 = 0 THEN 'ann' ELSE 'bob' END FROM generate_series(1, 8) n"
        )
        first = bind(connection).claim(spec.claims["work"], 2)
        assert [one.key for one in first] == [2, 4]
        async with connect(postgres_server.url) as db:
            second = await db.claim(spec.claims["work"], limit)
            assert [one.key for one in second] == [6, 8]
            told = await db.move_many(spec.moves["finish"], [*first, *second])
        assert [one.outcome for one in told] == ["moved"] * 4
        found = connection.execute(f"SELECT status, count(*) FROM {spec.table}_all GROUP BY 1 ORDER BY 1").fetchall()
        assert found == [("DONE", 4), ("QUEUED", 4)]
