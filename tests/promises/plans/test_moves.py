"""How PostgreSQL and SQLite find the rows: by the key, never by reading the table."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from raceproof import Lifecycle, bind
from raceproof.declare import Spec
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.statement import Program, Rows, Statement
from raceproof.moves.fast.postgres import FastPostgresMoves
from raceproof.moves.request import MoveRequest, request
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import fresh_name
from tests.ddl import script

MOVES = {
    "go": {"from": ["A", "C"], "to": "B", "sets": ["note"]},
    "back": {"from": ["B"], "to": "A"},
    "rest": {"from": ["A"], "to": "C"},
}


def declare() -> Spec[str]:
    return Lifecycle.from_dict(
        {
            "name": "Big",
            "table": fresh_name("big"),
            "key": ["shop", "number"],
            "statuses": ["A", "B", "C"],
            "revision": "rev",
            "history": fresh_name("history"),
            "moves": MOVES,
        }
    )


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]


@pytest.fixture(scope="module")
def big(postgres_server: PostgresServer) -> Iterator[tuple[psycopg.Connection[Any], Spec[str]]]:
    """A hundred thousand rows, and a history of as many."""
    spec = declare()
    connection = psycopg.connect(postgres_server.url, autocommit=True)
    connection.execute(
        f"CREATE TABLE {spec.table} (shop int, number bigint, status text NOT NULL, rev int NOT NULL DEFAULT 0,"
        " note text, PRIMARY KEY (shop, number))"
    )
    connection.execute(f"INSERT INTO {spec.table} SELECT n % 10, n, 'A' FROM generate_series(1, 100000) n")
    connection.execute(script(spec, dialect="postgres", only="tables"))
    assert spec.history is not None
    connection.execute(
        f"INSERT INTO {spec.history.table} (lifecycle, key, move, outcome, after)"
        " SELECT 'Big', n % 10 || ':' || n, 'go', 'moved', 'A' FROM generate_series(1, 100000) n"
    )
    connection.execute(f"ANALYZE {spec.table}")
    connection.execute(f"ANALYZE {spec.history.table}")
    yield connection, spec
    connection.close()


def second(program: Program[Any], rows: Rows) -> Statement:
    """What a program asks after its first statement has returned these rows."""
    next(program)
    return program.send(rows)


def ask(spec: Spec[str], key: tuple[int, int]) -> MoveRequest:
    return request(spec.moves["go"], key, set={"note": "x"}, by="ann")


@pytest.mark.parametrize("version", [16, 18])
@pytest.mark.parametrize("which", ["one", "swift", "many", "who"])
def test_a_move_reads_its_rows_by_index(
    big: tuple[psycopg.Connection[Any], Spec[str]], which: str, version: int
) -> None:
    """No plan of a move reads the whole table, in its generic form, which is the one that stays."""
    connection, spec = big
    moves = FastPostgresMoves(PostgresDialect("dollar", version))
    one = ask(spec, (5, 5))
    types = {"shop": "integer", "number": "bigint", "note": "text"}
    statement = {
        "one": lambda: next(moves.decide(one)),
        "swift": lambda: next(moves.one(one)),
        "many": lambda: second(moves.bulk([one, one], {"skip_locked": "", "patience": ""}), list(types.items())),
        "who": lambda: second(moves.decide(one), [("A", 1, None, 0, "5:5", None, None)]),
    }[which]()
    if which == "swift":
        assert (statement.name == "move.fast") == (version == 18)
    name = fresh_name("plan")
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute(f"PREPARE {name} AS {statement.text}")
    nulls = ", ".join("NULL" for _ in statement.params)
    row = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name}({nulls})").fetchone()
    assert row is not None
    kinds = [node["Node Type"] for node in nodes(row[0][0]["Plan"])]
    assert "Seq Scan" not in kinds
    assert any("Index" in kind for kind in kinds)


def test_sqlite_finds_the_row_by_its_key(tmp_path: Path) -> None:
    """Each statement of a move searches; none scans."""
    spec = declare()
    connection = sqlite3.connect(tmp_path / "plan.db", isolation_level=None)
    connection.execute(
        f"CREATE TABLE {spec.table} (shop INT, number INT, status TEXT, rev INT, note TEXT, PRIMARY KEY (shop, number))"
    )
    connection.executescript(script(spec, dialect="sqlite", only="tables"))
    connection.execute(f"INSERT INTO {spec.table} VALUES (5, 5, 'A', 0, NULL)")
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    db = bind(connection)
    assert db.move(spec.moves["go"], (5, 5), set={"note": "x"}).won
    assert not db.move(spec.moves["go"], (5, 5), set={"note": "x"}).won
    connection.set_trace_callback(None)
    texts = [text for text in asked if text.startswith(("SELECT", "UPDATE"))]
    assert len(texts) > 3
    for text in texts:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
        assert not [step for step in plan if step.startswith("SCAN")], (text, plan)
    connection.close()
