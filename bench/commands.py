"""What is moved: rows of a table of commands, round a cycle of two moves with two sources each.

`send` and `fail` undo each other, so a row can go round for ever and every call of a run wins. Even rows begin as
SEND_FAILED and odd ones as SENT, so that a row drawn at random takes either move, in a table of any size. Keys are numbers
of eight digits: they sort as they are made, and pgbench can draw them.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from raceproof import Lifecycle, move
from raceproof.declare import History, Move

FIRST_KEY = 10_000_000
ACTOR = "node-7"
"""Who moves, where a history is kept."""


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    SEND_FAILED = "SEND_FAILED"


@dataclass(frozen=True, slots=True)
class Commands:
    """A table and its lifecycle."""

    table: str
    history: str | None
    rows: int
    moves: tuple[Move[Status], Move[Status]]
    """The two moves of the cycle, in turn."""

    @property
    def ours(self) -> range:
        """The rows that our side moves; the reference has the others, so that neither waits for the other."""
        return range(self.rows // 2)

    @property
    def others(self) -> range:
        return range(self.rows // 2, self.rows)


def commands(table: str, rows: int, history: str | None = None) -> Commands:
    """Declare the lifecycle on a table of this name."""

    class Command(
        Lifecycle[Status],
        table=table,
        key="cmd_id",
        revision="rev",
        history=History(history) if history else None,
    ):
        send = move(Status.QUEUED, Status.SEND_FAILED, to=Status.SENT)
        ack = move(Status.SENT, to=Status.ACK)
        fail = move(Status.SENT, Status.ACK, to=Status.SEND_FAILED)

    return Commands(table, history, rows, (Command.send, Command.fail))


def key_of(row: int) -> str:
    return str(FIRST_KEY + row)


Turn = tuple[int, str]
"""Which move of the cycle, and the key of the row that it moves."""


def even(rows: range) -> range:
    """The rows that are sent first."""
    return rows[rows.start % 2 :: 2]


def walk(rows: range) -> Iterator[Turn]:
    """All even rows in a random order, again and again: first each is sent, then each fails."""
    keys = [key_of(row) for row in even(rows)]
    random.Random(rows.start).shuffle(keys)
    while True:
        for step in (0, 1):
            for key in keys:
                yield step, key


def wander(rows: range) -> Iterator[Turn]:
    """A row at random, with the move that it takes next: both moves come in no order."""
    draw = random.Random(rows.start).randrange
    moved: set[int] = set()
    while True:
        row = draw(rows.start, rows.stop)
        yield (row % 2) ^ (row in moved), key_of(row)
        moved ^= {row}


def slices(rows: range, count: int) -> list[range]:
    """The rows in equal parts, one for each of many callers."""
    size = len(rows) // count
    return [rows[place * size : (place + 1) * size] for place in range(count)]
