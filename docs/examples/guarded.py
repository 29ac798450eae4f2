"""Win first, then publish: one worker publishes, and nothing overwrites the device's ACK."""

import sqlite3
from collections.abc import Iterator
from enum import StrEnum

from raceproof import Lifecycle, bind, move


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"


class Command(Lifecycle[Status], table="commands", key="cmd_id"):
    send = move(Status.QUEUED, to=Status.SENT)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)


connection = sqlite3.connect(":memory:", isolation_level=None)
connection.execute("CREATE TABLE commands (cmd_id TEXT PRIMARY KEY, status TEXT)")
connection.execute("INSERT INTO commands VALUES ('c-42', 'QUEUED')")
db = bind(connection)


def worker(name: str) -> Iterator[None]:
    yield  # the other worker runs
    answer = db.move(Command.send, "c-42")  # the check and the write are one statement
    if answer.won:
        print(f"{name} publishes c-42")
    else:
        print(f"{name} does not: {answer}")
    yield  # the other worker runs, the device answers


one, two = worker("worker 1"), worker("worker 2")
for step in (one, two, one, two):
    next(step)
print("the device answered:", db.move(Command.ack, "c-42"))
for step in (one, two):
    next(step, None)
print("the row says:", *connection.execute("SELECT status FROM commands").fetchone())
connection.close()
