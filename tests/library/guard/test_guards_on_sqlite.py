"""What SQLite's guards withstand (L6): other triggers, conflict clauses, names, schemas."""

import pytest

from raceproof import Lifecycle, Moved
from raceproof.ops.verify import try_matrix, verify
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.library.guard.fix_guarded import GuardedSqlite


@pytest.mark.parametrize("when", ["BEFORE", "AFTER"])
def test_another_trigger_cannot_slip_past(on_sqlite: GuardedSqlite, when: str) -> None:
    """It changes the status in a statement that does not name it."""
    order = on_sqlite.guarded()
    on_sqlite.run(
        f"CREATE TRIGGER sneak {when} UPDATE OF packer ON {order.table} FOR EACH ROW "
        f"BEGIN UPDATE {order.table} SET status = 'DONE' WHERE order_id = NEW.order_id; END"
    )
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.run(f"UPDATE {order.table} SET packer = 'x' WHERE order_id = 'at-NEW'")
    assert on_sqlite.status(order, "at-NEW") == "NEW"


def test_another_trigger_cannot_slip_past_at_birth(on_sqlite: GuardedSqlite) -> None:
    """Nor right after an insert."""
    order = on_sqlite.guarded()
    on_sqlite.run(
        f"CREATE TRIGGER sneak AFTER INSERT ON {order.table} FOR EACH ROW "
        f"BEGIN UPDATE {order.table} SET status = 'DONE' WHERE order_id = NEW.order_id; END"
    )
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.insert(order, "born", "NEW")


@pytest.mark.parametrize("clause", ["IGNORE", "REPLACE", "FAIL", "ABORT", "ROLLBACK"])
def test_no_conflict_clause_goes_around(on_sqlite: GuardedSqlite, clause: str) -> None:
    """OR IGNORE and its brothers are about constraints, not about guards."""
    order = on_sqlite.guarded()
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.run(f"UPDATE OR {clause} {order.table} SET status = 'DONE' WHERE order_id = 'at-NEW'")
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.run(f"INSERT OR {clause} INTO {order.table} (order_id, status) VALUES ('x', 'DONE')")
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.run(f"INSERT OR {clause} INTO {order.table} (order_id, status) VALUES ('at-NEW', 'DONE')")
    assert on_sqlite.status(order, "at-NEW") == "NEW"


def test_a_status_in_another_storage_class_is_another_status(on_sqlite: GuardedSqlite) -> None:
    """A blob that reads like a declared status is not one."""
    order = on_sqlite.guarded()
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.run(f"UPDATE {order.table} SET status = CAST('PACKED' AS BLOB) WHERE order_id = 'at-NEW'")


@pytest.mark.parametrize(("first", "second"), [("Заказ", "Товар"), ("A-B", "A_B")], ids=["cyrillic", "signs"])
def test_two_lifecycles_do_not_share_their_guards(on_sqlite: GuardedSqlite, first: str, second: str) -> None:
    """However alike their names look after they were made to fit."""
    one = on_sqlite.guarded(orders(history=True, name=first))
    two = on_sqlite.guarded(orders(history=True, name=second))
    for order in (one, two):
        with pytest.raises(on_sqlite.Refusal):
            on_sqlite.update(order, "at-DONE", "NEW")
        assert {finding.level for finding in verify(on_sqlite.db, order)} == {"ok"}


def test_a_lifecycle_whose_name_begins_like_anothers_is_another(on_sqlite: GuardedSqlite) -> None:
    """Order has no guards, OrderLine has; each is told the truth about itself."""
    line = on_sqlite.guarded(orders(history=True, name="OrderLine"))
    order = on_sqlite.table(orders(history=True, name="Order"))
    assert [finding.what for finding in verify(on_sqlite.db, order) if finding.level != "ok"] == [
        "no guards: raw SQL can set any status"
    ]
    on_sqlite.install(order)
    for one in (order, line):
        assert {finding.level for finding in verify(on_sqlite.db, one)} == {"ok"}
        assert not any(trial.wrong for trial in try_matrix(on_sqlite.db, one))


def test_guards_of_a_table_with_its_schema_work(on_sqlite: GuardedSqlite) -> None:
    """`main.orders` is `orders`."""
    order = Lifecycle.from_dict({**DECLARATION, "table": "main.orders", "history": "main.orders_history"})
    on_sqlite.table(order)
    on_sqlite.ground.put(order, "a", "NEW")
    on_sqlite.install(order)
    with pytest.raises(on_sqlite.Refusal):
        on_sqlite.update(order, "a", "DONE")
    assert isinstance(on_sqlite.db.move(order.moves["pack"], "a"), Moved)
    assert {finding.level for finding in verify(on_sqlite.db, order)} == {"ok"}
