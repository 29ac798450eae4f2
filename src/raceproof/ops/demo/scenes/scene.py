"""What a scene is made of: the tables, who acts, who directs, and what is counted.

The schema of a scene has three views that the page reads: `items` (side, key), every row that was raced for; `wrong` (id,
side, key, actor, what), every wrong write; `refused` (id, key, actor, what), what raceproof did not let happen.
"""

import os
import signal
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from raceproof.ops.demo.database import connect_file

PATIENCE = 60.0
"""Seconds after which an actor that says nothing is an error; nothing depends on how long it takes."""


@dataclass(frozen=True, slots=True)
class Post:
    """What an actor works with."""

    side: str
    actor: str
    database: Path
    director: "Connection[Any, Any]"
    seed: int
    delay: float


@dataclass(frozen=True, slots=True)
class Line:
    """The director's line to an actor."""

    actor: str
    process: int
    connection: "Connection[Any, Any]"

    def tell(self, what: str | None) -> None:
        """Say something to the actor; None is the end."""
        self.connection.send(what)

    def hear(self, word: str) -> None:
        """Wait until the actor says this."""
        if not self.connection.poll(PATIENCE):
            raise TimeoutError(f"{self.actor} did not say {word!r}")
        if (said := self.connection.recv()) != word:
            raise RuntimeError(f"{self.actor} said {said!r}, not {word!r}")

    def pause(self) -> None:
        """Stop the process, as a debugger, a full machine or a moved virtual machine does."""
        os.kill(self.process, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on, none the wiser."""
        os.kill(self.process, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Direction:
    """What a director works with."""

    lines: Mapping[str, Line]
    rounds: int
    put_in: Callable[[int], list[str]]
    """Put so many new rows into this side's table; returns their keys."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that is counted for each side."""

    name: str
    label: str
    remark: str
    query: str
    """Takes the side and gives the number."""
    wrong: bool = False
    live: bool = True
    """Whether it says something before the end."""


@dataclass(frozen=True, slots=True)
class Code:
    """The lines that make the difference, and which of them do."""

    unguarded: str
    unguarded_lines: tuple[int, ...]
    guarded: str
    guarded_lines: tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """A race, on both sides."""

    name: str
    title: str
    story: str
    cast: Mapping[str, Callable[[Post], None]]
    told: tuple[tuple[str, str], ...]
    """Who acts and how the sides do it, for the opening."""
    direct: Callable[[Direction], None]
    rounds: Callable[[float], int]
    """How many rounds are played for so many seconds of `--seconds`."""
    items: int
    """How many rows there are in a round."""
    noun: str
    schema: str
    ddl: tuple[str, ...]
    put_in: Mapping[str, str]
    """A statement for each side that inserts a row with the key."""
    figures: tuple[Figure, ...]
    worst_said: str
    """What is said of the rows that the first of the wrong figures counts."""
    code: Code

    @property
    def worst(self) -> Figure:
        """The figure that stands for the scene in one line."""
        return next(figure for figure in self.figures if figure.wrong)

    def create(self, database: Path) -> None:
        """Make the tables; nothing stays open, for a connection must not be carried into a forked process."""
        text = files("raceproof.ops.demo.scenes").joinpath(self.schema).read_text(encoding="utf-8")
        with closing(connect_file(database)) as connection:
            for script in (*self.ddl, text):
                connection.executescript(script)

    def key(self, number: int) -> str:
        """The key of the row with this number, from 1."""
        return f"{self.noun[0]}-{number:04d}"

    def count(self, connection: sqlite3.Connection, side: str) -> dict[str, int]:
        """All figures of one side."""
        found = {}
        for figure in self.figures:
            [found[figure.name]] = connection.execute(figure.query, (side,)).fetchone()
        return found
