"""Repeating a call: with a call id it is safe, and returns what the first call did."""

from commands import Command
from database import database
from raceproof import Already, Moved, connect

with database("c-42") as path, connect(f"sqlite:///{path}") as db:
    # docs: call
    db.move(Command.send, "c-42", call="job-17")  # suppose this answer never reached us

    match db.move(Command.send, "c-42", call="job-17"):
        case Moved(replayed=True, before=before):
            print(f"it was us: {before} → SENT")
        case Already():
            print("it was another call")

    print(db.move(Command.send, "c-42", call="job-18").outcome)
