"""Unfinished logins and old history: a sweep ends the former and deletes the latter."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from raceproof import Attempts, Lifecycle, bind, ddl, move
from raceproof.ops.sweep import sweep

# docs: declared


class Status(StrEnum):
    PENDING = "pending"
    DONE = "done"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"


class Login(Lifecycle[Status], table="logins", key="login_id", history="raceproof_history"):
    finish = move(Status.PENDING, to=Status.DONE)
    supersede = move(Status.PENDING, to=Status.SUPERSEDED)
    expire = move(Status.PENDING, to=Status.EXPIRED)


logins = Attempts(Login, owner="user_id", supersede=Login.supersede, started="started_at", ttl=900, expire=Login.expire)

# docs: rest
TABLE = "CREATE TABLE logins (login_id TEXT PRIMARY KEY, user_id TEXT, status TEXT NOT NULL, started_at TEXT);"
DAY = 86400.0


def main() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript("\n".join([TABLE, *ddl(Login, dialect="sqlite", only="tables")]))
        db = bind(connection)
        long_ago = datetime.now(UTC) - timedelta(days=100)
        for user in ("ann", "bob"):
            db.start_attempt(logins, user, f"{user}'s", now=long_ago)
        db.start_attempt(logins, "cid", "cid's")
        # docs: call
        for found in sweep(db, Login, logins, keep=90 * DAY, dry_run=True):
            print("would find", found.target, found.work, found.number)
        for done in sweep(db, Login, logins, keep=90 * DAY, by="cron"):
            print(done.target, done.work, done.number)

        print([(entry.move, entry.after, entry.actor) for entry in db.history(Login, "ann's")])
        # docs: end


if __name__ == "__main__":
    main()
