"""Whether columns of PostgreSQL have suitable types: integers, and times with a time zone."""

import re
from collections.abc import Iterable, Iterator, Mapping

from raceproof.kernel.quoting import identifier, qualified
from raceproof.ops.verify.finding import Finding

_INTEGERS = ("smallint", "integer", "bigint")
_MOMENT = re.compile(r"timestamp(?:\((\d)\))? (with|without) time zone")
_MICROSECONDS = "6"


def number_findings(numbers: Iterable[str], there: Mapping[str, str]) -> Iterator[Finding]:
    """Columns that should be integers and are not."""
    for column in sorted(set(numbers) & set(there)):
        if there[column] not in _INTEGERS:
            yield Finding("error", f"{column} must be an integer", f"it is {there[column]}")


def time_findings(
    table: str, times: Iterable[str], fences: Iterable[str], there: Mapping[str, str]
) -> Iterator[Finding]:
    """Times without a time zone, and fences that are rounded."""
    for column in sorted({*times, *fences} & set(there)):
        moment = _MOMENT.fullmatch(there[column])
        if moment is None:
            continue
        digits, zone = moment.groups(_MICROSECONDS)
        change = f"ALTER TABLE {qualified(table)} ALTER COLUMN {identifier(column)} TYPE timestamptz;"
        if zone == "without":
            what = f"{column} has no time zone: its value depends on the setting of each session"
            yield Finding("warning", what, "", change)
        if column in fences and digits != _MICROSECONDS:
            # P4: rounded, the time of one holder is that of the next, whose row the first could write
            what = f"{column} is a fence and is rounded: two holders could have the same fence"
            yield Finding("error", what, f"it is {there[column]}", change)
