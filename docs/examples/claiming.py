"""Two workers, three jobs: one worker sleeps past its lease and wakes up late."""

from datetime import UTC, datetime, timedelta

from jobs import Job, database
from raceproof import connect

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=31)

with database("j-1", "j-2", "j-3") as path, connect(f"sqlite:///{path}") as db:
    # docs: call
    mine = db.claim(Job.work, 2, by="worker-1", now=NOON)
    print("worker-1 holds", [claim.key for claim in mine])
    print("worker-2 holds", [claim.key for claim in db.claim(Job.work, 2, by="worker-2", now=NOON)])

    first, second = mine
    print(db.move(Job.finish, first, set={"result": "ok"}))

    # worker-1 sleeps for 31 seconds; its lease was 30
    [taken_over] = db.claim(Job.work, 1, by="worker-2", now=LATER)
    print("worker-2 took over", taken_over.key, "at attempt", taken_over.attempt)

    late = db.move(Job.finish, second, set={"result": "too late"})
    print("worker-1 finishes:", late.outcome)
    print("worker-1 renews:  ", db.renew(second, now=LATER)[0].outcome)

    print(db.move(Job.finish, taken_over, set={"result": "ok"}))
