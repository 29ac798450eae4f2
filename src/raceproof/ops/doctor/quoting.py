"""Quoting values for repairs: keys for a shell, constants for SQLite.

Promise: the pasted text names exactly the value that was found. Control characters are always escaped, because a terminal,
an indentation or a browser would change them.
"""

import itertools
import math
import shlex
from typing import Any

from raceproof.kernel.quoting import literal

_SEPARATORS = (";", "|", "/", " ")
_ESCAPED = {"\\": "\\\\", "'": "\\'"}


def shell_word(text: str) -> str:
    """A word for a shell; one with control characters in the `$'…'` of bash, zsh and ksh."""
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_shell_character, text)) + "'"


def _shell_character(character: str) -> str:
    if character.isprintable():
        return _ESCAPED.get(character, character)
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogatepass"))


def sqlite_constant(value: Any) -> str | None:
    """A value of SQLite's as an SQL expression that is equal to it; None if the connection has made something else of it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return None
        case int():
            return str(value)
        case float():
            # SQLite reads a number that is too large as infinity, and has no NaN
            return repr(value) if math.isfinite(value) else "9e999" if value > 0 else "-9e999"
        case bytes():
            return f"x'{value.hex()}'"
        case str():
            return _sqlite_text(value)
        case _:
            return None


def _sqlite_text(text: str) -> str:
    """Printable parts between quotes, all else by its number; unlike CAST(x'…' AS TEXT), in any encoding of the database."""
    parts = [
        literal("".join(some)) if is_printable else f"char({', '.join(str(ord(one)) for one in some)})"
        for is_printable, some in itertools.groupby(text, str.isprintable)
    ]
    return f"({' || '.join(parts)})" if len(parts) > 1 else parts[0] if parts else "''"


def key_words(key: Any, wanted: str = ",") -> tuple[str, ...]:
    """What names a row in a command: the key is the last word, and an option says what separates it if no comma does."""
    if not isinstance(key, tuple):
        return (str(key),)
    separator = separator_for(key, wanted)
    text = separator.join(map(str, key))
    return (text,) if separator == "," else ("--key-separator", separator, text)


def separator_for(key: tuple[Any, ...], wanted: str) -> str:
    """What stands between the parts of a key, so that they come apart again as they were."""
    parts = [str(part) for part in key]
    others = (f"<{number}>" for number in itertools.count(1))  # no end of one is the beginning of another
    return next(
        separator
        for separator in itertools.chain((wanted, ",", *_SEPARATORS), others)
        if separator and separator.join(parts).split(separator) == parts
    )
