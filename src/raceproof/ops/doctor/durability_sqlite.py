"""Settings of a connection of SQLite that void A1: a commit that was acknowledged survives.

They belong to the connection, so only those of the connection that is looked at can be known.
"""

from raceproof.kernel.errors import CallError
from raceproof.kernel.quoting import identifier
from raceproof.kernel.statement import Program, Statement
from raceproof.ops.doctor.finding import Level, Problem, sql
from raceproof.ops.doctor.patient import Patient

_LOOKED_AT = "only this connection; every other connection has its own settings"
_IN_MEMORY = "could not check: the database is in memory and ends with its connection"
_EVERY = "-- run this on every connection that the application opens; `raceproof.connect` does"
_SYNCHRONOUS: dict[int, tuple[Level, str, str]] = {
    0: ("error", "OFF", "a crash of the machine loses acknowledged commits, or damages the file"),
    1: ("warning", "NORMAL", "a crash of the machine loses the last acknowledged commits"),
}
_JOURNAL = {
    "off": "nothing can be rolled back, and a crash within a commit damages the file",
    "memory": "a crash within a commit damages the file",
}


def settings(patient: Patient) -> Program[list[Problem]]:
    """Settings with which an acknowledged commit may be lost, of every database that is attached."""
    listed = yield Statement("doctor.databases", "PRAGMA database_list")
    files = [str(name) for _, name, file in listed if file]
    if not files:
        raise CallError(_IN_MEMORY)
    patient.looked_at = _LOOKED_AT
    found = []
    for schema in files:
        of = "" if schema == "main" else f" of {schema}"
        place = identifier(schema)
        ((number,),) = yield Statement("doctor.synchronous", f"PRAGMA {place}.synchronous")
        ((mode,),) = yield Statement("doctor.journal", f"PRAGMA {place}.journal_mode")
        if number in _SYNCHRONOUS:
            level, value, then = _SYNCHRONOUS[number]
            what = f"synchronous{of} is {value}: {then} (voids A1)"
            repair = sql(_EVERY, f"PRAGMA {place}.synchronous = FULL;")
            found.append(Problem("durability", level, "store", what, ({"synchronous": value},), repair=repair))
        if str(mode).lower() in _JOURNAL:
            what = f"journal_mode{of} is {str(mode).upper()}: {_JOURNAL[str(mode).lower()]} (voids A1)"
            repair = sql(_EVERY, f"PRAGMA {place}.journal_mode = WAL;")
            found.append(Problem("durability", "error", "store", what, ({"journal_mode": mode},), repair=repair))
    return found
