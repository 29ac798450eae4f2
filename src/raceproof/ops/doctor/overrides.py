"""Overrides of SQLite's guards that were committed without the change they were meant for.

An override is a row, and the guards delete it with the change that it allows. A leftover one allows the next undeclared
change of the lifecycle, whoever makes it. On PostgreSQL an override is a setting of one transaction, and ends with it.
"""

from typing import Any

from raceproof.declare.spec import Spec
from raceproof.kernel.quoting import literal
from raceproof.kernel.statement import Program, templates
from raceproof.ops.doctor.finding import Problem, Subject, sql
from raceproof.ops.doctor.patient import Patient
from raceproof.schema.guards import override_table


def left_behind(patient: Patient, subject: Subject, spec: Spec[Any]) -> Program[list[Problem]]:
    """The override of a lifecycle that no transaction is using."""
    table = override_table(spec)
    if not (yield from patient.catalog.columns(table)):
        return []
    slots = {"override": table, "lifecycle": literal(spec.name)}
    rows = yield patient.text("doctor.overrides", slots).bind({"lifecycle": spec.name})
    if not rows:
        return []
    # an override has no tenant, so a store of one tenant does not see its content
    shown = rows if patient.whose(spec) is None else ()
    evidence = tuple({"actor": actor, "reason": reason} for actor, reason in shown)
    what = f"a leftover override: the guards will allow the next undeclared change of a {spec.name}"
    remove = templates("raceproof.ops.doctor", "sqlite.sql")["repair.excused"].prepare(slots, "dollar").text
    return [Problem("guard", "error", subject.name, what, evidence, repair=sql(remove))]
