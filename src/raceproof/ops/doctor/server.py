"""The server itself: whether its clock is ours, and whether its session is."""

from datetime import UTC, datetime
from typing import Any

from raceproof.kernel.statement import Program, Statement
from raceproof.ops.doctor.finding import Problem, advice
from raceproof.ops.doctor.patient import Patient

_TOLERATED = 1.0
_ASKED = 3


def clock(patient: Patient) -> Program[list[Problem]]:
    """How far the clock of this process is from the store's; the quickest of some answers tells it best."""
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
        "not harmed, they know the store's clock alone; times in logs are, and signatures with a time"
    )
    return [Problem("clock", "warning", "store", what, (evidence,), repair=repair)]


def _time(patient: Patient) -> Program[float]:
    if patient.dialect == "redis":
        ((seconds, micros),) = yield Statement("time", "TIME")
        return float(seconds) + float(micros) / 1e6
    rows = yield patient.text("doctor.clock", {}).bind({})
    return float(rows[0][0])


def pooler(patient: Patient) -> Program[list[Problem]]:
    """Whether who answers is the process that the connection was made with."""
    rows = yield patient.text("doctor.session", {}).bind({})
    actual, told = int(rows[0][0]), told_process(patient.driver)
    if hasattr(patient.driver, "_shared"):  # several connections, each of which has looked for itself
        told = actual if patient.driver.dialect.by_index else 0
    if told is None or told == actual:
        return []
    evidence = {"process_told": told or None, "process_that_answers": actual}
    what = "a pooler stands between us and PostgreSQL: a session is nobody's own"
    repair = advice(
        "nothing needs a session but Leader(advisory=…), which refuses here, and workers, which hear no offers and "
        "poll: give those a URL of the server itself. Through the pooler, switch off the driver's prepared statements"
    )
    return [Problem("pooler", "warning", "store", what, (evidence,), repair=repair)]


def told_process(driver: Any) -> int | None:
    """The process number that the server's side gave when the connection was made; None where the driver hides it."""
    if (inner := getattr(driver, "_driver", None)) is not None:
        return told_process(inner)
    if (pgconn := getattr(driver, "_pgconn", None)) is not None:
        return int(pgconn.backend_pid)
    connection: Any = getattr(driver, "_connection", None)
    for name in ("connection", "dbapi_connection", "driver_connection"):  # Django's and SQLAlchemy's own
        if not hasattr(connection, "get_server_pid") and not hasattr(connection, "info"):
            connection = getattr(connection, name, connection)
    if hasattr(connection, "get_server_pid"):
        return int(connection.get_server_pid())
    told = getattr(getattr(connection, "info", None), "backend_pid", None)
    return None if told is None else int(told)
