"""The one place where names and constants of a declaration become SQL or Lua text.

Promise: whatever a caller declares as a table, column or status comes out as exactly that identifier or string
literal, or as an error; nothing can end a quote early. Values of a call never pass through here: they are parameters,
which stand in a text between two NUL characters until it is prepared for a driver. No name or constant can contain one.
"""

from raceproof.kernel.errors import DeclarationError


def identifier(name: str, mark: str = '"') -> str:
    """Quote one name: `we"ird` becomes `"we""ird"`. (SQLite takes an unknown name in double quotes for a text.)"""
    return mark + _clean(name, "an identifier").replace(mark, mark * 2) + mark


def qualified(name: str) -> str:
    """Quote a table name; a dot separates the schema from the table, inside double quotes it is part of the name."""
    return ".".join(identifier(part) for part in split_qualified(name))


def literal(value: str) -> str:
    """Quote a constant of the declaration (a status, a move's name) as an SQL string."""
    return "'" + _clean(value, "a constant").replace("'", "''") + "'"


def dollar_tag(*texts: str) -> str:
    """A tag for a dollar quote around these texts, which stands in none of them: `$raceproof$`, or another one."""
    whole = "".join(texts)
    tag, number = "$raceproof$", 1
    while tag in whole:
        number += 1
        tag = f"$raceproof{number}$"
    return tag


def lua_literal(value: str) -> str:
    """Quote a name or constant of the declaration as a Lua string: what is not plain ASCII is the number of its byte."""
    return "'" + "".join(map(_lua_byte, _clean(value, "a constant").encode())) + "'"


def _lua_byte(byte: int) -> str:
    return chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\{byte:03d}"


def parameter(name: str) -> str:
    """The place of a parameter in a text; `raceproof.kernel.statement.prepare` makes `$1`, `?` or `%s` of it."""
    return f"\0{name}\0"


def split_qualified(name: str) -> tuple[str, ...]:
    """Split `schema.table` at the dots outside double quotes: `audit."odd.name"` is `audit`, `odd.name`."""
    _clean(name, "a table name")
    parts: list[str] = []
    current: list[str] = []
    quoted = False
    position = 0
    while position < len(name):
        character = name[position]
        if character == '"' and quoted and name[position + 1 : position + 2] == '"':
            current.append('"')
            position += 1
        elif character == '"' and (quoted or not current):
            quoted = not quoted
        elif character == "." and not quoted:
            parts.append("".join(current))
            current = []
        else:
            current.append(character)
        position += 1
    if quoted:
        raise DeclarationError(f"table name {name!r}: a double quote is opened and never closed")
    parts.append("".join(current))
    if len(parts) > 3 or not all(parts):
        raise DeclarationError(f"table name {name!r}: write it as table, schema.table or database.schema.table")
    return tuple(parts)


def _clean(text: str, what: str) -> str:
    if not isinstance(text, str):
        raise DeclarationError(f"{what} must be text, not {text!r}")
    if not text and what == "an identifier":
        raise DeclarationError("an identifier must not be empty")
    if "\0" in text:
        raise DeclarationError(f"{what} must not contain a NUL character: {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DeclarationError(f"{what} must be valid Unicode: {text!r}") from None
    return text
