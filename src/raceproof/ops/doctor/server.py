"""The server: its clock, and whether a pooler stands in front of it."""

from datetime import UTC, datetime

from raceproof.kernel.statement import Program, Statement
from raceproof.ops.doctor.finding import Problem, advice
from raceproof.ops.doctor.patient import Patient
from raceproof.ops.inspect import backend_pid

_TOLERATED = 1.0
_ASKED = 3


def clock(patient: Patient) -> Program[list[Problem]]:
    """The difference between the clocks of this process and the store, from the quickest of several answers."""
    found: list[tuple[float, float, float]] = []
    for _ in range(_ASKED):
        before = patient.clock()
        theirs = yield from _time(patient)
        after = patient.clock()
        found.append((after - before, theirs - (before + after) / 2, theirs))
    took, apart, theirs = min(found)
    patient.apart = apart
    if abs(apart) <= _TOLERATED + took / 2:
        return []
    evidence = {
        "store": datetime.fromtimestamp(theirs, UTC),
        "here": datetime.fromtimestamp(theirs - apart, UTC),
        "apart_seconds": round(apart, 3),
        "answer_took_seconds": round(took, 3),
    }
    side = "behind" if apart > 0 else "ahead of"
    what = f"the clock of this process is {abs(apart):.1f} s {side} the store's"
    repair = advice(
        "sudo chronyc makestep, or sudo timedatectl set-ntp true, on the machine whose clock is wrong. Leases are "
        "not affected, they use the store's clock; log times and signatures with a timestamp are"
    )
    return [Problem("clock", "warning", "store", what, (evidence,), repair=repair)]


def _time(patient: Patient) -> Program[float]:
    if patient.dialect == "redis":
        ((seconds, micros),) = yield Statement("time", "TIME")
        return float(seconds) + float(micros) / 1e6
    rows = yield patient.text("doctor.clock", {}).bind({})
    return float(rows[0][0])


def pooler(patient: Patient) -> Program[list[Problem]]:
    """Whether the process that answers is the one the connection was made with."""
    rows = yield patient.text("doctor.session", {}).bind({})
    actual, named = int(rows[0][0]), backend_pid(patient.store)
    if named is None or named == actual:
        return []
    evidence = {"connected_to_process": named or None, "answering_process": actual}
    what = "a pooler stands between this process and PostgreSQL: sessions are shared"
    repair = advice(
        "only Leader(advisory=…), which refuses to run here, and workers, which get no notifications and poll, need a "
        "session: give those a URL of the server itself. Through the pooler, disable the driver's prepared statements"
    )
    return [Problem("pooler", "warning", "store", what, (evidence,), repair=repair)]
