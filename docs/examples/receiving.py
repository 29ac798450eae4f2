"""Chat updates: each is stored once before the sender gets its 200, and processed in order."""

import sqlite3
from contextlib import closing

from raceproof import Inbox, bind, ddl
from raceproof.inbox import Arrival

with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
    connection.executescript("\n".join(ddl(Inbox(), dialect="sqlite")))
    # docs: call
    db = bind(connection)
    inbox = Inbox()

    def update(event_id: str, user: str, body: bytes) -> Arrival:
        return Arrival("telegram", event_id, body, ordering_key=user)

    print(db.receive(inbox, update("1", "ann", b'{"text": "hello"}')))
    print(db.receive(inbox, update("1", "ann", b'{"text": "hello"}')))  # the sender missed our 200
    db.receive_many(inbox, [update("2", "ann", b"{}"), update("3", "bob", b"{}")])

    while claims := db.claim(inbox.work, 10, returning=["event_id", "body"]):
        print("at once:", [claim.row["event_id"] for claim in claims])
        for claim in claims:
            db.move(inbox.finish, claim).must()

    print(db.receive(inbox, update("1", "ann", b'{"text": "hello"}')))  # a duplicate also after it was processed
    print(*(f"{status}: {count}" for status, count, _ in db.inbox_counts(inbox)))
