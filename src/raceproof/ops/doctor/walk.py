"""Finding rows of Redis by scanning a bounded number of keys, and reading fields of many rows in one script."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from raceproof.kernel.redis import text_of
from raceproof.kernel.statement import Program, Statement, source
from raceproof.ops.doctor.patient import Patient
from raceproof.ops.inspect import scan_keys, searchable

LOOK = source("raceproof.ops.doctor", "rows.lua")
_KEYS_IN_ONE_SCAN = 1000


class Found(NamedTuple):
    """A row: the text of its key, how many milliseconds it has left, and some of its fields."""

    member: str
    left: int
    fields: dict[str, Any]


def walk(
    patient: Patient, table: str, wanted: Sequence[str], keep: Callable[[Found], bool], enough: int
) -> Program[list[Found]]:
    """The rows of a table for which `keep` is true; the cost is bounded by the number of keys scanned."""
    searchable(patient.store, table)
    start = f"{table}:"
    fields = tuple(dict.fromkeys(wanted))
    cursor, passed, found = "0", 0, dict[str, Found]()
    while passed < patient.rows * 2 and len(found) < enough:
        cursor, members = yield from scan_keys(start, cursor, _KEYS_IN_ONE_SCAN)
        passed += _KEYS_IN_ONE_SCAN
        if members:
            keys = [f"{start}{member}" for member in members]
            rows = yield Statement("doctor.look", LOOK, fields, keys)
            for member, row in zip(members, rows, strict=True):
                one = Found(member, int(row[0]), dict(zip(fields, map(text_of, row[1:]), strict=True)))
                if keep(one):
                    found[member] = one
        if cursor == "0":
            patient.looked_at = ""
            return list(found.values())
    patient.looked_at = f"only about {passed} keys"
    return list(found.values())
