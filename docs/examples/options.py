"""What may go along with a move: columns, guards, the revision that you saw, columns to bring back."""

from dataclasses import dataclass

from commands import Command
from database import database
from raceproof import Moved, column, connect
from raceproof.kernel.errors import CallError


# docs: call
@dataclass
class Finished:
    cmd_id: str
    duration_ms: int
    rev: int


with database("c-1", "c-2", "c-3") as path, connect(f"sqlite:///{path}") as db:
    match db.move(Command.finish, "c-1", set={"duration_ms": 730}, returning=Finished):
        case Moved(row=row):
            print(row)

    print(db.move(Command.send, "c-2", where=column("error").is_not_null()))
    print(db.move(Command.send, "c-2", revision=7))
    try:
        db.move(Command.ack, "c-3", set={"duration_ms": 730})
    except CallError as error:
        print(f"CallError: {error}")
