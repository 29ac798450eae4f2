"""The scripts of Redis and Valkey: whole Lua functions from files, put together for one declaration.

Every file is Lua that any tool can read. A name that no file defines is a constant of the declaration, and its value is
written in its place: the server builds everything in a script again on each run, so a script has no variable that never
changes. A block whose condition the declaration makes false is left out, and so is each function that nothing calls.
"""

import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import takewhile
from typing import Any

from raceproof.kernel.quoting import lua_literal
from raceproof.kernel.statement import source

_DEFINITION = re.compile(
    r"(?:^--.*\n)*^local (?:function (?P<function>\w+)\((?:.*\n)+?end\n|(?P<variables>\w+(?:, \w+)*) = .*\n)",
    re.MULTILINE,
)
_BLOCK = re.compile(
    r"(?P<comment>(?:^ *--.*\n)*)^(?P<indent> *)if (?P<condition>\w+(?: \w+)*) then"
    r"(?: (?P<line>\S.*) end\n|\n(?P<body>(?:(?P=indent) .*\n)+)(?P=indent)end\n)",
    re.MULTILINE,
)
_TOKEN = re.compile(r"--.*|'(?:[^'\\]|\\.)*'|\.\w+|(?P<word>[A-Za-z_]\w*)")


class Expression(str):
    """Lua instead of a value: where an argument stands, the name of a function, or several values in turn."""

    __slots__ = ()


def script(files: Iterable[tuple[str, str]], entry: str, constants: Mapping[str, Any]) -> str:
    """A script that returns what the function `entry` of these files (package, name) returns.

    The constants are listed in its first lines; those that are tables are variables, so that each is built once in a run.
    """
    texts = {name: _text(value) for name, value in constants.items()}
    tables = {name for name, text in texts.items() if text.startswith("{")}
    inline = {name: text for name, text in texts.items() if name not in tables}
    defined = {name: text for file in files for name, text in _definitions(*file).items()}
    wanted: dict[str, str] = {}
    used: set[str] = set()
    seen: set[str] = set()

    def want(name: str) -> None:
        """A definition comes after those that it needs."""
        seen.add(name)
        kept = _BLOCK.sub(lambda block: _decided(block, constants), defined[name])
        used.update(_words(kept))
        made = _TOKEN.sub(lambda found: inline.get(found["word"], found[0]), kept)
        for other in defined:
            if other not in seen and other in _words(made):
                want(other)
        wanted[made] = name

    want(entry)
    listed = [f"{'local' if name in tables else '--'} {name} = {texts[name]}\n" for name in texts if name in used]
    return "\n".join(("".join(listed), *wanted, f"return {entry}()\n"))


def arguments(names: Iterable[str]) -> dict[str, Expression]:
    """What the caller gives: the first ones of ARGV, in this order."""
    return {name: Expression(f"ARGV[{place}]") for place, name in enumerate(names, 1)}


def in_turn(values: Iterable[Any]) -> Expression:
    """Several values, as a command takes them."""
    return Expression(", ".join(map(_text, values)))


def constants_of(made: str) -> str:
    """The first lines of a script: what its declaration has put into it."""
    return "\n".join(takewhile(bool, made.splitlines()))


@cache
def _definitions(package: str, file: str) -> Mapping[str, str]:
    """What a file defines at its top level, each with the comments above it."""
    found = {}
    for definition in _DEFINITION.finditer(source(package, file)):
        for name in (definition["function"] or definition["variables"]).split(", "):
            found[name] = definition[0]
    return found


def _decided(block: re.Match[str], constants: Mapping[str, Any]) -> str:
    """Nothing of a block whose condition is false, and what stands in one whose condition is true."""
    indent, line = block["indent"], block["line"]
    body = f"{indent}  {line}\n" if line else _BLOCK.sub(lambda inner: _decided(inner, constants), block["body"])
    holds = _holds(block["condition"], constants)
    if holds is None or (holds and re.search(rf"^{indent}  return\b", body, re.MULTILINE)):
        # a return may only be the last statement of its block
        kept = f" {line} end\n" if line else f"\n{body}{indent}end\n"
        return f"{block['comment']}{indent}if {block['condition']} then{kept}"
    return block["comment"] + textwrap.indent(textwrap.dedent(body), indent) if holds else ""


def _holds(condition: str, constants: Mapping[str, Any]) -> bool | None:
    """Whether a condition over constants is true; None if only the server can say."""
    found: dict[str, bool] = {}
    for word in set(condition.split()) - {"and", "or", "not"}:
        value = constants.get(word, Expression(word))
        if isinstance(value, Expression) and not value.startswith("ARGV["):
            return None
        found[word] = value is not None and value is not False
    return any(
        all(found[term.removeprefix("not ")] != term.startswith("not ") for term in clause.split(" and "))
        for clause in condition.split(" or ")
    )


def _words(text: str) -> set[str]:
    """The names in a piece of Lua; texts, comments and fields are none."""
    return {found["word"] for found in _TOKEN.finditer(text) if found["word"]}


def _text(value: Any) -> str:
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
            return "{" + ", ".join(f"[{lua_literal(name)}] = {_text(one)}" for name, one in value.items()) + "}"
    return "{" + ", ".join(map(_text, value)) + "}"
