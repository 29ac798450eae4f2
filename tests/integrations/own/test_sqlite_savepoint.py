"""On SQLite a call that fails in the caller's transaction leaves nothing of itself, and all of the caller's (L3, P15)."""

import sqlite3
from typing import Any

import pytest

from raceproof import Conflict, Moved, bind
from raceproof.declare import Spec
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.orders import orders
from tests.integrations.own.fix_kinds import SQLITE_IN_TRANSACTION, Case

every_kind = pytest.mark.parametrize("case", SQLITE_IN_TRANSACTION, indirect=True)


def prepared(case: Case, **options: Any) -> Spec[str]:
    order = orders(history=True, **options)
    case.ground.table(order)
    case.ground.run("CREATE TABLE notes (note text)")
    for key in "abc":
        case.ground.put(order, key, "NEW")
    return order


def statuses(case: Case, order: Spec[str]) -> set[str]:
    return {status for (status,) in case.ground.run(f"SELECT DISTINCT status FROM {order.table}")}


@every_kind
@pytest.mark.parametrize("call", [None, "once"])
async def test_a_move_whose_history_fails_is_undone_alone(case: Case, call: str | None) -> None:
    """The row was written before its history could not be; the caller's own writes are kept, the move's are not."""
    order = prepared(case)
    assert order.history is not None
    case.ground.run(
        f"CREATE TRIGGER full BEFORE INSERT ON {order.history.table} BEGIN SELECT RAISE(ABORT, 'full'); END"
    )
    await case.own.begin()
    await case.own.run("INSERT INTO notes VALUES ('mine')")
    with pytest.raises(Exception, match="full"):
        await case.db.move(order.moves["pack"], "a", call=call)
    assert case.own.in_transaction()
    assert await case.own.run(f"SELECT status FROM {order.table} WHERE order_id = 'a'") == [("NEW",)]
    await case.own.run("INSERT INTO notes VALUES ('later')")
    await case.own.commit()
    assert case.ground.run("SELECT note FROM notes ORDER BY note") == [("later",), ("mine",)]
    assert statuses(case, order) == {"NEW"}


@every_kind
async def test_a_bulk_with_one_bad_row_is_undone_whole(case: Case) -> None:
    """The rows before the bad one are undone too; the transaction is usable and keeps the caller's writes."""
    order = prepared(case)
    case.ground.run(f"CREATE UNIQUE INDEX once ON {order.table} (packer)")
    await case.own.begin()
    await case.own.run("INSERT INTO notes VALUES ('mine')")
    columns = {"a": {"packer": "x"}, "b": {"packer": "y"}, "c": {"packer": "x"}}
    with pytest.raises(Exception, match="UNIQUE"):
        await case.db.move_many(order.moves["pack"], columns)
    assert isinstance(await case.db.move(order.moves["fail"], "b"), Moved)
    await case.own.commit()
    assert case.ground.run("SELECT note FROM notes") == [("mine",)]
    assert statuses(case, order) == {"NEW", "FAILED"}


@every_kind
async def test_a_stale_snapshot_is_a_conflict(case: Case) -> None:
    """The transaction has read, somebody else has written since: it cannot write any more, and nothing was written."""
    order = prepared(case)
    plain = orders(table=fresh_name("plain"))
    case.ground.table(plain)
    case.ground.put(plain, "a", "NEW")
    await case.own.begin()
    if not really_in_transaction(case):
        await case.own.run("BEGIN")
    assert await case.own.run("SELECT count(*) FROM notes") == [(0,)]
    case.ground.run("INSERT INTO notes VALUES ('theirs')")
    for one in (order, plain):
        answer = await case.db.move(one.moves["pack"], "a")
        assert isinstance(answer, Conflict)
        assert "run the transaction again" in str(answer)
        assert {type(each) for each in await case.db.move_many(one.moves["pack"], ["a"])} == {Conflict}
    await case.own.rollback()
    assert statuses(case, order) == {"NEW"}
    await case.own.begin()
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
    await case.own.commit()


def really_in_transaction(case: Case) -> bool:
    """Whether SQLite itself is in a transaction: the standard module opens its own only before a write."""
    return not hasattr(case.own, "engine") and case.own.in_transaction()


@every_kind
async def test_another_writer_in_the_way_is_a_conflict(case: Case) -> None:
    """Who waits for the other one in a transaction of their own could wait forever."""
    order = prepared(case)
    await case.own.begin()
    case.ground.run("BEGIN IMMEDIATE")
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Conflict)
    case.ground.run("COMMIT")
    await case.own.rollback()
    assert statuses(case, order) == {"NEW"}


def test_the_callers_row_factory_changes_nothing() -> None:
    """Rows come to the library as they are, and to the caller as they want them."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = lambda cursor, row: {
        column[0]: value for column, value in zip(cursor.description, row, strict=True)
    }
    check_moves_on(connection)
    assert connection.execute("SELECT 1 AS one").fetchall() == [{"one": 1}]
    connection.close()


def test_the_callers_text_factory_changes_nothing() -> None:
    """Statuses are read as text even where the caller wants bytes."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.text_factory = bytes
    check_moves_on(connection)
    assert connection.execute("SELECT 'x'").fetchall() == [(b"x",)]
    connection.close()


def check_moves_on(connection: sqlite3.Connection) -> None:
    order = orders(table="orders")
    connection.execute("CREATE TABLE orders (order_id text PRIMARY KEY, status text, rev int, packed_at text)")
    connection.execute("INSERT INTO orders VALUES ('a', 'NEW', 0, NULL)")
    db = bind(connection)
    assert [db.move(order.moves["pack"], "a").outcome for _ in range(2)] == ["moved", "already"]
    answer = db.move(order.moves["take_back"], "a")
    assert str(answer).startswith("Order.take_back was refused for 'a': it is at PACKED;")
    row = db.read(order, "a")
    assert row is not None
    assert (row["status"], row["rev"]) == ("PACKED", 1)


def test_a_savepoint_of_the_callers_with_our_name_survives() -> None:
    """Savepoints nest: ours ends before theirs."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    order = orders(table="orders")
    connection.execute("CREATE TABLE orders (order_id text PRIMARY KEY, status text, rev int, packed_at text)")
    connection.execute("INSERT INTO orders VALUES ('a', 'NEW', 0, NULL), ('b', 'NEW', 0, NULL)")
    connection.execute('SAVEPOINT "raceproof"')
    db = bind(connection)
    assert [answer.won for answer in db.move_many(order.moves["pack"], ["a", "b"])] == [True, True]
    connection.execute('ROLLBACK TO "raceproof"')
    connection.execute('RELEASE "raceproof"')
    assert connection.execute("SELECT DISTINCT status FROM orders").fetchall() == [("NEW",)]
    connection.close()
