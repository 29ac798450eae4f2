"""An ordering key: the jobs of one user run one after the other, many users at once."""

import sqlite3
from contextlib import closing
from enum import StrEnum

from raceproof import Lifecycle, bind, claimable, move


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


# docs: call
class Job(Lifecycle[Status], table="jobs", key="job_id"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)

    work = claimable(start, lease=30, order_by="made_at", ordering_key="user_id")


with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
    connection.executescript("""
        CREATE TABLE jobs (job_id TEXT PRIMARY KEY, status TEXT, made_at INTEGER, user_id TEXT,
                           claimed_by TEXT, claimed_until TEXT, fence INTEGER);
        INSERT INTO jobs (job_id, status, made_at, user_id) VALUES
            ('a-1', 'QUEUED', 1, 'ann'), ('a-2', 'QUEUED', 2, 'ann'), ('b-1', 'QUEUED', 3, 'bob');
    """)
    db = bind(connection)
    claims = db.claim(Job.work, 10)
    print([claim.key for claim in claims])
    print(db.claim_one(Job.work, "a-2"))
    db.move(Job.finish, claims[0]).must()
    print([claim.key for claim in db.claim(Job.work, 10)])
