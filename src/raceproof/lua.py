"""The Lua scripts of Redis and Valkey: their files, made into a script for one declaration.

A line `-- for: …` in a file begins a section and names what it is for; `all` is in every script. What a script has no use
for is left out of it, sections and constants alike, because the server makes everything in it anew on each run.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any

from raceproof.quoting import lua_literal

_SECTION = re.compile(r"^-- for: (.*)\n", re.MULTILINE)
_COMMENT = re.compile("--.*")
_WORD = re.compile(r"\w+")


def script(files: Iterable[str], constants: Mapping[str, Any], wanted: Collection[str]) -> str:
    """The constants of a declaration that are used, each a local variable, and then the sections that are wanted."""
    body = ""
    for text in files:
        head, *sections = _SECTION.split(text)
        body += head
        for names, section in zip(sections[::2], sections[1::2], strict=True):
            if not {"all", *wanted}.isdisjoint(names.split()):
                body += section
    used = set(_WORD.findall(_COMMENT.sub("", body)))
    made = [f"local {name} = {_value(value)}\n" for name, value in constants.items() if name in used]
    return "".join(made) + body


def constants_of(made: str) -> str:
    """The first lines of a script, up to its own first comment."""
    return "\n".join(takewhile(lambda line: not line.startswith("--"), made.splitlines()))


def _value(value: Any) -> str:
    match value:
        case None | bool():
            return "true" if value else "false"
        case str():
            return lua_literal(value)
        case int() | float():
            return "math.huge" if value == math.inf else repr(value)
        case Mapping():
            return (
                "{" + ", ".join(f"[{lua_literal(name)}] = {_value(one)}" for name, one in value.items()) + "}"
            )
    return "{" + ", ".join(map(_value, value)) + "}"
