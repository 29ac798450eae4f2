"""The history of a row, losers included."""

from commands import Command
from database import database
from raceproof import connect

with database("c-42") as path, connect(f"sqlite:///{path}") as db:
    # docs: call
    db.move(Command.ack, "c-42", by="listener")
    late = db.move(Command.send, "c-42", by="sender", reason="the broker took it")
    db.move(Command.finish, "c-42", by="listener", set={"duration_ms": 730})

    print(late)
    for entry in reversed(db.history(Command, "c-42")):
        print(f"{entry.actor:8}  {entry.outcome:7}  {entry.before} → {entry.after}")
