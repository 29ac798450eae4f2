"""A store with something on every page: work that waits, runs, was lost, is stuck; a leader, events, deliveries."""

from datetime import UTC, datetime, timedelta
from typing import Any

from raceproof import Claim, SendPermit
from raceproof.declare import spec_of
from raceproof.inbox import Arrival
from raceproof.ops.cli.location import parse_location
from raceproof.ops.cli.options import Options
from raceproof.ops.cli.stores import open_store
from raceproof.ops.doctor import Subject
from raceproof.ops.top import Top, Watch
from tests.ops.doctor.conftest import Ill
from tests.ops.doctor.declared import Job, Login, Parcel, bot, letters, logins, pictures

THINGS: dict[str, Any] = {
    "Job": spec_of(Job), "Parcel": spec_of(Parcel), "Login": spec_of(Login),
    "logins": logins, "pictures": pictures, "bot": bot, "letters": letters,
}  # fmt: skip
MARKUP = "[red]x[/red]\x1b[2J"


def fill(ill: Ill) -> None:
    """Ordinary life, and what goes wrong in it."""
    db = ill.db
    for number in range(30):
        ill.put("ill_jobs", id=f"job-{number:02}", status="QUEUED", made_at=number)
    ill.put("ill_jobs", id=MARKUP, status="QUEUED", made_at=99)
    db.offer(Job.work, [*(f"job-{number:02}" for number in range(30)), MARKUP])
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    stale = db.claim_one(Job.work, "job-07", by="worker-3", now=long_ago)
    assert isinstance(stale, Claim)
    taken = db.claim_one(Job.work, "job-07", by="worker-1")
    assert isinstance(taken, Claim)
    db.move(Job.finish, taken, by="worker-1")
    db.move(Job.finish, stale, by="worker-3")
    for claim in db.claim(Job.work, 9, by="worker-1")[:4]:
        db.move(Job.finish, claim, by="worker-1", reason="all well")
    db.claim_one(Job.work, "job-21", by="worker-2", now=long_ago)
    db.claim_one(Job.work, MARKUP, by=MARKUP)
    db.start_attempt(logins, "ann", "login-1")
    db.start_attempt(logins, "ann", "login-2")
    db.acquire_lease(bot, "host-a:4711")
    for number in range(5):
        db.receive(letters, Arrival("shop", f"order-{number}", b"{}"))
    (event,) = db.claim(letters.work, 1)
    db.fail(event, reason="no such order")
    ill.put("ill_pictures", id="p-1", state="ready")
    permit = db.begin_delivery(pictures, "p-1", by="callback", now=long_ago)
    assert isinstance(permit, SendPermit)
    db.sending(permit, now=long_ago)


def top(ill: Ill, every: float = 3600.0) -> Top:
    """The terminal on that store; with a long interval it looks when it is told to."""
    subjects = [Subject(thing, name, "--app shop.models") for name, thing in THINGS.items()]
    options = Options(location=parse_location(ill.url))
    return Top(Watch(lambda: open_store(options), subjects), str(options.location), every)
