"""What the files of both sides say: the same questions to both."""

import asyncio
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from raceproof import Lease, ddl
from showcase.twins.commands import Command
from showcase.twins.every import SCENARIOS
from showcase.twins.scenario import PATIENCE, SIDES
from showcase.twins.webhooks import updates

HELD_OFF = "SELECT count(*) FROM seen_held_off WHERE scenario = :scenario"


@dataclass(frozen=True, slots=True)
class Score:
    """How one side of a scenario stands."""

    done: int
    wrong: dict[str, int]
    held_off: int
    held: int
    """What waits for a person."""

    @property
    def total(self) -> int:
        """Everything that went wrong."""
        return sum(self.wrong.values())


Scores = dict[str, dict[str, Score]]
"""By scenario and side."""


def create(database: Path) -> None:
    """The tables of one side."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in ddl(Lease("any"), updates, Command, dialect="sqlite", only="tables"):
            connection.execute(statement)
        connection.executescript(files("showcase.twins").joinpath("schema.sql").read_text(encoding="utf-8"))


async def scores(folder: Path) -> Scores:
    """Of all scenarios, on both sides."""
    return await asyncio.to_thread(_scores, folder)


def _scores(folder: Path) -> Scores:
    found: Scores = {name: {} for name in SCENARIOS}
    for side in SIDES:
        with closing(sqlite3.connect(f"file:{folder / side}.db?mode=ro", uri=True)) as connection:

            def number(question: str, scenario: str, database: sqlite3.Connection = connection) -> int:
                told = {"before": time.time() - PATIENCE, "scenario": scenario}
                return int(database.execute(question, told).fetchone()[0])

            for one in SCENARIOS.values():
                found[one.name][side] = Score(
                    number(one.done[1], one.name),
                    {label: number(question, one.name) for label, question in one.wrong.items()},
                    number(HELD_OFF, one.name),
                    number(one.held[1], one.name) if one.held else 0,
                )
    return found
