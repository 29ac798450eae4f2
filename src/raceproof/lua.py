"""The Lua scripts of Redis and Valkey: their files, made into a script for one declaration.

In a file, what comes first tells a reader what it is about. A line `-- for: …` begins a section and names what it is for;
`all` is in every script. A line that ends with
`-- if: …` is there only if all that it names is wanted, and nothing of what follows a `not`. A word of the declaration
stands for its value: the server makes everything in a script anew on each run, so a script has no use for variables that
are always the same, nor for anything else that this declaration does not need.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile
from typing import Any

from raceproof.quoting import lua_literal

_SECTION = re.compile(r"^-- for: (.*)\n", re.MULTILINE)
_CONDITION = re.compile(r"^(?P<line>.*?) *-- if: (?P<names>.*)\n", re.MULTILINE)
_TOKEN = re.compile(r"(?P<skipped>--.*|'(?:[^'\\]|\\.)*'|\.\w+)|(?P<word>[A-Za-z_]\w*)")


class Expression(str):
    """Lua instead of a value: where an argument stands, or several values in turn."""

    __slots__ = ()


def script(files: Iterable[str], constants: Mapping[str, Any], wanted: Collection[str]) -> str:
    """The sections that are wanted, with the constants of a declaration in their places.

    What was put there is told in the first lines; tables are variables, so that each is made once in a run.
    """
    body = ""
    for text in files:
        _, *sections = _SECTION.split(text)
        for names, section in zip(sections[::2], sections[1::2], strict=True):
            if not {"all", *wanted}.isdisjoint(names.split()):
                body += section
    body = _CONDITION.sub(lambda found: _kept(found, wanted), body)
    texts = {name: _value(value) for name, value in constants.items()}
    used: set[str] = set()

    def put(found: re.Match[str]) -> str:
        word = found["word"]
        if word not in texts:
            return found[0]
        used.add(word)
        return word if texts[word].startswith("{") else texts[word]

    body = _TOKEN.sub(put, body)
    made = [
        f"{'local' if text.startswith('{') else '--'} {name} = {text}\n"
        for name, text in texts.items()
        if name in used
    ]
    return "".join(made) + "\n" + body.strip() + "\n"


def arguments(names: Iterable[str]) -> dict[str, Expression]:
    """What the caller gives: the first ones of ARGV, in this order."""
    return {name: Expression(f"ARGV[{place}]") for place, name in enumerate(names, 1)}


def in_turn(values: Iterable[Any]) -> Expression:
    """Several values, as a command takes them."""
    return Expression(", ".join(map(_value, values)))


def constants_of(made: str) -> str:
    """The first lines of a script: what its declaration has put into it."""
    return "\n".join(takewhile(bool, made.splitlines()))


def _kept(found: re.Match[str], wanted: Collection[str]) -> str:
    """A line, if its condition holds."""
    yes, _, no = found["names"].partition("not ")
    holds = set(yes.split()).issubset(wanted) and set(no.split()).isdisjoint(wanted)
    return f"{found['line']}\n" if holds else ""


def _value(value: Any) -> str:
    match value:
        case Expression():
            return str(value)
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
