"""The two pieces of code that race: how a process records that a command has moved on.

`work` is what the process has to do about it, such as publishing a message. It is the same on both sides and takes the
same time; the connection has the same settings.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from raceproof import bind
from raceproof.declare import Move
from raceproof.ops.demo.commands import Status
from raceproof.ops.demo.database import connect_file

UNGUARDED = "unguarded"
RACEPROOF = "raceproof"
SIDES = (UNGUARDED, RACEPROOF)

Work = Callable[[], object]


class _Side:
    """What both have."""

    def __init__(self, path: Path, actor: str) -> None:
        self._database = connect_file(path)
        self._actor = actor

    def close(self) -> None:
        """Close its connection."""
        self._database.close()

    def _find(self, text: str, statuses: Iterable[Status], due: float) -> list[str]:
        return [cmd_id for (cmd_id,) in self._database.execute(text, (json.dumps(list(statuses)), due))]


class Unguarded(_Side):
    """What people write: read the status, check it, do the work, write the new status."""

    def record(self, move: Move[Status], cmd_id: str, work: Work) -> str:
        """Do the work and record the move, if the status allowed it. Says what came of it."""
        [status] = self._database.execute(
            "SELECT status FROM commands_unguarded WHERE cmd_id = ?", (cmd_id,)
        ).fetchone()
        work()
        if status == move.target:
            return "already"
        if status not in move.sources:
            return "refused"
        self._database.execute(
            "UPDATE commands_unguarded SET status = ?, updated_by = ? WHERE cmd_id = ?",
            (move.target, self._actor, cmd_id),
        )
        return "moved"

    def find(self, statuses: Iterable[Status], due: float) -> list[str]:
        """The commands at one of these statuses that were due by then."""
        return self._find(
            """
            SELECT cmd_id FROM commands_unguarded
            WHERE status IN (SELECT value FROM json_each(?)) AND due <= ? ORDER BY due LIMIT 20
            """,
            statuses,
            due,
        )


class Guarded(_Side):
    """The same with raceproof: one call, whose answer says what came of it."""

    def __init__(self, path: Path, actor: str) -> None:
        super().__init__(path, actor)
        self._store = bind(self._database)

    def record(self, move: Move[Status], cmd_id: str, work: Work) -> str:
        """Do the work and record the move, if it is allowed. Says what came of it."""
        work()
        return self._store.move(move, cmd_id, by=self._actor, set={"updated_by": self._actor}).outcome

    def find(self, statuses: Iterable[Status], due: float) -> list[str]:
        """The commands at one of these statuses that were due by then."""
        return self._find(
            """
            SELECT cmd_id FROM commands
            WHERE status IN (SELECT value FROM json_each(?)) AND due <= ? ORDER BY due LIMIT 20
            """,
            statuses,
            due,
        )


Side = Unguarded | Guarded


def open_side(name: str, path: Path, actor: str) -> Side:
    """A side, on a connection of its own."""
    return Guarded(path, actor) if name == RACEPROOF else Unguarded(path, actor)
