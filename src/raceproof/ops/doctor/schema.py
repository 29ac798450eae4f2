"""Whether the database matches the declarations: tables, columns, keys, histories, indexes and guards; uses `ops.verify`."""

from typing import Any

from raceproof.declare.spec import Spec
from raceproof.inbox import Inbox
from raceproof.kernel.quoting import dollar_tag, identifier, literal, qualified
from raceproof.kernel.statement import Program, T, templates
from raceproof.leases import Lease
from raceproof.ops.doctor.finding import Problem, Repair, Subject, sql
from raceproof.ops.doctor.patient import Patient
from raceproof.ops.inspect import sql_of
from raceproof.ops.verify import Finding, table_repairs
from raceproof.ops.verify.programs import findings_of
from raceproof.schema.guards import guard_name, guard_statements
from raceproof.schema.needed import Tabled, adding, columns_of, table_of
from raceproof.schema.tables import history_table

_NO_GUARDS = "no guards"
_NOT_AN_INTEGER = " must be an integer"


def table(patient: Patient, subject: Subject, thing: Tabled) -> Program[list[Problem]]:
    """The table exists, with suitable columns."""
    name = table_of(thing)
    repairs: list[tuple[Finding, list[str]]] = yield from table_repairs(patient.catalog, thing)
    found = []
    for one, repair in repairs:
        if one.level == "ok":
            continue
        if one.what.startswith(f"table {name} "):
            patient.ailing.add(name)
        made = one.what.endswith(" does not exist") and isinstance(thing, Lease | Inbox)
        found.append(_problem(subject, one, sql(*repair, safe=made)))
    return found


def lifecycle(patient: Patient, subject: Subject, spec: Spec[Any]) -> Program[list[Problem]]:
    """The findings of `raceproof verify`, except about rows; tables of the library need no guards."""
    found = []
    if isinstance(subject.thing, Spec):
        found += yield from table(patient, subject, spec)
    if spec.table in patient.ailing and not (yield from patient.catalog.columns(spec.table)):
        return found
    checks = findings_of(patient.dialect, sql_of(patient.store).style, spec)
    findings: list[Finding] = yield from _leaving_out("verify.strangers", checks)
    for one in findings:
        if "guards" in one.what and not one.what.startswith(_NO_GUARDS):
            patient.guarded.add(spec.name)
        if one.what.endswith(_NOT_AN_INTEGER):  # rows cannot be compared by such a column
            patient.ailing.add(spec.table)
        if one.what.startswith(_NO_GUARDS) and not isinstance(subject.thing, Spec):
            continue
        if one.level != "ok" and not one.what.startswith((f"table {spec.table} ", "the history ")):
            found.append(_problem(subject, one, _repair(patient, spec, one)))
    return found + (yield from _history(patient, subject, spec))


def _leaving_out(name: str, program: Program[T]) -> Program[T]:
    """A program without one statement, which gets no rows."""
    try:
        statement = next(program)
        while True:
            statement = program.send(() if statement.name == name else (yield statement))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _problem(subject: Subject, one: Finding, repair: Repair) -> Problem:
    check = "guard" if "guards" in one.what else "index" if "index" in one.what else "schema"
    return Problem(
        check,
        "error" if one.level == "error" else "warning",
        subject.name,
        one.what,
        ({"found": one.evidence},) if one.evidence else (),
        repair=repair,
    )


def _repair(patient: Patient, spec: Spec[Any], one: Finding) -> Repair:
    """The repair of the finding, as SQL that can be pasted."""
    name = qualified(spec.table)
    if one.what == "the guards are disabled":
        return sql(f"ALTER TABLE {name} ENABLE TRIGGER {identifier(guard_name(spec))};")
    if "guards" in one.what:
        return sql("\n".join(guard_statements(spec, patient.dialect)))
    if one.what.startswith("the enum of"):
        missing = [str(status) for status in spec.statuses if repr(str(status)) not in one.evidence]
        return sql(*(_adding_to_enum(spec, status) for status in missing))
    if one.what.endswith(_NOT_AN_INTEGER):
        column = identifier(one.what.removesuffix(_NOT_AN_INTEGER))
        return sql(f"ALTER TABLE {name} ALTER COLUMN {column} TYPE bigint USING {column}::bigint;")
    return sql(one.repair, safe="index" in one.what)


def _adding_to_enum(spec: Spec[Any], status: str) -> str:
    """The repair asks the catalog for the name of the column's type."""
    slots = {"relation": literal(qualified(spec.table)), "column": literal(spec.column), "label": literal(status)}
    slots["tag"] = dollar_tag(*slots.values())
    return templates("raceproof.ops.doctor", "postgres.sql")["repair.enum"].prepare(slots, "dollar").text


def _history(patient: Patient, subject: Subject, spec: Spec[Any]) -> Program[list[Problem]]:
    """The history exists, with its columns and with the index that finds the entries of a row."""
    history = spec.history
    if history is None or history.table in patient.histories:
        return []
    patient.histories.add(history.table)
    there = yield from patient.catalog.columns(history.table)
    created = history_table(spec, patient.dialect)
    if not there:
        what = f"the history {history.table} does not exist: every move fails"
        return [_drift(subject, what, sql(*created, safe=True))]
    if missing := [column for column in columns_of(history) if column not in there]:
        what = f"the history {history.table} lacks {', '.join(missing)}"
        return [_drift(subject, what, sql(*adding(history, missing, patient.dialect)))]
    indexes = yield from _whole_indexes(patient, history.table)
    if any(one[:2] == ("lifecycle", "key") for one in indexes):
        return []
    made = created[-1]
    if patient.dialect == "postgres":
        made = made.replace("CREATE INDEX ", "CREATE INDEX CONCURRENTLY ", 1)
    what = f"no index serves the history {history.table}: reading the history of one row scans all of it"
    return [Problem("index", "warning", subject.name, what, repair=sql(made, safe=True))]


def _whole_indexes(patient: Patient, name: str) -> Program[list[tuple[str | None, ...]]]:
    """The columns of each index that has no WHERE."""
    rows = yield from patient.catalog.rows("verify.indexes", name)
    if patient.dialect == "postgres":
        return [tuple(found) for found, _, where in rows if where is None]
    listed: dict[str, list[str | None]] = {}
    for index, column, _, _, partial in rows:
        if not partial:
            listed.setdefault(index, []).append(column)
    return [tuple(one) for one in listed.values()]


def _drift(subject: Subject, what: str, repair: Repair) -> Problem:
    return Problem("schema", "error", subject.name, what, repair=repair)
