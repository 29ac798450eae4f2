"""What the database saw: every write of a status, as the audit triggers recorded it, held against the declared moves.

This is the measure of the demo and takes nothing from the library but the declaration. A write is wrong in one of four
ways, and in one only:
  double move      it wrote the status that was there: two processes believe that they made this move
  lost update      it changed a command that had ended (DONE → SENT, DONE → TIMEOUT): what was recorded is gone
  moved backwards  it took an open command back to a status that comes earlier (ACK → SENT)
  undeclared       any other change for which there is no move (SEND_FAILED → ACK)
"""

import sqlite3
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from raceproof.ops.demo.commands import Command, Status
from raceproof.ops.demo.sides import SIDES


class Wrong(StrEnum):
    """A way in which a write can be wrong."""

    BACKWARDS = "moved backwards"
    LOST = "lost update"
    DOUBLE = "double move"
    UNDECLARED = "undeclared"


class Write(NamedTuple):
    """One write of a status."""

    id: int
    side: str
    cmd_id: str
    before: str
    after: str
    actor: str
    at: str

    @property
    def wrong(self) -> Wrong | None:
        return judge(self.before, self.after)


_DECLARED = frozenset((str(source), str(one.target)) for one in Command.spec.moves.values() for source in one.sources)
ENDS = frozenset(str(status) for status in Command.spec.terminal)


def _later(status: str) -> frozenset[str]:
    """All statuses that can follow."""
    found: set[str] = set()
    ahead = {status}
    while ahead:
        ahead = {target for source, target in _DECLARED if source in ahead} - found
        found |= ahead
    return frozenset(found)


_LATER = {str(status): _later(str(status)) for status in Status}


def judge(before: str, after: str) -> Wrong | None:
    """What is wrong with a write, if anything."""
    if before == after:
        return Wrong.DOUBLE
    if (before, after) in _DECLARED:
        return None
    if before in ENDS:
        return Wrong.LOST
    return Wrong.BACKWARDS if before in _LATER[after] else Wrong.UNDECLARED


@dataclass
class Tally:
    """What one side has written so far."""

    writes: int = 0
    wrong: Counter[Wrong] = field(default_factory=Counter)
    recent: deque[Write] = field(default_factory=lambda: deque(maxlen=6))
    """The latest wrong writes."""
    broken: set[str] = field(default_factory=set)
    """Commands with a wrong write."""
    status: dict[str, str] = field(default_factory=dict)
    first_end: dict[str, str] = field(default_factory=dict)

    def add(self, write: Write) -> None:
        self.writes += 1
        self.status[write.cmd_id] = write.after
        if write.after in ENDS:
            self.first_end.setdefault(write.cmd_id, write.after)
        if wrong := write.wrong:
            self.wrong[wrong] += 1
            self.broken.add(write.cmd_id)
            self.recent.append(write)

    @property
    def ended(self) -> int:
        """How many commands are at an end."""
        return sum(status in ENDS for status in self.status.values())

    @property
    def misled(self) -> int:
        """How many commands had ended and do not show that end now."""
        return sum(self.status[cmd_id] != end for cmd_id, end in self.first_end.items())


class Auditor:
    """Reads the audit as it grows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._last = 0
        self.tallies = {side: Tally() for side in SIDES}

    def read(self) -> int:
        """Take in what is new; how many writes that were."""
        writes = self._fetch("SELECT * FROM audit WHERE id > ? ORDER BY id", (self._last,))
        for write in writes:
            self.tallies[write.side].add(write)
            self._last = write.id
        return len(writes)

    def wrong_writes(self, side: str) -> list[Write]:
        """All that went wrong on one side, oldest first."""
        every = self._fetch("SELECT * FROM audit WHERE side = ? ORDER BY id", (side,))
        return [write for write in every if write.wrong]

    def of_command(self, side: str, cmd_id: str) -> list[Write]:
        """What happened to one command."""
        return self._fetch("SELECT * FROM audit WHERE side = ? AND cmd_id = ? ORDER BY id", (side, cmd_id))

    def _fetch(self, text: str, parameters: Iterable[object]) -> list[Write]:
        return [Write(*row) for row in self._connection.execute(text, tuple(parameters))]
