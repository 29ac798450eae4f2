"""Deploy overlap: a new instance takes the lead over while the old one is paused, and the old one still believes it leads.

Becoming the leader is atomic on both sides, and both have the same lease. They differ in the write of the leader's job.
"""

import sqlite3
import time
from enum import StrEnum
from functools import partial
from pathlib import Path

from raceproof import Lease, LeaseGranted, Lifecycle, Refused, bind, move
from raceproof.ops.demo.database import connect_file
from raceproof.ops.demo.scenes.relay import LEASE, ROWS, relay, rounds, work
from raceproof.ops.demo.scenes.scene import Code, Figure, Scene
from raceproof.ops.demo.sides import RACEPROOF, UNGUARDED
from raceproof.schema import ddl

reports = Lease("reports", seconds=LEASE)


class Status(StrEnum):
    """Whether the job of a time slot has been run."""

    DUE = "DUE"
    RUN = "RUN"


class Slot(Lifecycle[Status], table="slots", key="slot"):
    """A time slot, in which the leader's job is to be run."""

    run = move(Status.DUE, to=Status.RUN, sets="ran_by")


class Unguarded:
    """What people write: look who leads, do the job, write it down."""

    def __init__(self, database: Path, instance: str) -> None:
        self._database = connect_file(database)
        self._instance = instance
        self.close = self._database.close

    def take(self) -> list[str]:
        """The slots that are due, for the leader: that is who renewed the heartbeat, or found it too old."""
        now = time.time()
        beat = self._database.execute(
            "UPDATE heartbeat SET holder = ?, at = ? WHERE holder = ? OR at < ?",
            (self._instance, now, self._instance, now - LEASE),
        )
        if not beat.rowcount:
            return []
        return _keys(self._database, "SELECT slot FROM slots_unguarded WHERE status = 'DUE' ORDER BY slot LIMIT ?")

    def finish(self, slot: str) -> None:
        """Write down that the slot has been run."""
        self._database.execute(
            "UPDATE slots_unguarded SET status = 'RUN', ran_by = ? WHERE slot = ?", (self._instance, slot)
        )


class Guarded:
    """The same with raceproof: a lease, whose epoch goes into the write."""

    def __init__(self, database: Path, instance: str) -> None:
        self._database = connect_file(database)
        self._db = bind(self._database)
        self._instance = instance
        self._leading: LeaseGranted | None = None
        self.close = self._database.close

    def take(self) -> list[str]:
        """The slots that are due, for the leader."""
        mine = self._leading
        answer = self._db.acquire_lease(reports, by=self._instance) if mine is None else self._db.renew_lease(mine)
        self._leading = answer if isinstance(answer, LeaseGranted) else None
        if self._leading is None:
            return []
        return _keys(self._database, "SELECT slot FROM slots WHERE status = 'DUE' ORDER BY slot LIMIT ?")

    def finish(self, slot: str) -> None:
        """Write down that the slot has been run, if the epoch is still this instance's."""
        assert self._leading is not None
        answer = self._db.move(
            Slot.run, slot, where=self._db.lease_guard(self._leading), set={"ran_by": self._instance}
        )
        if not answer.won:
            why = answer.outcome
            if isinstance(answer, Refused) and answer.unmet:
                why = f"its epoch is over; the slot is {answer.status}"
            self._database.execute(
                "INSERT INTO late (slot, instance, answer) VALUES (?, ?, ?)", (slot, self._instance, why)
            )


def open_side(side: str, database: Path, actor: str) -> Unguarded | Guarded:
    """An instance of one side, on a connection of its own."""
    return Guarded(database, actor) if side == RACEPROOF else Unguarded(database, actor)


def _keys(database: sqlite3.Connection, query: str) -> list[str]:
    return [slot for (slot,) in database.execute(query, (ROWS,))]


CODE = Code(
    """\
if heartbeat_is_mine():  # so this instance leads
    run_job(slot)  # paused: the new one takes over
    execute("UPDATE slots SET status = 'RUN'"
            " WHERE slot = ?", slot)
""",
    (2, 3),
    """\
leading = db.acquire_lease(Lease("reports", seconds=0.3), by=me)
if isinstance(leading, Leading):
    run_job(slot)
    guard = db.lease_guard(leading)
    answer = db.move(Slot.run, slot, where=guard)
    # UPDATE … WHERE slot = ? AND status IN ('DUE')
    #   AND EXISTS (… name = ? AND epoch = ?)
    # Refused: this epoch is over
""",
    (3, 4),
)

DEPLOY_OVERLAP = Scene(
    name="deploy-overlap",
    title="deploy overlap",
    story="The leader runs a job for each time slot. In a deploy it is paused at its work (SIGSTOP) for longer than "
    "its lease. The new instance takes over, and the old one goes on as if it still led:",
    cast={name: partial(work, make=open_side) for name in ("instance-1", "instance-2")},
    told=(
        ("instances ×2", f"lead for {LEASE:g} s unless they renew, run the slots that are due"),
        (UNGUARDED, "renews a heartbeat, runs the slot, UPDATEs"),
        (RACEPROOF, "holds a lease, runs the slot, moves it with the lease's epoch"),
    ),
    direct=relay,
    rounds=rounds,
    items=2 * ROWS,
    noun="slots",
    schema="slots.sql",
    ddl=(*ddl(Lease("demo"), dialect="sqlite"),),
    put_in={
        UNGUARDED: "INSERT INTO slots_unguarded (slot) VALUES (?)",
        RACEPROOF: "INSERT INTO slots (slot) VALUES (?)",
    },
    figures=(
        Figure("slots_run", "slots run", "", "SELECT count(DISTINCT slot) FROM runs WHERE side = ?"),
        Figure("late_runs_refused", "late runs refused", "", "SELECT count(*) FROM late WHERE ? = 'raceproof'"),
        Figure(
            "run_by_two_leaders",
            "slots run by two leaders",
            "",
            """
            SELECT count(*) FROM (SELECT slot FROM runs WHERE side = ?
                                  GROUP BY slot HAVING count(DISTINCT ran_by) > 1)
            """,
            wrong=True,
        ),
        Figure(
            "writes_of_an_old_leader",
            "writes of an old leader",
            "another one led",
            "SELECT count(*) FROM runs WHERE side = ? AND ran_by <> leader",
            wrong=True,
        ),
    ),
    worst_said="were run by two leaders",
    code=CODE,
)
