"""Asking again: a call that names itself is safe to repeat, and tells what the first one did."""

from commands import Command
from database import database
from raceproof import Already, Moved, connect

with database("c-42") as path, connect(f"sqlite:///{path}") as db:
    # docs: call
    db.move(Command.send, "c-42", call="job-17")  # suppose that this answer never reached us

    match db.move(Command.send, "c-42", call="job-17"):
        case Moved(replayed=True, before=before):
            print(f"it was us: {before} → SENT")
        case Already():
            print("it was another call")

    print(db.move(Command.send, "c-42", call="job-18").outcome)
