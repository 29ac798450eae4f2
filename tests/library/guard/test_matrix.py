"""`try_matrix` tries every change against the guards as they are installed, and leaves nothing behind (L6)."""

import pytest

from raceproof.declare import Spec
from raceproof.kernel.errors import CallError
from raceproof.ops.verify import Trial, try_matrix
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.library.guard.fix_guarded import STATUSES, Guarded, GuardedPostgres, GuardedSqlite, declared, renamed
from tests.library.guard.test_verify import problems, state


def wrong(trials: list[Trial]) -> set[tuple[str | None, str]]:
    return {(trial.before, trial.after) for trial in trials if trial.wrong}


def test_guards_as_installed_have_no_wrong_trial(at: Guarded) -> None:
    """Every pair and every birth was tried, each with the result that the declaration wants."""
    order = at.guarded()
    trials = try_matrix(at.db, order)
    assert len(trials) == len(STATUSES) ** 2
    assert wrong(trials) == set()
    accepted = {(trial.before, trial.after) for trial in trials if trial.accepted}
    assert accepted == {(None, "NEW"), *declared(order)}
    assert all(trial.error for trial in trials if not trial.accepted)


def test_trying_leaves_nothing_behind(at: Guarded) -> None:
    """No table, no row, no history, no transaction; twice in a row."""
    order = at.guarded()
    assert order.history is not None
    before = state(at), at.run(f"SELECT * FROM {order.table} ORDER BY 1")
    for _ in range(2):
        try_matrix(at.db, order)
        assert (state(at), at.run(f"SELECT * FROM {order.table} ORDER BY 1")) == before
    assert at.run(f"SELECT * FROM {order.history.table}") == []
    at.run("BEGIN")
    at.run("ROLLBACK")


@pytest.mark.parametrize("kind", ["enum", "varchar(20) NOT NULL", "text NOT NULL DEFAULT 'NEW'"])
def test_status_columns_of_any_type_can_be_tried(on_postgres: GuardedPostgres, kind: str) -> None:
    """The trial's table is made like the real one."""
    if kind == "enum":
        kind = fresh_name("kind")
        labels = ", ".join(f"'{status}'" for status in STATUSES)
        on_postgres.run(f"CREATE TYPE {kind} AS ENUM ({labels})")
    order = on_postgres.guarded(types={"status": kind, "extra": "int NOT NULL DEFAULT 1"})
    assert wrong(try_matrix(on_postgres.db, order)) == set()


def test_guards_of_an_older_declaration_show_what_they_get_wrong(at: Guarded) -> None:
    """A way that is declared now and closed there, and one that is open there and closed now."""
    moves = {**DECLARATION["moves"], "reopen": {"from": ["DONE"], "to": "NEW"}}
    older = orders(history=True, moves=moves, terminal=["FAILED"])
    at.guarded(older)
    newer = dict(DECLARATION["moves"]) | {"lose": {"from": ["SENT"], "to": "NEW"}}
    now = renamed(older, moves=newer, terminal=["DONE", "FAILED"])
    assert wrong(try_matrix(at.db, now)) == {("DONE", "NEW"), ("SENT", "NEW")}


def test_an_edited_function_is_found_out(on_postgres: GuardedPostgres) -> None:
    """Somebody opened a way by hand and left the mark of the declaration in place."""
    order = on_postgres.guarded()
    ((source,),) = on_postgres.run(
        "SELECT pg_get_functiondef(tgfoid) FROM pg_trigger "
        f"WHERE tgrelid = '{order.table}'::regclass AND NOT tgisinternal LIMIT 1"
    )
    edited = str(source).replace("('NEW', 'FAILED')", "('NEW', 'FAILED'), ('DONE', 'NEW')")
    assert edited != source
    on_postgres.run(edited)
    assert wrong(try_matrix(on_postgres.db, order)) == {("DONE", "NEW")}


@pytest.mark.parametrize("when", ["BEFORE INSERT", "BEFORE UPDATE", "BEFORE INSERT OR UPDATE OF packer"])
def test_an_edited_trigger_is_found_out(on_postgres: GuardedPostgres, when: str) -> None:
    """One that is not called for every change lets raw SQL through, whatever its function says."""
    order = on_postgres.guarded()
    edit_trigger(on_postgres, order, when, "")
    assert problems(on_postgres, order) or wrong(try_matrix(on_postgres.db, order))


def test_a_trigger_with_a_condition_is_found_out(on_postgres: GuardedPostgres) -> None:
    """WHEN (false) is as good as none."""
    order = on_postgres.guarded()
    edit_trigger(on_postgres, order, "BEFORE INSERT OR UPDATE", "WHEN (NEW.rev > 1000)")
    assert problems(on_postgres, order) or wrong(try_matrix(on_postgres.db, order))


def edit_trigger(at: GuardedPostgres, order: Spec[str], when: str, condition: str) -> None:
    """The same trigger by name and function, called at other times; further ones that we have are dropped."""
    triggers = at.run(
        "SELECT tgname, tgfoid::regproc::text FROM pg_trigger "
        f"WHERE tgrelid = '{order.table}'::regclass AND NOT tgisinternal ORDER BY tgname"
    )
    for name, _ in triggers:
        at.run(f'DROP TRIGGER "{name}" ON {order.table}')
    name, function = triggers[0]
    at.run(f'CREATE TRIGGER "{name}" {when} ON {order.table} FOR EACH ROW {condition} EXECUTE FUNCTION {function}()')


def test_an_edited_trigger_on_sqlite_is_found_out(on_sqlite: GuardedSqlite) -> None:
    """A condition that opens one way by hand."""
    order = on_sqlite.guarded()
    rows = on_sqlite.run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%_update'")
    edited = 0
    for name, source in rows:
        if "RAISE" in source:
            text = str(source).replace("IN (", "IN ('DONE', ")
            edited += text != source
            on_sqlite.run(f'DROP TRIGGER "{name}"')
            on_sqlite.run(text)
    assert edited
    assert ("NEW", "DONE") in wrong(try_matrix(on_sqlite.db, order))


def test_a_dropped_part_of_the_guards_is_found_out(on_sqlite: GuardedSqlite) -> None:
    """The one for inserts alone does not guard updates."""
    order = on_sqlite.guarded()
    found = on_sqlite.run("SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%guard%update'")
    for (name,) in found:
        on_sqlite.run(f'DROP TRIGGER "{name}"')
    assert problems(on_sqlite, order)
    assert wrong(try_matrix(on_sqlite.db, order))


def test_without_guards_there_is_nothing_to_try(at: Guarded) -> None:
    """The error says how to get them."""
    order = at.table()
    with pytest.raises(CallError, match="raceproof sql --guards"):
        try_matrix(at.db, order)


def test_the_callers_transaction_is_not_used_for_trials(on_postgres: GuardedPostgres) -> None:
    """It would be left in pieces."""
    order = on_postgres.guarded()
    on_postgres.run("BEGIN")
    with pytest.raises(CallError, match="end yours first"):
        try_matrix(on_postgres.db, order)
    assert on_postgres.run("SELECT 1") == [(1,)]
    on_postgres.run("ROLLBACK")
