"""What a scenario is made of: two pieces of code, what goes wrong, and how that is counted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from showcase.twins.desk import Desk

UNGUARDED = "unguarded"
RACEPROOF = "raceproof"
SIDES = (UNGUARDED, RACEPROOF)

LEASE = 1.5
"""Seconds of silence after which an instance counts as gone, on both sides."""
PATIENCE = 8.0
"""Seconds after which something that should have happened counts as lost."""


class Code:
    """One side of a scenario, in one process; a scenario says what it does."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def hear(self, told: dict[str, Any]) -> dict[str, Any] | None:
        """Something has happened outside; what is returned is the answer."""
        return None

    async def turn(self) -> None:
        """Called again and again."""

    async def close(self) -> None:
        """The process ends in good order."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A race, on both sides."""

    name: str
    title: str
    story: str
    app: str
    """Which of the applications lives from it."""
    unguarded: type[Code]
    guarded: type[Code]
    done: tuple[str, str]
    """What is counted as a success, and the question that counts it."""
    wrong: Mapping[str, str]
    """What goes wrong, and the questions that count it; `:before` is the time before which something is overdue."""
    held_off: str
    """What is said of a loser that raceproof has held off."""
    held: tuple[str, str] | None = None
    """What waits for a person, and the question that counts it."""
    hint: str = ""
    """What makes it go wrong, if it does not by itself."""

    def code(self, side: str) -> type[Code]:
        return self.guarded if side == RACEPROOF else self.unguarded
