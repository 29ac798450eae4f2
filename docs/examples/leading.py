"""Two instances, one lease: the old leader can no longer write, whatever it believes."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

from commands import Command
from database import database
from raceproof import Lease, LeaseGranted, bind, ddl

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=31)

with database("c-1", "c-2") as path, closing(sqlite3.connect(path, isolation_level=None)) as connection:
    connection.execute(*ddl(Lease("sender"), dialect="sqlite"))
    # docs: call
    db = bind(connection)
    sender = Lease("sender", seconds=30)

    old = db.acquire_lease(sender, by="instance-1", now=NOON)
    assert isinstance(old, LeaseGranted)
    print("instance-2:", db.acquire_lease(sender, by="instance-2", now=NOON).outcome)
    print("instance-1:", db.move(Command.send, "c-1", where=db.lease_guard(old)).outcome)

    # instance-1 is paused for 31 seconds; its lease was 30
    new = db.acquire_lease(sender, by="instance-2", now=LATER)
    assert isinstance(new, LeaseGranted)
    print("instance-2:", new.outcome, "in a greater epoch:", new.epoch > old.epoch)

    late = db.move(Command.send, "c-2", where=db.lease_guard(old))
    print("instance-1:", late.outcome)
    print("instance-1:", db.renew_lease(old, now=LATER).outcome, "by", db.lease_holder(sender, now=LATER).by)
    print("instance-2:", db.move(Command.send, "c-2", where=db.lease_guard(new)).outcome)
