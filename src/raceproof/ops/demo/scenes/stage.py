"""Plays a scene: starts its processes on both sides, and tells how it stands until the directors have come to the end."""

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from raceproof.ops.demo.children import CONTEXT, Children, signals_wait
from raceproof.ops.demo.database import connect_file
from raceproof.ops.demo.scenes.scene import Direction, Line, Post, Scene
from raceproof.ops.demo.sides import SIDES, UNGUARDED


@dataclass(frozen=True, slots=True)
class Playbill:
    """A scene, and how it is to be played."""

    scene: Scene
    rounds: int
    seed: int
    delay: float = 1.0

    @property
    def items(self) -> int:
        """How many rows each side races for."""
        return self.rounds * self.scene.items

    @property
    def processes(self) -> int:
        """How many processes race; the two directors do not."""
        return len(SIDES) * len(self.scene.cast)


class Incident(NamedTuple):
    """Something that went wrong, or was refused."""

    key: str
    actor: str
    what: str


@dataclass(frozen=True, slots=True)
class Score:
    """How a scene stands."""

    playbill: Playbill
    elapsed: float
    items: int
    """How many rows have been raced for, on the side that is behind."""
    figures: Mapping[str, Mapping[str, int]]
    """Each side's figures by their names."""


class Play:
    """A scene that is being played."""

    def __init__(self, playbill: Playbill, children: Children, connection: sqlite3.Connection) -> None:
        self._playbill = playbill
        self._children = children
        self._connection = connection
        self._begun = time.monotonic()

    def scores(self, every: float) -> Iterator[Score]:
        """How it stands, every so many seconds until the end."""
        ended = False
        shown = 0.0
        while not ended:
            self._children.check()
            ended = self._children.ended
            if ended or time.monotonic() >= shown + every:
                yield self.score()
                shown = time.monotonic()
            time.sleep(0 if ended else 0.05)
        self._children.check()

    def score(self) -> Score:
        """How it stands now."""
        scene = self._playbill.scene
        raced = [
            self._connection.execute("SELECT count(*) FROM items WHERE side = ?", (side,)).fetchone()[0]
            for side in SIDES
        ]
        return Score(
            self._playbill,
            time.monotonic() - self._begun,
            min(raced),
            {side: scene.count(self._connection, side) for side in SIDES},
        )

    def wrong(self, most: int) -> list[Incident]:
        """The latest that went wrong without guards."""
        return self._incidents(
            "SELECT key, actor, what FROM wrong WHERE side = ? ORDER BY id DESC LIMIT ?", UNGUARDED, most
        )

    def refused(self, most: int) -> list[Incident]:
        """The latest that raceproof refused."""
        return self._incidents("SELECT key, actor, what FROM refused ORDER BY id DESC LIMIT ?", most)

    def _incidents(self, query: str, *parameters: object) -> list[Incident]:
        return [Incident(*row) for row in self._connection.execute(query, parameters)]


@contextmanager
def play(playbill: Playbill, database: Path) -> Iterator[Play]:
    """Start a scene in a new database file; nobody is left running behind it, nor paused."""
    playbill.scene.create(database)
    children = Children(database.parent)
    try:
        with signals_wait():
            for side in SIDES:
                _begin(playbill, side, database, children)
        with closing(connect_file(database)) as connection:
            yield Play(playbill, children, connection)
    finally:
        children.stop()


def _begin(playbill: Playbill, side: str, database: Path, children: Children) -> None:
    """The actors of one side, and their director."""
    scene = playbill.scene
    lines = {}
    for actor, act in scene.cast.items():
        ours, theirs = CONTEXT.Pipe()
        post = Post(side, actor, database, theirs, playbill.seed, playbill.delay)
        process = children.begin(f"{side} {actor}", act, post)
        theirs.close()
        lines[actor] = Line(actor, process, ours)
    children.begin(f"{side} director", _direct, playbill, side, database, lines)
    for line in lines.values():
        line.connection.close()


def _direct(playbill: Playbill, side: str, database: Path, lines: dict[str, Line]) -> None:
    """What a director's process does."""
    scene = playbill.scene
    keys = map(scene.key, count(1))
    with closing(connect_file(database)) as connection:

        def put_in(rows: int) -> list[str]:
            new = list(islice(keys, rows))
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(scene.put_in[side], [(key,) for key in new])
            connection.execute("COMMIT")
            return new

        scene.direct(Direction(lines, playbill.rounds, put_in))
    for line in lines.values():
        line.tell(None)
