"""`verify` finds every difference between declaration and database, and nothing where there is none (L6)."""

from typing import Any

import pytest

from raceproof import Lifecycle
from raceproof.declare import Spec
from raceproof.ops.verify import Finding, try_matrix, verify
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.orders import orders
from tests.library.guard.fix_guarded import Guarded, GuardedPostgres, renamed


def problems(at: Guarded, order: Spec[str]) -> list[Finding]:
    return [finding for finding in verify(at.db, order) if finding.level != "ok"]


def the_problem(at: Guarded, order: Spec[str]) -> Finding:
    (found,) = problems(at, order)
    return found


def state(at: Guarded) -> list[Any]:
    """All that a check could leave behind."""
    if at.dialect == "sqlite":
        return at.run("SELECT type, name, sql FROM sqlite_master ORDER BY name")
    return at.run(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = current_schema() OR n.nspname LIKE 'pg_temp%' ORDER BY 1, 2"
    )


def test_nothing_is_found_where_nothing_is_wrong(at: Guarded) -> None:
    """All is well, and looking changes nothing."""
    order = at.guarded()
    before = state(at)
    findings = verify(at.db, order)
    assert {finding.level for finding in findings} == {"ok"}
    assert len(findings) >= 4
    assert state(at) == before


@pytest.mark.parametrize("odd", ["o\"d'd", "100% %s", "{odd} {{0}}", "Odd Name", "заказ"])
def test_odd_names_are_no_difference(at: Guarded, odd: str) -> None:
    """Table, columns, statuses and history that need quotes."""
    quoted = '"' + (odd + fresh_name()).replace('"', '""') + '"'
    history = '"' + (odd + fresh_name("h")).replace('"', '""') + '"'
    names = {"table": quoted, "history": history, "column": f"{odd} s", "key": f"{odd} k"}
    order = at.install(at.table(renamed(orders(), revision=f"{odd} r", **names)))
    assert problems(at, order) == []
    assert not any(trial.wrong for trial in try_matrix(at.db, order))


def test_a_missing_table_is_found(at: Guarded) -> None:
    """And nothing else is asked then."""
    found = the_problem(at, orders(history=True))
    assert (found.level, "does not exist" in found.what) == ("error", True)
    assert found.repair


def test_missing_columns_are_found(at: Guarded) -> None:
    """Key, status, revision, stamps and columns that may be set, each by name."""
    order = at.guarded()
    at.run(f"ALTER TABLE {order.table} DROP COLUMN packed_at")
    at.run(f"ALTER TABLE {order.table} DROP COLUMN box")
    found = the_problem(at, order)
    assert (found.level, found.what) == ("error", f"table {order.table} lacks box, packed_at")
    assert f'ALTER TABLE "{order.table}" ADD COLUMN "box"' in found.repair


def test_a_missing_status_column_is_found(at: Guarded) -> None:
    """The checks that need it are left out, not failed."""
    order = at.table()
    changed = renamed(order, column="state")
    whats = [finding.what for finding in problems(at, changed)]
    assert f"table {order.table} lacks state" in whats


@pytest.mark.parametrize(
    ("keys", "unique"),
    [
        ("order_id", True),
        ("order_id, region", False),
        ("region", False),
        ("order_id, lower(region)", False),
        ("lower(order_id)", False),
        ("order_id WHERE rev = 0", False),
        (None, False),
    ],
    ids=["key", "wider", "other", "with-expression", "expression", "partial", "none"],
)
def test_a_key_that_is_not_unique_is_found(at: Guarded, keys: str | None, unique: bool) -> None:
    """One move could write several rows; an index that only looks like one of the key does not count."""
    order = orders(history=True)
    at.table(order)
    at.run(f"DROP TABLE {order.table}")
    columns = "order_id text, region text, status text, rev int, packed_at text, packer text, box text"
    at.run(f"CREATE TABLE {order.table} ({columns})".replace("packed_at text", "packed_at " + at.ground.time))
    if keys:
        listed, _, where = keys.partition(" WHERE ")
        where = f"WHERE {where}" if where else ""
        at.run(f"CREATE UNIQUE INDEX {order.table}_once ON {order.table} ({listed}) {where}")
    at.install(order)
    found = problems(at, order)
    assert [finding.what.partition(":")[0] for finding in found] == ([] if unique else ["the key is not unique"])
    for finding in found:
        at.run(finding.repair)
        assert problems(at, order) == []


def test_a_unique_index_with_further_columns_on_board_counts(on_postgres: GuardedPostgres) -> None:
    """INCLUDE adds nothing to what is unique."""
    order = on_postgres.guarded()
    on_postgres.run(f"ALTER TABLE {order.table} DROP CONSTRAINT {order.table}_pkey")
    on_postgres.run(f"CREATE UNIQUE INDEX ON {order.table} (order_id) INCLUDE (status)")
    assert problems(on_postgres, order) == []


def test_an_enum_without_a_label_is_found(on_postgres: GuardedPostgres) -> None:
    """With the statement that adds it."""
    kind = fresh_name("kind")
    on_postgres.run(f"CREATE TYPE {kind} AS ENUM ('NEW', 'PACKED', 'SENT', 'RETURNED', 'DONE')")
    order = on_postgres.install(on_postgres.table(types={"status": kind}))
    found = the_problem(on_postgres, order)
    assert (found.level, found.what) == ("error", "the enum of status lacks FAILED")
    assert "ADD VALUE 'FAILED'" in found.repair


def test_a_missing_history_is_found(at: Guarded) -> None:
    """No move would succeed without it; neither with a part of it."""
    order = at.guarded()
    assert order.history is not None
    at.run(f"ALTER TABLE {order.history.table} RENAME COLUMN reason TO motive")
    assert the_problem(at, order).what == f"the history {order.history.table} lacks reason"
    at.run(f"DROP TABLE {order.history.table}")
    assert f"the history {order.history.table} does not exist" in the_problem(at, order).what


def test_rows_with_an_undeclared_status_are_found(at: Guarded) -> None:
    """And rows without any; the repair finds them all."""
    order = at.table()
    at.ground.put(order, "odd", "LOST")
    at.run(f"INSERT INTO {order.table} (order_id, status) VALUES ('none', NULL)")
    at.install(order)
    found = the_problem(at, order)
    assert found.what == "rows have an undeclared status"
    assert "LOST" in found.evidence
    assert len(at.run(found.repair)) == 2


def test_missing_guards_are_a_warning(at: Guarded) -> None:
    """They are the caller's choice."""
    order = at.table()
    found = the_problem(at, order)
    assert (found.level, found.what.partition(":")[0]) == ("warning", "no guards")


def test_missing_guards_are_an_error_where_another_lifecycle_has_some(at: Guarded) -> None:
    """A database that uses guards has hardly left this table out on purpose."""
    at.guarded(orders(history=True, name="Guarded"))
    other = at.table(orders(history=True, name="Forgotten"))
    found = the_problem(at, other)
    assert (found.level, found.what.partition(":")[0]) == ("error", "no guards")
    assert "raceproof_guard_guarded" in found.evidence


def test_guards_that_were_dropped_without_us_are_an_error(at: Guarded) -> None:
    """Something of them is left, so they were wanted; without a word from us they are not given up."""
    order = at.guarded(orders(history=True, name="Dropped"))
    at.drop_triggers(order)
    found = the_problem(at, order)
    assert (found.level, found.what.partition(":")[0]) == ("error", "no guards")
    assert "this database uses guards" in found.evidence


def test_guards_of_another_declaration_are_found(at: Guarded) -> None:
    """The declaration has a new move, the database does not know yet."""
    order = at.guarded()
    moves = {**order.to_dict()["moves"], "reopen": {"from": ["DONE"], "to": "NEW"}}
    changed = renamed(order, moves=moves, terminal=["FAILED"])
    assert the_problem(at, changed).what == "the guards belong to another declaration"
    at.install(changed)
    assert problems(at, changed) == []


def test_a_declaration_that_says_the_same_in_other_words_is_no_other(at: Guarded) -> None:
    """The order of moves and sources means nothing."""
    order = at.guarded()
    moves = {
        name: {**one, "from": list(reversed(one["from"]))} for name, one in reversed(order.to_dict()["moves"].items())
    }
    assert problems(at, renamed(order, moves=moves)) == []


@pytest.mark.parametrize("how", ["DISABLE TRIGGER", "ENABLE REPLICA TRIGGER"])
def test_disabled_guards_are_found(on_postgres: GuardedPostgres, how: str) -> None:
    """With the statement that enables them."""
    order = on_postgres.guarded()
    ((name,),) = on_postgres.run(
        f"SELECT tgname FROM pg_trigger WHERE tgrelid = '{order.table}'::regclass AND NOT tgisinternal LIMIT 1"
    )
    on_postgres.run(f'ALTER TABLE {order.table} {how} "{name}"')
    found = the_problem(on_postgres, order)
    assert (found.level, found.what) == ("error", "the guards are disabled")
    on_postgres.run(found.repair)
    assert problems(on_postgres, order) == []


def timed(on_postgres: GuardedPostgres, kind: str) -> Spec[str]:
    """A lifecycle whose claim is one timestamp, in a column of this type."""
    form = {"kind_of_form": "timestamp", "column": "started_at"}
    data: dict[str, Any] = {"name": "Job", "table": fresh_name("jobs"), "statuses": ["NEW", "DONE"]}
    data |= {"moves": {"finish": {"from": ["NEW"], "to": "DONE"}}}
    data |= {"claims": {"work": {"at": "NEW", "lease": 30, "form": form}}}
    return on_postgres.guarded(Lifecycle.from_dict(data), {"started_at": kind})


@pytest.mark.parametrize("digits", range(6))
def test_a_fence_that_the_column_rounds_is_found(on_postgres: GuardedPostgres, digits: int) -> None:
    """Two claims of one moment would have one fence, and the first could write as the second."""
    job = timed(on_postgres, f"timestamptz({digits})")
    found = next(one for one in problems(on_postgres, job) if one.level == "error")
    assert found.what == "started_at is a fence and is rounded: two holders could have the same fence"
    assert found.evidence == f"it is timestamp({digits}) with time zone"
    on_postgres.run(found.repair)
    assert not any("started_at" in one.what for one in problems(on_postgres, job))


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        ("timestamptz", []),
        ("timestamptz(6)", []),
        ("timestamp", ["warning"]),
        ("timestamp(6)", ["warning"]),
        ("timestamp(3)", ["warning", "error"]),
    ],
)
def test_a_fence_is_a_moment_for_every_session(on_postgres: GuardedPostgres, kind: str, levels: list[str]) -> None:
    """Without a zone, a claim would be over at once for a session of another one."""
    job = timed(on_postgres, kind)
    assert [one.level for one in problems(on_postgres, job) if "started_at" in one.what] == levels
