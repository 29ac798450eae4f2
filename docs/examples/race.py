"""Two workers, one command: first check-then-write, then raceproof."""

import sqlite3
from collections.abc import Iterator
from enum import StrEnum

from raceproof import Lifecycle, bind, move


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"


class Command(Lifecycle[Status], table="commands", key="id"):
    send = move(Status.QUEUED, to=Status.SENT)


connection = sqlite3.connect(":memory:", isolation_level=None)
connection.execute("CREATE TABLE commands (id TEXT PRIMARY KEY, status TEXT)")
connection.execute("INSERT INTO commands VALUES ('c-1', 'QUEUED'), ('c-2', 'QUEUED')")
db = bind(connection)


def naive(name: str) -> Iterator[None]:
    [status] = connection.execute("SELECT status FROM commands WHERE id = 'c-1'").fetchone()
    yield  # here the operating system lets the other worker run
    if status == "QUEUED":
        print(f"naive: {name} publishes c-1")
        connection.execute("UPDATE commands SET status = 'SENT' WHERE id = 'c-1'")


def guarded(name: str) -> Iterator[None]:
    yield  # the same pause
    answer = db.move(Command.send, "c-2")  # check and write in one step, before publishing
    if answer.won:
        print(f"raceproof: {name} publishes c-2")
    else:
        print(f"raceproof: {name} stops: {answer}")


for worker in (naive, guarded):
    both = worker("worker 1"), worker("worker 2")
    for step in (*both, *both):
        next(step, None)
connection.close()
