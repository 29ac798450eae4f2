"""Rows of Redis are found by walking its keys: a bounded number of them, and some fields of each row in one script."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from raceproof.doctor.patient import Patient
from raceproof.errors import CallError
from raceproof.moves import RedisMoves
from raceproof.moves.redis_texts import text_of
from raceproof.statement import Program, Statement, source

LOOK = source("raceproof.doctor", "look.lua")
_KEYS_IN_ONE_SCAN = 1000
_SPECIAL = "*?[]\\^"


def pattern(start: str) -> str:
    """What SCAN is given for all names that begin so."""
    return "".join(f"\\{one}" if one in _SPECIAL else one for one in start) + "*"


class Found(NamedTuple):
    """A row: the text of its key, how many milliseconds it has left, and some of its fields."""

    member: str
    left: int
    fields: dict[str, Any]


def walk(
    patient: Patient, table: str, wanted: Sequence[str], keep: Callable[[Found], bool], enough: int
) -> Program[list[Found]]:
    """Rows of a table that are worth keeping; what the walk cost is bounded by the number of keys that it passes."""
    moves = patient.driver.moves
    if not isinstance(moves, RedisMoves) or moves.cluster:
        raise CallError("a cluster cannot be searched for rows")
    start = f"{table}:"
    fields = tuple(dict.fromkeys(wanted))
    cursor, passed, found = "0", 0, dict[str, Found]()
    while passed < patient.rows * 2 and len(found) < enough:
        given = (cursor, "MATCH", pattern(start), "COUNT", _KEYS_IN_ONE_SCAN, "TYPE", "hash")
        ((following, names),) = yield Statement("doctor.scan", "SCAN", given)
        keys = [text_of(name) for name in names]
        passed += _KEYS_IN_ONE_SCAN
        if keys:
            for key, row in zip(keys, (yield Statement("doctor.look", LOOK, fields, keys)), strict=True):
                values = dict(zip(fields, map(text_of, row[1:]), strict=True))
                one = Found(key[len(start) :], int(row[0]), values)
                if keep(one):
                    found[one.member] = one
        cursor = text_of(following)
        if cursor == "0":
            patient.looked_at = ""
            return list(found.values())
    patient.looked_at = f"about {passed} keys, not all"
    return list(found.values())
