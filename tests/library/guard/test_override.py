"""An override is possible, is recorded with who and why, and does not outlast its occasion (L6)."""

from contextlib import suppress

import pytest

from raceproof.testing.contract.orders import orders
from tests.library.guard.fix_guarded import Guarded, GuardedPostgres, GuardedSqlite


def test_an_override_is_recorded(at: Guarded) -> None:
    """Key, from, to and reason, in the history of the row; the library reads it back."""
    order = at.guarded()
    at.run("BEGIN")
    at.override(order, "support ticket 7")
    at.update(order, "at-DONE", "NEW")
    at.run("COMMIT")
    assert at.status(order, "at-DONE") == "NEW"
    assert at.overrides(order) == [("at-DONE", "moved", "DONE", "NEW", "support ticket 7")]
    (entry,) = at.db.history(order, "at-DONE")
    assert (entry.move, entry.before, entry.after, entry.reason) == (
        "override",
        "DONE",
        "NEW",
        "support ticket 7",
    )
    assert entry.actor == ("me" if at.dialect == "sqlite" else "postgres")


def test_a_birth_at_a_later_status_is_recorded_too(at: Guarded) -> None:
    """For data that is moved in from elsewhere."""
    order = at.guarded()
    at.run("BEGIN")
    at.override(order, "import")
    at.insert(order, "imported", "SENT")
    at.run("COMMIT")
    assert at.overrides(order) == [("imported", "moved", None, "SENT", "import")]


def test_a_rolled_back_override_leaves_no_record_and_no_licence(at: Guarded) -> None:
    """It is part of the transaction."""
    order = at.guarded()
    at.run("BEGIN")
    at.override(order, "oops")
    at.update(order, "at-DONE", "NEW")
    at.run("ROLLBACK")
    assert (at.status(order, "at-DONE"), at.overrides(order)) == ("DONE", [])
    with pytest.raises(at.Refusal):
        at.update(order, "at-DONE", "NEW")


def test_an_override_without_a_reason_is_none(at: Guarded) -> None:
    """Somebody will want to know why."""
    order = at.guarded()

    def change() -> None:
        at.override(order, "")
        at.update(order, "at-DONE", "NEW")

    at.run("BEGIN")
    with pytest.raises(at.Refusal):
        change()
    at.run("ROLLBACK")
    assert at.status(order, "at-DONE") == "DONE"


def test_a_declared_move_under_an_override_is_not_recorded_as_one(at: Guarded) -> None:
    """The override is not used up by it either."""
    order = at.guarded()
    at.run("BEGIN")
    at.override(order, "needed later")
    at.update(order, "at-NEW", "PACKED")
    at.update(order, "at-DONE", "NEW")
    at.run("COMMIT")
    assert [row[0] for row in at.overrides(order)] == ["at-DONE"]


def test_no_status_at_all_is_recorded_or_refused(at: Guarded) -> None:
    """NULL is as undeclared as anything else: under an override it never happens without a record."""
    order = at.guarded()
    for change, key in ((at.update, "at-NEW"), (at.insert, "odd")):
        at.run("BEGIN")
        at.override(order, "wipe")
        with suppress(Exception):
            change(order, key, None)
        at.run("COMMIT")
        if at.dialect == "sqlite":
            at.run("DELETE FROM raceproof_override")
    ((changed,),) = at.run(f"SELECT count(*) FROM {order.table} WHERE status IS NULL")
    assert changed == len(at.overrides(order))


def test_an_override_on_postgresql_is_good_for_one_transaction(on_postgres: GuardedPostgres) -> None:
    """For several changes in it, and none after it."""
    order = on_postgres.guarded()
    on_postgres.run("BEGIN")
    on_postgres.override(order, "repair")
    on_postgres.run(f"UPDATE {order.table} SET status = 'NEW' WHERE status IN ('DONE', 'FAILED')")
    on_postgres.run("COMMIT")
    assert len(on_postgres.overrides(order)) == 2
    with pytest.raises(on_postgres.Refusal):
        on_postgres.update(order, "at-SENT", "NEW")


def test_an_override_on_sqlite_is_good_for_one_change(on_sqlite: GuardedSqlite) -> None:
    """The second row of the same statement has none."""
    order = on_sqlite.guarded()
    on_sqlite.override(order, "repair")
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.run(f"UPDATE {order.table} SET status = 'NEW' WHERE status IN ('DONE', 'FAILED')")
    assert on_sqlite.overrides(order) == []
    on_sqlite.update(order, "at-DONE", "NEW")
    assert len(on_sqlite.overrides(order)) == 1
    assert on_sqlite.run("SELECT * FROM raceproof_override") == []
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.update(order, "at-FAILED", "NEW")


def test_an_override_is_of_one_lifecycle(on_sqlite: GuardedSqlite) -> None:
    """Another table's guards do not care."""
    order = on_sqlite.guarded()
    other = on_sqlite.guarded(orders(history=True, name="Other"))
    on_sqlite.override(other, "repair")
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.update(order, "at-DONE", "NEW")
    on_sqlite.update(other, "at-DONE", "NEW")
