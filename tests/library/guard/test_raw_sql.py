"""With guards in the table the declared moves are the only ones possible, for raw SQL too (L6, P1, P2)."""

from itertools import product

import pytest

from raceproof import Moved, column
from raceproof.testing.contract.orders import orders
from tests.library.guard.fix_guarded import STATUSES, Guarded, declared, renamed

PAIRS = [pair for pair in product(STATUSES, STATUSES) if pair[0] != pair[1]]


def test_raw_sql_can_go_the_declared_ways_and_no_others(at: Guarded) -> None:
    """Every pair of statuses; a refused change changes nothing."""
    order = at.guarded()
    for before, after in PAIRS:
        at.run("BEGIN")
        if (before, after) in declared(order):
            at.update(order, f"at-{before}", after)
            assert at.status(order, f"at-{before}") == after
        else:
            with pytest.raises(at.Refusal, match="Order may not"):
                at.update(order, f"at-{before}", after)
        at.run("ROLLBACK")
        assert at.status(order, f"at-{before}") == before


@pytest.mark.parametrize("before", STATUSES)
def test_no_row_can_be_made_to_have_no_status(at: Guarded, before: str) -> None:
    """NULL is not declared either, and would open every way from there."""
    order = at.guarded()
    with pytest.raises(at.Refusal):
        at.update(order, f"at-{before}", None)
    assert at.status(order, f"at-{before}") == before


@pytest.mark.parametrize("after", STATUSES)
def test_a_row_without_a_status_stays_where_it_is(at: Guarded, after: str) -> None:
    """One from before the guards: no move is declared from nowhere."""
    order = at.table()
    at.run(f"INSERT INTO {order.table} (order_id, status) VALUES ('odd', NULL)")
    at.install(order)
    with pytest.raises(at.Refusal):
        at.update(order, "odd", after)


@pytest.mark.parametrize("status", [*STATUSES, "NONSENSE", None])
def test_a_row_is_born_at_an_initial_status_only(at: Guarded, status: str | None) -> None:
    """Not at a later one, nor at none."""
    order = at.guarded()
    if status == "NEW":
        at.insert(order, "born", status)
    else:
        with pytest.raises(at.Refusal):
            at.insert(order, "born", status)
    found = at.run(f"SELECT status FROM {order.table} WHERE order_id = 'born'")
    assert found == ([("NEW",)] if status == "NEW" else [])


def test_every_initial_status_is_one(at: Guarded) -> None:
    """A lifecycle may have several."""
    order = at.guarded(orders(initial=["NEW", "RETURNED"]))
    at.insert(order, "a", "NEW")
    at.insert(order, "b", "RETURNED")
    with pytest.raises(at.Refusal):
        at.insert(order, "c", "SENT")


def test_an_update_that_keeps_the_status_is_free(at: Guarded) -> None:
    """Other columns, and the same status again, even a terminal or an undeclared one."""
    order = at.table()
    at.ground.put(order, "old", "UNDECLARED")
    at.ground.put(order, "done", "DONE")
    at.install(order)
    at.run(f"UPDATE {order.table} SET packer = 'x', status = status")
    at.update(order, "old", "UNDECLARED")
    with pytest.raises(at.Refusal):
        at.update(order, "old", "NEW")


def test_one_bad_row_refuses_the_whole_statement(at: Guarded) -> None:
    """A statement over many rows is one."""
    order = at.guarded()
    with pytest.raises(at.Refusal):
        at.run(f"UPDATE {order.table} SET status = 'PACKED'")
    assert [at.status(order, f"at-{status}") for status in STATUSES] == list(STATUSES)


def test_an_upsert_goes_the_declared_ways_only(at: Guarded) -> None:
    """INSERT … ON CONFLICT DO UPDATE is an update in the end."""
    order = at.guarded()
    upsert = (
        "INSERT INTO {table} AS t (order_id, status, rev) VALUES ('at-NEW', 'NEW', 0) "
        "ON CONFLICT (order_id) DO UPDATE SET status = '{status}'"
    )
    with pytest.raises(at.Refusal):
        at.run(upsert.format(table=order.table, status="DONE"))
    at.run(upsert.format(table=order.table, status="PACKED"))
    assert at.status(order, "at-NEW") == "PACKED"


def test_moves_of_the_library_work_with_guards(at: Guarded) -> None:
    """One, many, by predicate, repeated."""
    order = at.guarded()
    assert isinstance(at.db.move(order.moves["pack"], "at-NEW", call="x"), Moved)
    answers = at.db.move_many(order.moves["fail"], ["at-NEW", "at-DONE", "at-SENT"])
    assert [answer.outcome for answer in answers] == ["moved", "refused", "moved"]
    (answer,) = at.db.move_many(order.moves["send"], where=column("status") == "PACKED")
    assert answer.key == "at-PACKED"


def test_without_a_history_there_are_guards_and_no_override(at: Guarded) -> None:
    """There would be nowhere to record it."""
    order = at.guarded(orders())
    at.run("BEGIN")
    if at.dialect == "postgres":
        at.override(order, "please")
    with pytest.raises(at.Refusal):
        at.update(order, "at-DONE", "NEW")
    at.run("ROLLBACK")


def test_guards_can_be_installed_again_and_taken_away(at: Guarded) -> None:
    """Twice is once; dropped is gone, and dropping twice is no error."""
    order = at.guarded()
    at.install(order)
    with pytest.raises(at.Refusal):
        at.update(order, "at-DONE", "NEW")
    at.drop(order)
    at.drop(order)
    at.update(order, "at-DONE", "NEW")
    assert at.status(order, "at-DONE") == "NEW"


def test_a_changed_declaration_replaces_the_old_guards(at: Guarded) -> None:
    """A way that is declared later is open after the next install."""
    order = at.guarded()
    moves = {**order.to_dict()["moves"], "reopen": {"from": ["DONE"], "to": "NEW"}}
    changed = renamed(order, moves=moves, terminal=["FAILED"])
    at.install(changed)
    at.update(order, "at-DONE", "NEW")
    with pytest.raises(at.Refusal):
        at.update(order, "at-FAILED", "NEW")
