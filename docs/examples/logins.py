"""A user requests a QR code again while the first one is still on the screen."""

import sqlite3
from contextlib import closing
from enum import StrEnum

# docs: declared
from raceproof import Attempts, Lifecycle, Started, bind, move


class Status(StrEnum):
    PENDING = "pending"
    SCANNED = "scanned"
    DONE = "done"
    SUPERSEDED = "superseded"


class Login(Lifecycle[Status], table="logins", key="login_id"):
    scan = move(Status.PENDING, to=Status.SCANNED)
    finish = move(Status.SCANNED, to=Status.DONE)
    supersede = move(Status.PENDING, Status.SCANNED, to=Status.SUPERSEDED, sets="superseded_by", stamp="superseded_at")


logins = Attempts(
    Login, owner="user_id", supersede=Login.supersede, link="superseded_by", started="started_at", ttl=900
)

# docs: rest
TABLE = """
-- docs: table
CREATE TABLE logins (
    login_id      TEXT PRIMARY KEY,
    user_id       TEXT NOT NULL,
    status        TEXT NOT NULL,
    started_at    TEXT NOT NULL,
    superseded_by TEXT,
    superseded_at TEXT,
    device        TEXT
);
CREATE UNIQUE INDEX logins_one_open ON logins (user_id) WHERE status IN ('pending', 'scanned');
-- docs: run
"""


def main() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(TABLE)
        # docs: call
        db = bind(connection)
        print(db.start_attempt(logins, "ann", "l-1", columns={"device": "phone"}))
        print(db.start_attempt(logins, "ann", "l-2"))
        match db.start_attempt(logins, "ann", "l-2"):  # the same start again changes nothing
            case Started(replayed=True):
                print("replayed")

        print(db.move(Login.scan, "l-1"))  # the first code is scanned anyway
        db.move(Login.scan, "l-2").must()

        print(db.start_attempt(logins, "ann", "l-3", when_open="keep"))
        print(db.start_attempt(logins, "ann", "l-3", when_open="reject"))
        db.move(Login.finish, "l-2").must()
        print(db.start_attempt(logins, "ann", "l-3"))
        print(db.start_attempt(logins, "ann", "l-1"))  # a finished attempt is not restarted

        current = db.current_attempt(logins, "ann")
        print(current and current["login_id"])
        # docs: end


if __name__ == "__main__":
    main()
