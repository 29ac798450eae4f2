"""What is written in the picture and how much room it takes, in pixels; the font is monospaced, so this is known."""

import unicodedata
from typing import Any

from raceproof.declare.spec import Move, Spec

TITLE_SIZE, STATUS_SIZE, LABEL_SIZE = 15, 12, 11
_CHARACTER = 0.61  # the width of a character in units of the font's size
_LONGEST = 24


def shortened(text: str) -> str:
    """A text as it is shown: one line of characters that every reader of XML takes, no longer than a box should be."""
    plain = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


def label_of(move: Move[Any]) -> str:
    """What stands on the line of a move; `[…]` says that it has guards."""
    return shortened(move.name) + (" […]" if move.where else "")


def subtitle(spec: Spec[Any]) -> str:
    """Whose lifecycle it is."""
    return f"{shortened(spec.table)}.{shortened(spec.column)}"


def text_width(text: str, size: float) -> float:
    places = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
    return places * size * _CHARACTER


def label_width(move: Move[Any]) -> float:
    return text_width(label_of(move), LABEL_SIZE)


def status_width(status: str) -> float:
    return text_width(shortened(status), STATUS_SIZE)
