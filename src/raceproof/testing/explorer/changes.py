"""What a step changed in the rows, in few words: `jobs j1: status QUEUED→RUNNING, fence 0→1`.

A row goes by its first columns, as many as it takes to tell all rows of its table apart. Times are shown as the clock of
the run shows them, in seconds since it began. Of a history only what it says is shown, not its columns.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from raceproof.testing.explorer.ground import Tables
from raceproof.testing.explorer.virtual import EPOCH

Row = Mapping[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?")
_FINER = re.compile(r"(\.\d{6})\d+")
_YEAR = 366 * 86400.0
_HISTORY = {"lifecycle", "key", "move", "outcome", "before", "after", "actor", "at"}
_LONG = 40


def changes(before: Tables, after: Tables) -> list[str]:
    """What differs, a text for each row."""
    return [
        text
        for table in dict.fromkeys((*before, *after))
        for text in _of_table(table, before.get(table, ()), after.get(table, ()))
    ]


def _of_table(table: str, before: Sequence[Row], after: Sequence[Row]) -> Iterator[str]:
    if list(before) == list(after):
        return
    columns = _telling(before, after)
    old, new = ({_key(row, columns): row for row in rows} for rows in (before, after))
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        if now is not None and was is None and now.keys() >= _HISTORY:
            yield _entry(now)
            continue
        name = f"{table} {' '.join(shown(value) for value in key)}"
        if now is None:
            yield f"{name}: deleted"
        elif was is None:
            told = ", ".join(f"{column} {shown(now[column])}" for column in _rest(now, columns))
            yield f"{name}: {told}" if told else name
        else:
            yield f"{name}: " + ", ".join(
                f"{column} {shown(was.get(column))}→{shown(now[column])}"
                for column in now
                if was.get(column) != now[column]
            )


def _telling(*tables: Sequence[Row]) -> int:
    """How many of the first columns tell the rows apart, before and after."""
    width = max((len(row) for rows in tables for row in rows), default=1)
    for columns in range(1, width):
        if all(len({_key(row, columns) for row in rows}) == len(rows) for rows in tables):
            return columns
    return width


def _key(row: Row, columns: int) -> tuple[Any, ...]:
    return tuple(list(row.values())[:columns])


def _rest(row: Row, columns: int) -> list[str]:
    return [name for name in list(row)[columns:] if row[name] is not None]


def _entry(row: Row) -> str:
    """An entry of a history: who moved what, and what came of it."""
    by = f" by {shown(row['actor'])}" if row["actor"] else ""
    return f"history + {shown(row['lifecycle'])}.{shown(row['move'])} {shown(row['key'])} {shown(row['outcome'])}{by}"


def shown(value: object) -> str:
    """A value as a person wants to see it: a moment of the run in seconds, and no text is long."""
    if value is None:
        return "–"
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str):
        moment = _seconds(value)
        return f"{moment:g} s" if moment is not None else shortened(plain(value), _LONG) or "''"
    return shortened(plain(repr(value)), _LONG)


def _seconds(text: str) -> float | None:
    """When that is by the clock of the run, or None if it is no moment of it."""
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(_FINER.sub(r"\1", text))
    except ValueError:
        return None
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - EPOCH
    return round(seconds, 3) if abs(seconds) < _YEAR else None


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def plain(text: str) -> str:
    """A text in one line without control characters: what is in a row must not be able to drive a terminal."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
