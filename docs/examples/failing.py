"""A job that keeps failing: it backs off, longer each time, and is dead-lettered in the end."""

from datetime import UTC, datetime, timedelta

from jobs import Job, database
from raceproof import connect

now = datetime(2026, 1, 31, 12, tzinfo=UTC)

with database("j-1") as path, connect(f"sqlite:///{path}") as db:
    # docs: call
    [claim] = db.claim(Job.work, now=now)
    print(db.release(claim, now=now)[0])  # not started: the attempt does not count

    while claims := db.claim(Job.work, now=now):
        [claim] = claims
        print(f"attempt {claim.attempt}:", db.fail(claim, "no answer", now=now)[0])
        print("at once:  ", db.claim_one(Job.work, "j-1", now=now))
        now += timedelta(seconds=10)
