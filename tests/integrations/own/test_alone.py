"""Outside of a transaction each call is committed when it returns, and leaves none open (L3, L5, P15)."""

from typing import Any

import pytest

from raceproof import Moved, Refused, sql
from raceproof.declare import Spec
from raceproof.testing.contract.orders import orders
from tests.fix_told import says_it_wrote_nothing, says_nothing_was_kept
from tests.integrations.own.fix_kinds import ALONE, Case

pytestmark = pytest.mark.parametrize("case", ALONE, indirect=True)


def prepared(case: Case, *rows: tuple[str, str], **options: Any) -> Spec[str]:
    """A table with these rows, with or without a history."""
    order = orders(**options)
    case.ground.table(order)
    for key, status in rows:
        case.ground.put(order, key, status)
    return order


def statuses(case: Case, order: Spec[str]) -> dict[str, str]:
    return dict(case.ground.run(f"SELECT order_id, status FROM {order.table} ORDER BY order_id"))


def open_transaction(case: Case) -> bool:
    """SQLAlchemy believes in a transaction even in AUTOCOMMIT: there the driver below is asked."""
    if not hasattr(case.own, "engine"):
        return case.own.in_transaction()
    raw: Any = case.own.connection.connection.driver_connection  # type: ignore[attr-defined]
    return bool(raw.in_transaction if hasattr(raw, "in_transaction") else raw.info.transaction_status)


@pytest.mark.parametrize("history", [False, True])
async def test_each_call_is_committed_when_it_returns(case: Case, history: bool) -> None:
    """One row, many rows, rows by a predicate and losers, seen from another connection at once."""
    order = prepared(case, ("a", "NEW"), ("b", "RETURNED"), ("c", "NEW"), ("d", "SENT"), history=history)
    await case.db.move(order.moves["pack"], "a")
    assert statuses(case, order)["a"] == "PACKED"
    await case.db.move_many(order.moves["pack"], ["b", "c"])
    assert statuses(case, order) | {"b": "PACKED", "c": "PACKED"} == statuses(case, order)
    await case.db.move_many(order.moves["take_back"], where=sql("order_id = {k}", k="d"))
    assert statuses(case, order)["d"] == "RETURNED"
    assert isinstance(await case.db.move(order.moves["take_back"], "a"), Refused)
    assert not open_transaction(case)
    if order.history:
        kept = case.ground.run(f"SELECT key, move FROM {order.history.table} ORDER BY key")
        assert kept == [("a", "pack"), ("b", "pack"), ("c", "pack"), ("d", "take_back")]


async def test_a_repeated_call_is_committed_when_it_returns(case: Case) -> None:
    """Its own transaction of several statements is closed behind it, won or not."""
    order = prepared(case, ("a", "NEW"), history=True)
    first = await case.db.move(order.moves["pack"], "a", call="once")
    assert (type(first), first.replayed, statuses(case, order)) == (Moved, False, {"a": "PACKED"})
    assert not open_transaction(case)
    again = await case.db.move(order.moves["pack"], "a", call="once")
    assert (type(again), again.replayed) == (Moved, True)
    assert isinstance(await case.db.move(order.moves["take_back"], "a", call="other"), Refused)
    assert not open_transaction(case)


@pytest.mark.parametrize("call", [None, "once"])
async def test_a_call_that_fails_leaves_nothing_behind(case: Case, call: str | None) -> None:
    """Without its history the row does not move, no transaction stays open, and the next call works."""
    order = prepared(case, ("a", "NEW"), history=True)
    plain = prepared(case, ("a", "NEW"))
    assert order.history is not None
    case.ground.run(f"ALTER TABLE {order.history.table} RENAME TO {order.history.table}_away")
    with pytest.raises(Exception, match=order.history.table) as failure:
        await case.db.move(order.moves["pack"], "a", call=call)
    says = says_nothing_was_kept if call is None else says_it_wrote_nothing
    assert says(failure.value)
    assert statuses(case, order) == {"a": "NEW"}
    assert not open_transaction(case)
    assert isinstance(await case.db.move(plain.moves["pack"], "a"), Moved)
    assert statuses(case, plain) == {"a": "PACKED"}


async def test_a_bulk_that_fails_leaves_nothing_behind(case: Case) -> None:
    """Not even the rows before the bad one."""
    order = prepared(case, *((key, "NEW") for key in "abc"), history=True)
    case.ground.run(f"CREATE UNIQUE INDEX {order.table}_once ON {order.table} (packer)")
    with pytest.raises(Exception, match=r"(?i)unique"):
        await case.db.move_many(order.moves["pack"], {"a": {"packer": "x"}, "b": {"packer": "y"}, "c": {"packer": "x"}})
    assert set(statuses(case, order).values()) == {"NEW"}
    assert not open_transaction(case)
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)


async def test_a_commit_that_is_refused_leaves_nothing_behind(case: Case) -> None:
    """A deferred foreign key fails in the commit itself; then nothing was kept and the next call works."""
    order = prepared(case, ("a", "NEW"), history=True)
    case.ground.run(f"CREATE TABLE {order.table}_people (name text PRIMARY KEY)")
    case.ground.run(f"DROP TABLE {order.table}")
    reference = f"REFERENCES {order.table}_people (name) DEFERRABLE INITIALLY DEFERRED"
    case.ground.table(order, {"packer": f"text {reference}"})
    case.ground.put(order, "a", "NEW")
    if case.own.store.dialect == "sqlite":
        await case.own.run("PRAGMA foreign_keys = ON")
    for call in (None, "once"):
        with pytest.raises(Exception, match=r"(?i)foreign key"):
            await case.db.move(order.moves["pack"], "a", set={"packer": "nobody"}, call=call)
        assert statuses(case, order) == {"a": "NEW"}
        assert not open_transaction(case)
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
    assert statuses(case, order) == {"a": "PACKED"}


async def test_closing_a_bound_store_closes_nothing(case: Case) -> None:
    """The connection was the caller's before and is the caller's after."""
    await case.db.close()
    assert await case.own.run("SELECT 1") == [(1,)]
    order = prepared(case, ("a", "NEW"))
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
