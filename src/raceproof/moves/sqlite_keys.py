"""A UUID has several spellings on SQLite, which has no type for it: the usual 36 characters, 32 digits, 16 bytes.

Promise: a row that is there under another spelling than the caller's is never answered as missing; the call is refused
with the spelling that the column has.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from raceproof.errors import CallError
from raceproof.quoting import identifier, parameter, qualified
from raceproof.statement import Program, Style, lines, templates

_TEMPLATES = templates("raceproof.moves", "sqlite.sql")
_LENGTHS = (32, 36)


def found_otherwise(
    asked: object, table: str, columns: Sequence[str], parts: Sequence[Any], style: Style
) -> Program[None]:
    """Refuse a key that was not found if the row is there under another spelling of one of its UUIDs."""
    for place, part in enumerate(parts):
        known = _uuid(part)
        if known is None:
            continue
        texts = {known.hex, str(known), known.hex.upper(), str(known).upper()} - {str(part)}
        spellings = {f"spelling_{i}": one for i, one in enumerate([*sorted(texts), known.bytes])}
        others = {f"key_{i}": one for i, one in enumerate(parts) if i != place}
        slots = {
            "table": qualified(table),
            "column": identifier(columns[place]),
            "spellings": ", ".join(map(parameter, spellings)),
            "others": lines(
                (
                    f"t.{identifier(columns[i])} = {parameter(f'key_{i}')}"
                    for i in range(len(parts))
                    if i != place
                ),
                " AND",
            ),
        }
        values = {name: str(one) if isinstance(one, UUID) else one for name, one in others.items()}
        rows = yield _TEMPLATES["move.spelled"].prepare(slots, style).bind(values | spellings)
        if rows:
            raise CallError(
                f"{asked}: {str(part)!r} is not how {table} spells this key: {columns[place]} holds {rows[0][0]!r}. "
                "Pass it like that, or bind the session or connection of your ORM, whose types know the spelling"
            )


def _uuid(part: Any) -> UUID | None:
    if isinstance(part, UUID):
        return part
    if not isinstance(part, str) or len(part) not in _LENGTHS:
        return None
    try:
        return UUID(part)
    except ValueError:
        return None
