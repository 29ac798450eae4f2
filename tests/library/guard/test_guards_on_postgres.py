"""What PostgreSQL's guards tell and what they withstand (L6): other triggers, search paths, names, ways to write."""

import json
from typing import Any

import psycopg
import pytest

from raceproof import Lifecycle, Moved
from raceproof.declare import Spec
from raceproof.kernel.quoting import identifier, qualified, split_qualified
from raceproof.ops.verify import verify
from raceproof.schema.guards import guard_name
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import fresh_name
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.library.guard.fix_guarded import GuardedPostgres

CHANGE_STATUS = """
    CREATE FUNCTION sneak() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN NEW.status := 'DONE'; RETURN NEW; END $$;
"""


def refusal(at: GuardedPostgres, order: Spec[str], key: str, status: str) -> psycopg.errors.Diagnostic:
    with pytest.raises(at.Refusal) as refused:
        at.update(order, key, status)
    assert isinstance(refused.value, psycopg.Error)
    return refused.value.diag


def test_a_refusal_tells_machines_and_people_what_happened(on_postgres: GuardedPostgres) -> None:
    """SQLSTATE, constraint, table, and the whole case as JSON."""
    order = on_postgres.guarded()
    told = refusal(on_postgres, order, "at-DONE", "NEW")
    assert (told.sqlstate, told.constraint_name, told.table_name) == ("23514", guard_name(order), order.table)
    assert json.loads(told.message_detail or "") == {
        "lifecycle": "Order",
        "key": "at-DONE",
        "from": "DONE",
        "to": "NEW",
    }
    assert told.message_primary == "Order may not go from DONE to NEW"
    assert "raceproof.override" in (told.message_hint or "")


def test_a_refusal_of_an_odd_key_is_still_json(on_postgres: GuardedPostgres) -> None:
    """Quotes, percent signs, and a key of several columns."""
    order = on_postgres.table(orders(key=["region", "order_id"]))
    on_postgres.ground.put(order, ('e"u:', "50%'"), "DONE")
    on_postgres.install(order)
    with pytest.raises(on_postgres.Refusal) as refused:
        on_postgres.run(f"UPDATE {order.table} SET status = 'NEW'")
    assert isinstance(refused.value, psycopg.Error)
    assert json.loads(refused.value.diag.message_detail or "")["key"] == "e\"u%3A:50%25'"


@pytest.mark.parametrize("name", ["a_trigger", "zzz_trigger", "~trigger", "яяя"])
def test_another_trigger_cannot_slip_past(on_postgres: GuardedPostgres, name: str) -> None:
    """It changes the status in a statement that does not name it, whatever it is called."""
    order = on_postgres.guarded()
    on_postgres.run(CHANGE_STATUS)
    on_postgres.run(f'CREATE TRIGGER "{name}" BEFORE UPDATE ON {order.table} FOR EACH ROW EXECUTE FUNCTION sneak()')
    with pytest.raises(on_postgres.Refusal):
        on_postgres.run(f"UPDATE {order.table} SET packer = 'x' WHERE order_id = 'at-NEW'")
    assert on_postgres.status(order, "at-NEW") == "NEW"


@pytest.mark.parametrize("name", ["a_trigger", "zzzz_trigger"])
def test_another_trigger_cannot_slip_past_at_birth(on_postgres: GuardedPostgres, name: str) -> None:
    """The same for an insert."""
    order = on_postgres.guarded()
    on_postgres.run(CHANGE_STATUS)
    on_postgres.run(f"CREATE TRIGGER {name} BEFORE INSERT ON {order.table} FOR EACH ROW EXECUTE FUNCTION sneak()")
    with pytest.raises(on_postgres.Refusal):
        on_postgres.insert(order, "born", "NEW")


@pytest.mark.parametrize(
    "statement",
    [
        "WITH changed AS (UPDATE {table} SET status = 'DONE' WHERE order_id = 'at-NEW' RETURNING 1) SELECT 1",
        "MERGE INTO {table} t USING (SELECT 'at-NEW' AS k) s ON t.order_id = s.k "
        "WHEN MATCHED THEN UPDATE SET status = 'DONE'",
        "UPDATE {table} SET (status, rev) = ('DONE', 9) WHERE order_id = 'at-NEW'",
        "DO $$ BEGIN UPDATE {table} SET status = 'DONE' WHERE order_id = 'at-NEW'; END $$",
    ],
    ids=["with", "merge", "row", "do"],
)
def test_no_way_to_write_goes_around(on_postgres: GuardedPostgres, statement: str) -> None:
    """Every kind of statement that can update a row."""
    order = on_postgres.guarded()
    with pytest.raises(on_postgres.Refusal):
        on_postgres.run(statement.format(table=order.table))
    assert on_postgres.status(order, "at-NEW") == "NEW"


def test_copy_is_an_insert_like_any_other(on_postgres: GuardedPostgres) -> None:
    """Only initial statuses come in."""
    order = on_postgres.guarded()
    with pytest.raises(on_postgres.Refusal):
        with on_postgres.connection.cursor().copy(f"COPY {order.table} (order_id, status) FROM STDIN".encode()) as copy:
            copy.write_row(("copied", "DONE"))


def test_hostile_temporary_objects_change_nothing(on_postgres: GuardedPostgres) -> None:
    """A temporary history, and a function of the caller's that shadows a built-in one, are not used."""
    order = on_postgres.guarded()
    assert order.history is not None
    history = order.history.table
    schema = on_postgres.run("SELECT current_schema()")[0][0]
    evil = fresh_name("evil")
    on_postgres.run(f"CREATE SCHEMA {evil}")
    on_postgres.run(
        f"CREATE FUNCTION {evil}.current_setting(text, boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'free' $$"
    )
    on_postgres.run(f"CREATE TEMP TABLE {history} (LIKE {schema}.{history} INCLUDING ALL)")
    on_postgres.run(f"SET search_path = {evil}, pg_temp, pg_catalog, {schema}")
    with pytest.raises(on_postgres.Refusal):
        on_postgres.update(order, "at-DONE", "NEW")
    on_postgres.run("BEGIN")
    on_postgres.override(order, "repair")
    on_postgres.update(order, "at-DONE", "NEW")
    on_postgres.run("COMMIT")
    ((kept,),) = on_postgres.run(f"SELECT count(*) FROM {schema}.{history} WHERE move = 'override'")
    assert kept == 1


def test_guards_of_a_table_in_another_schema_work_from_anywhere(on_postgres: GuardedPostgres) -> None:
    """Table, function and history are named in full."""
    schema = fresh_name("Odd Schema")
    on_postgres.run(f'CREATE SCHEMA "{schema}"')
    order = on_postgres.table(
        Lifecycle.from_dict({**DECLARATION, "table": f'"{schema}".orders', "history": f'"{schema}".orders_history'})
    )
    on_postgres.ground.put(order, "a", "NEW")
    on_postgres.install(order)
    on_postgres.run("SET search_path = pg_catalog")
    with pytest.raises(on_postgres.Refusal):
        on_postgres.update(order, "a", "DONE")
    assert isinstance(on_postgres.db.move(order.moves["pack"], "a"), Moved)


@pytest.mark.parametrize(
    ("first", "second"),
    [("Заказ", "Товар"), ("A-B", "A_B"), ("L" * 70 + "1", "L" * 70 + "2")],
    ids=["cyrillic", "signs", "long"],
)
def test_two_lifecycles_do_not_share_their_guards(on_postgres: GuardedPostgres, first: str, second: str) -> None:
    """However alike their names look after they were made to fit: each table keeps its own rules."""
    one = on_postgres.guarded(orders(history=True, name=first))
    moves = {**DECLARATION["moves"], "reopen": {"from": ["DONE", "FAILED"], "to": "NEW"}}
    two = on_postgres.guarded(orders(history=True, name=second, moves=moves, terminal=[]))
    with pytest.raises(on_postgres.Refusal):
        on_postgres.update(one, "at-DONE", "NEW")
    on_postgres.update(two, "at-DONE", "NEW")
    for order in (one, two):
        assert {finding.level for finding in verify(on_postgres.db, order)} == {"ok"}


def test_one_lifecycle_on_two_tables_keeps_both_guarded(on_postgres: GuardedPostgres) -> None:
    """Taking the guards from one of them does not fail, and leaves the other's."""
    one, two = on_postgres.guarded(), on_postgres.guarded()
    on_postgres.drop(one)
    on_postgres.update(one, "at-DONE", "NEW")
    with pytest.raises(on_postgres.Refusal):
        on_postgres.update(two, "at-DONE", "NEW")


def test_a_status_that_looks_like_the_end_of_the_function_is_only_a_status(
    on_postgres: GuardedPostgres,
) -> None:
    """Nothing in a declaration can end a quote early."""
    odd = "x$raceproof$; DROP TABLE y; --'"
    moves = {"go": {"from": ["NEW"], "to": odd}}
    order = on_postgres.table(
        orders(history=True, statuses=["NEW", odd], terminal=[odd], moves=moves), {"status": "text"}
    )
    on_postgres.ground.put(order, "a", "NEW")
    on_postgres.install(order)
    assert isinstance(on_postgres.db.move(order.moves["go"], "a"), Moved)
    with pytest.raises(on_postgres.Refusal):
        on_postgres.update(order, "a", "NEW")


ENDS_THE_QUOTE = "$raceproof$; DROP TABLE canary; --"


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"column": f"a{ENDS_THE_QUOTE}"}, id="status column"),
        pytest.param({"key": f"k{ENDS_THE_QUOTE}"}, id="key column"),
        pytest.param({"table": f'"s{ENDS_THE_QUOTE}".orders'}, id="schema"),
        pytest.param({"table": f'"t{ENDS_THE_QUOTE}"'}, id="table"),
        pytest.param({"name": f"L{ENDS_THE_QUOTE}"}, id="lifecycle"),
    ],
)
def test_a_name_that_looks_like_the_end_of_the_function_is_only_a_name(
    on_postgres: GuardedPostgres, change: dict[str, Any], history: bool
) -> None:
    """Every name of a declaration, also those that only the pinned search_path contains."""
    on_postgres.run("CREATE TABLE canary ()")
    order = orders(history=history, **change)
    *schema, _ = split_qualified(order.table)
    for one in schema:
        on_postgres.run(f"CREATE SCHEMA {identifier(one)}")
    on_postgres.table(order)
    on_postgres.install(order)
    on_postgres.ground.put(order, "a", "NEW")
    assert isinstance(on_postgres.db.move(order.moves["pack"], "a"), Moved)
    column = identifier(order.column)
    with pytest.raises(on_postgres.Refusal):
        on_postgres.run(f"UPDATE {qualified(order.table)} SET {column} = 'RETURNED'")
    found = [one for one in verify(on_postgres.db, order) if one.level != "ok"]
    assert not any("guard" in one.what for one in found), found
    on_postgres.drop(order)
    assert on_postgres.run("SELECT to_regclass('canary') IS NOT NULL") == [(True,)]
    for one in schema:
        on_postgres.run(f"DROP SCHEMA {identifier(one)} CASCADE")


def test_guards_hold_for_a_user_who_owns_nothing(on_postgres: GuardedPostgres, postgres_server: PostgresServer) -> None:
    """They may write the table, and move along declared ways without any right on the history."""
    order = on_postgres.guarded()
    role = fresh_name("clerk")
    schema = on_postgres.run("SELECT current_schema()")[0][0]
    on_postgres.run(f"CREATE ROLE {role} LOGIN")
    on_postgres.run(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    on_postgres.run(f"GRANT SELECT, UPDATE ON {order.table} TO {role}")
    with psycopg.connect(postgres_server.url.replace("postgres@", f"{role}@"), autocommit=True) as clerk:
        clerk.execute(f"SET search_path = {schema}".encode())
        with pytest.raises(psycopg.errors.CheckViolation):
            clerk.execute(f"UPDATE {order.table} SET status = 'NEW' WHERE order_id = 'at-DONE'".encode())
        clerk.execute(f"UPDATE {order.table} SET status = 'PACKED' WHERE order_id = 'at-NEW'".encode())
    assert on_postgres.status(order, "at-NEW") == "PACKED"
