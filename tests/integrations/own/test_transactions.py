"""A move inside the caller's transaction lives and dies with it (L3, L5, P15), on every kind of connection."""

from typing import Any

import pytest

from raceproof import Already, Missing, Moved, Refused, sql
from raceproof.declare import Spec
from raceproof.kernel.events import Event, subscribed
from raceproof.testing.contract.orders import orders
from tests.integrations.own.fix_kinds import IN_TRANSACTION, Case

pytestmark = pytest.mark.parametrize("case", IN_TRANSACTION, indirect=True)


def prepared(case: Case, *rows: tuple[str, str], **options: Any) -> Spec[str]:
    """A table with these rows, a history, and a table for writes of the caller's own."""
    order = orders(history=True, **options)
    case.ground.table(order)
    case.ground.run(f"CREATE TABLE {order.table}_notes (note text)")
    for key, status in rows:
        case.ground.put(order, key, status)
    return order


def statuses(case: Case, order: Spec[str]) -> dict[str, str]:
    return dict(case.ground.run(f"SELECT order_id, status FROM {order.table} ORDER BY order_id"))


def moves_kept(case: Case, order: Spec[str]) -> list[tuple[str, str]]:
    assert order.history is not None
    return case.ground.run(f"SELECT key, move FROM {order.history.table} ORDER BY id")


def notes(case: Case, order: Spec[str]) -> list[str]:
    return [note for (note,) in case.ground.run(f"SELECT note FROM {order.table}_notes ORDER BY note")]


async def test_a_rolled_back_move_never_happened(case: Case) -> None:
    """Row, revision, stamp and history are as before."""
    order = prepared(case, ("a", "NEW"))
    before = case.ground.get(order, "a")
    await case.own.begin()
    answer = await case.db.move(order.moves["pack"], "a", set={"packer": "ann"})
    assert isinstance(answer, Moved)
    assert case.own.in_transaction()
    await case.own.rollback()
    assert case.ground.get(order, "a") == before
    assert moves_kept(case, order) == []
    assert not case.own.in_transaction()


async def test_a_committed_move_stays_with_its_history(case: Case) -> None:
    """Nobody sees either before the commit, everybody sees both after it."""
    order = prepared(case, ("a", "NEW"))
    await case.own.begin()
    await case.own.run(f"INSERT INTO {order.table}_notes VALUES ('mine')")
    answer = await case.db.move(order.moves["pack"], "a", set={"packer": "ann"})
    assert isinstance(answer, Moved)
    assert (statuses(case, order), moves_kept(case, order), notes(case, order)) == ({"a": "NEW"}, [], [])
    await case.own.commit()
    assert statuses(case, order) == {"a": "PACKED"}
    assert moves_kept(case, order) == [("a", "pack")]
    assert notes(case, order) == ["mine"]


async def test_a_move_that_loses_leaves_the_transaction_and_its_writes_alone(case: Case) -> None:
    """Already, refused and missing rows end nothing, and what the caller wrote before and after is kept."""
    order = prepared(case, ("done", "DONE"), ("packed", "PACKED"))
    await case.own.begin()
    await case.own.run(f"INSERT INTO {order.table}_notes VALUES ('before')")
    answers = [await case.db.move(order.moves["pack"], key) for key in ("done", "packed", "nobody")]
    assert [type(answer) for answer in answers] == [Refused, Already, Missing]
    assert case.own.in_transaction()
    await case.own.run(f"INSERT INTO {order.table}_notes VALUES ('later')")
    await case.own.commit()
    assert notes(case, order) == ["before", "later"]
    assert statuses(case, order) == {"done": "DONE", "packed": "PACKED"}
    assert moves_kept(case, order) == []


async def test_bulks_are_part_of_the_transaction(case: Case) -> None:
    """By key and by predicate."""
    order = prepared(case, ("a", "NEW"), ("b", "NEW"), ("c", "SENT"))
    await case.own.begin()
    answers = await case.db.move_many(order.moves["pack"], ["a", "b", "nobody"], by="me")
    assert [type(answer) for answer in answers] == [Moved, Moved, Missing]
    (answer,) = await case.db.move_many(order.moves["take_back"], where=sql("order_id = {k}", k="c"))
    assert isinstance(answer, Moved)
    assert case.own.in_transaction()
    await case.own.rollback()
    assert statuses(case, order) == {"a": "NEW", "b": "NEW", "c": "SENT"}
    assert moves_kept(case, order) == []


async def test_a_repeated_call_is_part_of_the_transaction(case: Case) -> None:
    """The statements that look for the earlier call open and end nothing of their own."""
    order = prepared(case, ("a", "NEW"))
    await case.own.begin()
    first = await case.db.move(order.moves["pack"], "a", call="once")
    again = await case.db.move(order.moves["pack"], "a", call="once")
    assert (type(first), first.replayed, again.replayed) == (Moved, False, True)
    assert case.own.in_transaction()
    await case.own.rollback()
    assert statuses(case, order) == {"a": "NEW"}
    assert moves_kept(case, order) == []


async def test_moves_without_a_history_are_part_of_the_transaction_too(case: Case) -> None:
    """The single guarded UPDATE is no exception."""
    order = orders()
    case.ground.table(order)
    case.ground.put(order, "a", "NEW")
    await case.own.begin()
    assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
    assert isinstance(await case.db.move(order.moves["take_back"], "a"), Refused)
    await case.own.rollback()
    assert statuses(case, order) == {"a": "NEW"}


async def test_several_transactions_on_one_store(case: Case) -> None:
    """A store that was bound once serves one transaction after the other."""
    order = prepared(case, ("a", "NEW"))
    for end in (case.own.rollback, case.own.commit):
        await case.own.begin()
        assert isinstance(await case.db.move(order.moves["pack"], "a"), Moved)
        await end()
    assert statuses(case, order) == {"a": "PACKED"}
    assert moves_kept(case, order) == [("a", "pack")]


async def test_an_event_in_a_transaction_is_not_settled(case: Case) -> None:
    """The caller may still roll back."""
    order = prepared(case, ("a", "NEW"))
    told: list[Event] = []
    await case.own.begin()
    with subscribed(told.append):
        await case.db.move(order.moves["pack"], "a")
        await case.db.move(order.moves["pack"], "a", call="again")
    assert [event.settled for event in told] == [False, False]
    await case.own.rollback()
