"""One run: the database, the processes, and what is known of them while they race."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from raceproof.ops.demo.audit import Auditor, Tally
from raceproof.ops.demo.database import connect_file, create
from raceproof.ops.demo.plan import fates
from raceproof.ops.demo.processes import Processes
from raceproof.ops.demo.sides import SIDES

QUIET = 0.5
"""When all commands have ended and nobody has written for so long, the race is over."""


@dataclass(frozen=True)
class Setting:
    """What a race is about."""

    seconds: float
    handlers: int
    commands: int
    seed: int
    delay: float = 1.0

    @property
    def span(self) -> float:
        """Over how many seconds the commands fall due: the last ones need time to end, too."""
        return self.seconds - 1.2 if self.seconds >= 3 else self.seconds * 0.6

    @property
    def processes(self) -> int:
        return len(SIDES) * (self.handlers + 4)


@dataclass(frozen=True)
class Score:
    """How one side stands: what the actors were told, and what the audit says."""

    outcomes: Counter[str]
    tally: Tally


@dataclass(frozen=True)
class Standing:
    """How both sides stand."""

    setting: Setting
    elapsed: float
    scores: dict[str, Score]


class Refusal(NamedTuple):
    """A move that raceproof refused, as its history tells."""

    cmd_id: str
    actor: str
    found: str
    target: str


class Race:
    """A race that is running."""

    def __init__(self, setting: Setting, processes: Processes, connection: sqlite3.Connection) -> None:
        self._setting = setting
        self._processes = processes
        self.connection = connection
        self.auditor = Auditor(connection)

    def standings(self, every: float) -> Iterator[Standing]:
        """How it stands, every so many seconds until the end."""
        quiet_since = 0.0
        while True:
            written = self.auditor.read()
            elapsed = self._processes.elapsed
            self._processes.check()
            if written or not self._all_ended():
                quiet_since = elapsed
            yield self.standing()
            if elapsed >= self._setting.seconds or elapsed - quiet_since >= QUIET:
                break
            time.sleep(every)
        self._processes.finish()
        self.auditor.read()
        yield self.standing()

    def standing(self) -> Standing:
        """How it stands now, by what has been read of the audit."""
        return Standing(
            self._setting,
            self._processes.elapsed,
            {side: Score(self._processes.counts(side), self.auditor.tallies[side]) for side in SIDES},
        )

    def refusals(self, most: int = 5) -> list[Refusal]:
        """The latest moves that raceproof refused."""
        rows = self.connection.execute(
            """
            SELECT key, actor, before, after FROM raceproof_history
            WHERE outcome = 'refused' ORDER BY id DESC LIMIT ?
            """,
            (most,),
        )
        return [Refusal(*row) for row in rows]

    def _all_ended(self) -> bool:
        return all(tally.ended == self._setting.commands for tally in self.auditor.tallies.values())


@contextmanager
def race(setting: Setting, database: Path) -> Iterator[Race]:
    """Start a race in a new database file; nobody is left running behind it."""
    planned = fates(setting.seed, setting.commands, setting.span, setting.delay)
    create(database, planned)
    processes = Processes(database, planned, setting.handlers)
    try:
        processes.start()
        with closing(connect_file(database)) as connection:
            yield Race(setting, processes, connection)
    finally:
        processes.stop()
