"""SQLite converts keys to the type of their column: a bulk still tells each row what happened to it (P1)."""

import sqlite3

import pytest

from raceproof import Already, Moved, bind
from raceproof.testing.contract.orders import orders
from tests.ddl import script

COLUMNS = "status text, rev int DEFAULT 0, packed_at text, packer text, box text"


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize("kind", ["INT", "TEXT", "REAL", ""])
@pytest.mark.parametrize("keys", [["01", "2"], [1, 2], ["1", "2"], ["1", "2.0"], ["k1", "k2"]], ids=str)
def test_every_row_that_moved_is_told_to_its_caller(keys: list[object], kind: str, history: bool) -> None:
    """Whatever spelling the key has, as many are told moved as rows have moved."""
    order = orders(table="orders", history=history)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"CREATE TABLE orders (order_id {kind} PRIMARY KEY, {COLUMNS})")
    connection.executemany("INSERT INTO orders (order_id, status) VALUES (?, 'NEW')", [(key,) for key in keys])
    if order.history:
        connection.executescript(script(order, dialect="sqlite", only="tables"))
    db = bind(connection)
    answers = db.move_many(order.moves["pack"], keys)
    assert [type(answer) for answer in answers] == [Moved, Moved]
    assert [type(db.move(order.moves["pack"], key)) for key in keys] == [Already, Already]
    assert connection.execute("SELECT sum(rev) FROM orders").fetchone() == (2,)
    connection.close()


@pytest.mark.parametrize("keys", [[1, "1"], ["1", 1]], ids=str)
def test_a_number_and_its_text_are_two_rows_where_the_column_has_no_type(keys: list[object]) -> None:
    """Each is told of its own."""
    order = orders(table="orders")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(f"CREATE TABLE orders (order_id PRIMARY KEY, {COLUMNS})")
    connection.executemany("INSERT INTO orders (order_id, status) VALUES (?, 'NEW')", [(key,) for key in keys])
    answers = bind(connection).move_many(order.moves["pack"], keys)
    assert [type(answer) for answer in answers] == [Moved, Moved]
    connection.close()
