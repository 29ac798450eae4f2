"""Rows that should not exist, in SQL: at an undeclared status, or a second open attempt of an owner."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from raceproof.attempts import Attempts
from raceproof.declare.spec import Spec
from raceproof.kernel.keys import KeyParts, key_text
from raceproof.kernel.quoting import identifier, literal, qualified
from raceproof.kernel.statement import Program, templates
from raceproof.kernel.tenants import row_of_tenant
from raceproof.ops.doctor.finding import Problem, Repair, Subject, command, sql
from raceproof.ops.doctor.patient import Patient
from raceproof.ops.doctor.quoting import sqlite_constant
from raceproof.ops.doctor.work import as_argument
from raceproof.ops.verify import has_index, no_index
from raceproof.schema.guards import drop_statements, guard_name, guard_statements, override_table


def strangers(patient: Patient, subject: Subject, spec: Spec[Any]) -> Program[list[Problem]]:
    """Rows at an undeclared status, among those at both ends of the table."""
    found: dict[tuple[Any, ...], Any] = {}
    for direction in ("", " DESC"):
        slots = {
            **_slots(patient, spec),
            "order": ", ".join(f"t.{identifier(column)}{direction}" for column in spec.key_columns),
            "statuses": ", ".join(literal(str(status)) for status in spec.statuses),
        }
        asked = {"rows": patient.rows, "limit": patient.limit + 1, "tenant": patient.tenant_value}
        for status, *key in (yield patient.text("doctor.strangers", slots).bind(asked)):
            found.setdefault(tuple(key), status)
    size = yield patient.text("doctor.size", _slots(patient, spec)).bind(
        {"rows": patient.rows * 2 + 1, "tenant": patient.tenant_value}
    )
    if size[0][0] > patient.rows * 2:
        patient.looked_at = f"only the first and the last {patient.rows} rows by key"
    if not found:
        return []
    rows = [{**dict(zip(spec.key_columns, key, strict=True)), spec.column: status} for key, status in found.items()][
        : patient.limit
    ]
    what = f"rows have an undeclared {spec.column}"
    repair = _mend(patient, spec, rows)
    return [Problem("status", "error", subject.name, what, tuple(rows), len(found) > patient.limit, repair)]


def _mend(patient: Patient, spec: Spec[Any], found: Sequence[dict[str, Any]]) -> Repair:
    """Back to the initial status, as a proposal; with an override for the guards, or with guards disabled meanwhile."""
    status = identifier(spec.column)
    slots = {
        "table": qualified(spec.table),
        "status": status,
        "first": literal(str(spec.initial[0])),
        "revision": identifier(spec.revision) if spec.revision else "",
        "statuses": ", ".join(literal(str(one)) for one in spec.statuses),
        "lifecycle": literal(spec.name),
        "override": override_table(spec),
        "why": literal("doctor: undeclared status"),
        "trigger": identifier(guard_name(spec)),
    }

    def text(name: str, **more: str) -> str:
        template = templates("raceproof.ops.doctor", f"{patient.dialect}.sql")[f"repair.{name}"]
        return template.prepare(slots | more, "dollar").text

    note = " ".join(f"-- {slots['first']} is a proposal; the declared statuses are {slots['statuses']}".split())
    all_of_them = text("status", which=_of_tenant(patient, spec, text("strangers")))
    if spec.name not in patient.guarded:
        return sql(note, all_of_them)
    if patient.dialect == "postgres":
        if spec.history:
            return sql(note, "BEGIN;", text("excuse"), all_of_them, "COMMIT;")
        return sql(note, "BEGIN;", text("disable"), all_of_them, text("enable"), "COMMIT;")
    # The sqlite3 shell goes on after an error. A plain BEGIN never waits for a lock, so whatever fails after it fails
    # inside the transaction; after a BEGIN IMMEDIATE that failed, each line would commit by itself.
    if spec.history:
        return sql(note, "BEGIN;", *_one_by_one(spec, found, text), "COMMIT;")
    drop = "\n".join(drop_statements(spec, "sqlite"))
    again = "\n".join(guard_statements(spec, "sqlite"))
    return sql(note, "BEGIN;", drop, all_of_them, again, "COMMIT;")


def _of_tenant(patient: Patient, spec: Spec[Any], which: str) -> str:
    """The same rows, limited to the tenant that was checked."""
    if spec.tenant is None or patient.tenant is None:
        return which
    return f"({which}) AND {identifier(spec.tenant)} = {literal(str(patient.tenant))}"


def _one_by_one(spec: Spec[Any], found: Sequence[dict[str, Any]], text: Callable[..., str]) -> Iterator[str]:
    """An override for each row, removed again at once: an update that matches no row would leave it to the next writer."""
    for row in found:
        which = _condition(spec, row)
        if which is None:
            yield "-- one row is skipped: its key or status cannot be written exactly as SQL"
        else:
            yield from (text("excuse"), text("status", which=which), text("excused"))


def _condition(spec: Spec[Any], row: dict[str, Any]) -> str | None:
    """A condition for exactly this row, unchanged; None if it cannot be written."""
    columns = (*spec.key_columns, spec.column)
    values = [sqlite_constant(row[column]) for column in columns]
    if None in values:
        return None
    return " AND ".join(f"{identifier(column)} IS {value}" for column, value in zip(columns, values, strict=True))


def owners(patient: Patient, subject: Subject, attempts: Attempts) -> Program[list[Problem]]:
    """Owners with several open attempts, and the index that would prevent them."""
    spec = attempts.lifecycle
    beside = [column for column in attempts.owner_columns if column != attempts.owner]
    slots = {
        **_slots(patient, spec),
        "owner": identifier(attempts.owner),
        # a name at another tenant is another owner
        "part_owner": ", ".join(("part.rp_owner", *(f"part.{identifier(one)}" for one in beside))),
        "found_owner": ", ".join(("found.rp_owner", *(f"found.{identifier(one)}" for one in beside))),
        "began": f"t.{identifier(attempts.started)}" if attempts.started else "NULL",
        "open": ", ".join(literal(str(status)) for status in attempts.open),
    }
    asked = {"rows": patient.rows * 2, "limit": patient.limit + 1, "tenant": patient.tenant_value}
    found: Any = yield patient.text("doctor.owners", slots).bind(asked)
    problems = []
    if found:
        rows = tuple(
            {attempts.owner: owner, **dict(zip(spec.key_columns, key, strict=True)), spec.column: status,
             **({attempts.started: began} if attempts.started else {})}
            for owner, status, began, *key in found
        )[: patient.limit]  # fmt: skip
        problems.append(several(patient, subject, attempts, rows, len(found) > patient.limit))
    if not (yield from has_index(patient.catalog, attempts)):
        one = no_index(patient.catalog, attempts)
        repair = sql(one.repair, safe=not found)
        problems.append(Problem("index", "warning", subject.name, one.what, repair=repair))
    return problems


def several(
    patient: Patient,
    subject: Subject,
    attempts: Attempts,
    rows: Sequence[dict[str, Any]],
    more: bool,
    kept: Mapping[KeyParts, KeyParts] | None = None,
) -> Problem:
    """The newest attempt of each owner stays, or the one in `kept`; it supersedes the others."""
    spec = attempts.lifecycle

    def whose(row: dict[str, Any]) -> KeyParts:
        return tuple(row[column] for column in attempts.owner_columns)

    lines, number = [], 0
    for owner, listed in groupby(rows, key=whose):
        mine, number = list(listed), number + 1
        stays = (kept or {}).get(owner) or _parts(spec, mine[-1])
        lines += [_supersede(patient, subject, attempts, row, stays) for row in mine if _parts(spec, row) != stays]
    what = f"{number} owner{'s' * (number > 1)} with several open attempts; at most one should be active"
    return Problem("owner", "error", subject.name, what, tuple(rows), more, command(*lines))


def _supersede(patient: Patient, subject: Subject, attempts: Attempts, row: dict[str, Any], stays: KeyParts) -> str:
    spec = attempts.lifecycle
    words = [attempts.supersede.name]
    if attempts.link:
        # as a start writes it
        whole = len(spec.key) > 1 or patient.dialect == "redis"
        words += ["--set", f"{attempts.link}={key_text(stays if whole else stays[-1:])}"]
    own = _parts(spec, row)[-len(spec.key) :]
    words += ["--reason", "doctor: the owner has a newer attempt", "--yes"]
    words += as_argument(own if len(own) > 1 else own[0])
    return subject.command("move", *words, name=spec.name, tenant=str(row[spec.tenant]) if spec.tenant else None)


def _parts(spec: Spec[Any], row: dict[str, Any]) -> KeyParts:
    return tuple(row[column] for column in spec.key_columns)


def _slots(patient: Patient, spec: Spec[Any]) -> dict[str, str]:
    return {
        "of_tenant": row_of_tenant(spec.tenant, patient.tenant),
        "table": qualified(spec.table),
        "status": identifier(spec.column),
        "t_keys": ", ".join(f"t.{identifier(column)}" for column in spec.key_columns),
        "found_keys": ", ".join(f"found.{identifier(column)}" for column in spec.key_columns),
    }
