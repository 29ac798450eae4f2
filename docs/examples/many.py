"""Many rows in one call, with an answer for each."""

from commands import Command
from database import database
from raceproof import column, connect

with database("c-1", "c-2", "c-3", "c-4", "c-5") as path, connect(f"sqlite:///{path}") as db:
    # docs: call
    # these keys: answers in their order
    for answer in db.move_many(Command.send, ["c-1", "c-2", "c-2", "c-9"], by="sender"):
        print(answer)

    # each row with columns of its own
    db.move_many(Command.finish, {"c-1": {"duration_ms": 730}, "c-2": {"duration_ms": 95}})

    # every row that matches and is at a source of the move; only moved rows are answered
    for answer in db.move_many(Command.fail_sending, where=column("rev") == 0, limit=2, set={"error": "no route"}):
        print(answer)
