"""The two-worker bug, made to happen: a late SENT overwrites an ACK."""

import sqlite3
import tempfile
from contextlib import closing


def publish(cmd_id: str) -> None:
    """The broker takes the message; the device answers at once, and the second worker records the answer."""
    with closing(sqlite3.connect(path, isolation_level=None)) as second_worker:
        second_worker.execute("UPDATE commands SET status = 'ACK' WHERE cmd_id = ?", (cmd_id,))
        print("worker 2: QUEUED → ACK")


# docs: worker
def mark_sent(db: sqlite3.Connection, cmd_id: str) -> None:
    [status] = db.execute("SELECT status FROM commands WHERE cmd_id = ?", (cmd_id,)).fetchone()
    if status == "QUEUED":
        publish(cmd_id)  # meanwhile the device answers, and another worker writes ACK
        db.execute("UPDATE commands SET status = 'SENT' WHERE cmd_id = ?", (cmd_id,))


# docs: run
with tempfile.TemporaryDirectory() as folder:
    path = f"{folder}/commands.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as first_worker:
        first_worker.execute("CREATE TABLE commands (cmd_id TEXT PRIMARY KEY, status TEXT)")
        first_worker.execute("INSERT INTO commands VALUES ('c-42', 'QUEUED')")
        mark_sent(first_worker, "c-42")
        print("worker 1: writes SENT")
        [status] = first_worker.execute("SELECT status FROM commands").fetchone()
        print(f"the row:  {status}")
