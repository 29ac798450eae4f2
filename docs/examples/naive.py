"""Check, then write: two workers publish the same command, and a late SENT overwrites the device's ACK."""

import sqlite3
from collections.abc import Iterator

db = sqlite3.connect(":memory:", isolation_level=None)
db.execute("CREATE TABLE commands (cmd_id TEXT PRIMARY KEY, status TEXT)")
db.execute("INSERT INTO commands VALUES ('c-42', 'QUEUED')")


def worker(name: str) -> Iterator[None]:
    [status] = db.execute("SELECT status FROM commands WHERE cmd_id = 'c-42'").fetchone()
    yield  # the other worker runs
    if status == "QUEUED":
        print(f"{name} publishes c-42")
        yield  # the other worker runs, the device answers
        db.execute("UPDATE commands SET status = 'SENT' WHERE cmd_id = 'c-42'")


one, two = worker("worker 1"), worker("worker 2")
for step in (one, two, one, two):
    next(step)
db.execute("UPDATE commands SET status = 'ACK' WHERE cmd_id = 'c-42'")
print("the device answered: ACK")
for step in (one, two):
    next(step, None)
print("the row says:", *db.execute("SELECT status FROM commands").fetchone())
db.close()
