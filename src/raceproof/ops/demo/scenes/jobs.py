"""Stale worker: a worker is paused past its lease, another one takes its jobs over, and the first one finishes late.

Taking a job is atomic on both sides, and both have the same lease. They differ in the write at the end.
"""

import time
from enum import StrEnum
from functools import partial
from pathlib import Path

from raceproof import Claim, Lifecycle, bind, claimable, move
from raceproof.ops.demo.database import connect_file
from raceproof.ops.demo.scenes.relay import LEASE, ROWS, relay, rounds, work
from raceproof.ops.demo.scenes.scene import Code, Figure, Scene
from raceproof.ops.demo.sides import RACEPROOF, UNGUARDED


class Status(StrEnum):
    """What is known of a job."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id"):
    """A job that one worker at a time may have."""

    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE, sets="result")
    work = claimable(start, lease=LEASE)


class Unguarded:
    """What people write: the job is taken carefully, and finished by its id."""

    def __init__(self, database: Path, worker: str) -> None:
        self._database = connect_file(database)
        self._worker = worker
        self.close = self._database.close

    def take(self) -> list[str]:
        """Queued jobs, and those of a worker that has not been heard of for too long."""
        rows = self._database.execute(
            """
            UPDATE jobs_unguarded SET status = 'RUNNING', claimed_by = ?, claimed_until = ?
            WHERE job_id IN (
                SELECT job_id FROM jobs_unguarded
                WHERE status = 'QUEUED' OR (status = 'RUNNING' AND claimed_until < ?)
                ORDER BY job_id LIMIT ?
            )
            RETURNING job_id
            """,
            (self._worker, time.time() + LEASE, time.time(), ROWS),
        )
        return sorted(job_id for (job_id,) in rows.fetchall())

    def finish(self, job_id: str) -> None:
        """Write the result."""
        self._database.execute(
            "UPDATE jobs_unguarded SET status = 'DONE', result = ? WHERE job_id = ?", (self._worker, job_id)
        )


class Guarded:
    """The same with raceproof: a claim, whose fence goes into the write at the end."""

    def __init__(self, database: Path, worker: str) -> None:
        self._database = connect_file(database)
        self._db = bind(self._database)
        self._worker = worker
        self._mine: dict[str, Claim[Status, None]] = {}
        self.close = self._database.close

    def take(self) -> list[str]:
        """Queued jobs, and those whose claim is over."""
        self._mine = {str(one.key): one for one in self._db.claim(Job.work, ROWS, by=self._worker)}
        return sorted(self._mine)

    def finish(self, job_id: str) -> None:
        """Write the result, if the claim is still this worker's."""
        answer = self._db.move(Job.finish, self._mine[job_id], set={"result": self._worker})
        if not answer.won:
            self._database.execute(
                "INSERT INTO late (job_id, worker, answer) VALUES (?, ?, ?)",
                (job_id, self._worker, answer.outcome),
            )


def open_side(side: str, database: Path, actor: str) -> Unguarded | Guarded:
    """A worker of one side, on a connection of its own."""
    return Guarded(database, actor) if side == RACEPROOF else Unguarded(database, actor)


CODE = Code(
    """\
job = take_job()  # for 0.3 s, then others may
result = work(job)  # paused: another takes over
execute("UPDATE jobs SET status = 'DONE', result = ?"
        " WHERE job_id = ?", result, job.job_id)
""",
    (2, 3),
    """\
class Job(Lifecycle[Status], table="jobs", …):
    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE, …)
    work = claimable(start, lease=0.3)

for mine in db.claim(Job.work):
    done = {"result": work(mine)}
    answer = db.move(Job.finish, mine, set=done)
    # UPDATE … WHERE job_id = ? AND fence = ?
    # Lost: somebody else has the job now
""",
    (7,),
)

STALE_WORKER = Scene(
    name="stale-worker",
    title="stale worker",
    story="A worker is paused at its work (SIGSTOP) for longer than its lease. Another one takes its jobs over and "
    "finishes them, and the first one goes on as if nothing had been:",
    cast={name: partial(work, make=open_side) for name in ("worker-1", "worker-2")},
    told=(
        ("workers ×2", f"take {ROWS} jobs for {LEASE:g} s, work, write the results"),
        (UNGUARDED, "takes a job in one statement, and finishes it by its id"),
        (RACEPROOF, "claims it, and finishes it with the claim"),
    ),
    direct=relay,
    rounds=rounds,
    items=2 * ROWS,
    noun="jobs",
    schema="jobs.sql",
    ddl=(),
    put_in={
        UNGUARDED: "INSERT INTO jobs_unguarded (job_id) VALUES (?)",
        RACEPROOF: "INSERT INTO jobs (job_id) VALUES (?)",
    },
    figures=(
        Figure(
            "jobs_done",
            "jobs done",
            "",
            "SELECT count(DISTINCT job_id) FROM results WHERE side = ?",
        ),
        Figure(
            "late_results_refused",
            "late results refused",
            "",
            "SELECT count(*) FROM late WHERE ? = 'raceproof'",
        ),
        Figure(
            "overwritten_by_a_late_worker",
            "overwritten by a late worker",
            "after the end",
            "SELECT count(*) FROM results WHERE side = ? AND after IS NOT holder AND before IS NOT NULL",
            wrong=True,
        ),
        Figure(
            "finished_by_a_late_worker",
            "finished by a late worker",
            "another was at it",
            "SELECT count(*) FROM results WHERE side = ? AND after IS NOT holder AND before IS NULL",
            wrong=True,
        ),
    ),
    worst_said="were overwritten by a late worker",
    code=CODE,
)
