"""The jobs that the examples share: their lifecycle and their table."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path

# docs: lifecycle
from raceproof import Lifecycle, claimable, move


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Job(Lifecycle[Status], table="jobs", key="job_id", terminal=(Status.DONE, Status.DEAD)):
    start = move(Status.QUEUED, to=Status.RUNNING)
    requeue = move(Status.RUNNING, to=Status.QUEUED)
    finish = move(Status.RUNNING, to=Status.DONE, sets="result")
    give_up = move(Status.QUEUED, Status.RUNNING, to=Status.DEAD)

    work = claimable(
        start,
        lease=30,
        order_by="made_at",
        attempts="attempts",
        max_attempts=3,
        not_before="not_before",
        back=requeue,
        dead_letter=give_up,
    )


# docs: rest
TABLE = """
-- docs: table
CREATE TABLE jobs (
    job_id        TEXT PRIMARY KEY,
    status        TEXT NOT NULL DEFAULT 'QUEUED',
    made_at       INTEGER NOT NULL,
    result        TEXT,
    claimed_by    TEXT,
    claimed_until TEXT,
    fence         INTEGER,
    attempts      INTEGER NOT NULL DEFAULT 0,
    not_before    TEXT
);
-- docs: database
"""


@contextmanager
def database(*job_ids: str) -> Iterator[Path]:
    """A SQLite file with these jobs, all QUEUED, in this order; gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "jobs.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(TABLE)
            rows = [(one, place) for place, one in enumerate(job_ids)]
            connection.executemany("INSERT INTO jobs (job_id, made_at) VALUES (?, ?)", rows)
            connection.commit()
        yield path
