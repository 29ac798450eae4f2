"""The same two workers with a guarded move: the late SENT is refused, and told so."""

import sqlite3
import tempfile
from contextlib import closing

# docs: fix
from enum import StrEnum

from raceproof import Already, Lifecycle, Moved, Refused, bind, move


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"


class Command(Lifecycle[Status], table="commands", key="cmd_id"):
    send = move(Status.QUEUED, to=Status.SENT)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)


def mark_sent(db: sqlite3.Connection, cmd_id: str) -> None:
    publish(cmd_id)
    match bind(db).move(Command.send, cmd_id):
        case Moved(before=before):
            print(f"worker 1: {before} → SENT")
        case Already():
            print("worker 1: somebody has recorded it before")
        case Refused(status=status):
            print(f"worker 1: too late, it is at {status}")


# docs: run
def publish(cmd_id: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as second_worker:
        bind(second_worker).move(Command.ack, cmd_id).must()
        print("worker 2: QUEUED → ACK")


with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/commands.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as first_worker:
        first_worker.execute("CREATE TABLE commands (cmd_id TEXT PRIMARY KEY, status TEXT)")
        first_worker.execute("INSERT INTO commands VALUES ('c-42', 'QUEUED')")
        mark_sent(first_worker, "c-42")
        [status] = first_worker.execute("SELECT status FROM commands").fetchone()
        print(f"the row:  {status}")
