"""Diagrams that are text: Mermaid's state diagram, and plain ASCII for a terminal."""

import re
from collections.abc import Iterator
from typing import Any

from raceproof.declare.spec import Move, Spec

_SIMPLE = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
# words that Mermaid's grammar keeps for itself
_RESERVED = {
    *("accdescr", "acctitle", "as", "choice", "class", "classdef", "click", "default", "direction"),
    *("end", "fork", "hide", "href", "join", "note", "scale", "state", "style"),
}


def mermaid(spec: Spec[Any]) -> str:
    """The lifecycle as a Mermaid state diagram."""
    names = _mermaid_names(spec)
    lines = ["stateDiagram-v2", "    direction LR"]
    lines += [f'    state "{_mermaid_text(status)}" as {name}' for status, name in names.items() if status != name]
    lines += [f"    [*] --> {names[status]}" for status in spec.initial]
    for move in spec.moves.values():
        label = _mermaid_text(move.name + _guards(move))
        lines += [f"    {names[source]} --> {names[move.target]}: {label}" for source in move.sources]
    lines += [f"    {names[status]} --> [*]" for status in spec.terminal]
    return "\n".join(lines) + "\n"


def ascii_diagram(spec: Spec[Any]) -> str:
    """The lifecycle for a terminal: each status with a way out, and where each of its moves leads."""
    names = {status: _printable(status) for status in spec.statuses}
    labels = {move.name: _printable(move.name + _guards(move)) for move in spec.moves.values()}
    name_width = max((len(names[s]) for s in spec.statuses if s not in spec.terminal), default=0)
    label_width = max(map(len, labels.values()))
    lines = [f"{_printable(spec.name)}: {_printable(spec.table)}.{_printable(spec.column)}"]
    for status in spec.statuses:
        moves = [spec.moves[name] for name in spec.moves_from[status]]
        marker = "(*)" if status in spec.initial else "   "
        if not moves and status not in spec.initial:
            continue
        lines.append("")
        stem = f" {marker} {names[status]} ".ljust(name_width + 6, "-" if moves else " ")
        if not moves:
            lines.append(f"{stem.rstrip()} [end]")
        for number, move in enumerate(moves):
            start = stem + "-" if number == 0 else " " * (len(stem) + 1)
            corner = "-" if len(moves) == 1 else "'" if number and number == len(moves) - 1 else "+"
            arrow = f"{labels[move.name]} ".ljust(label_width + 1, "-") + "->"
            end = " [end]" if move.target in spec.terminal else ""
            lines.append(f"{start}{corner}- {arrow} {names[move.target]}{end}")
    lines += ["", " (*) a row starts here   [end] it never leaves again"]
    return "\n".join(lines) + "\n"


def _guards(move: Move[Any]) -> str:
    return f" [{' and '.join(map(str, move.where))}]" if move.where else ""


def _printable(text: str) -> str:
    """One line without control characters, so that nothing in a name can draw on a terminal."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def _mermaid_names(spec: Spec[Any]) -> dict[str, str]:
    """The names of the statuses in Mermaid's grammar: their own where all of them are plain words."""
    plain = all(_SIMPLE.match(status) and status.lower() not in _RESERVED for status in spec.statuses)
    return {str(status): str(status) if plain else f"s{i}" for i, status in enumerate(spec.statuses)}


def _mermaid_text(text: str) -> str:
    return "".join(_mermaid_characters(text)) or "#32;"


def _mermaid_characters(text: str) -> Iterator[str]:
    for character in text:
        if character.isalnum() or character in " _-.,()[]=/+!'":
            yield character
        else:
            yield f"#{ord(character)};"
