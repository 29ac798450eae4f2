"""A first move, on a connection of your own."""

import sqlite3
from contextlib import closing

from commands import Command
from database import database
from raceproof import bind

with database("c-42") as path, closing(sqlite3.connect(path, isolation_level=None)) as connection:
    # docs: call
    db = bind(connection)

    for command_move, key in (
        (Command.ack, "c-42"),
        (Command.send, "c-42"),
        (Command.ack, "c-42"),
        (Command.ack, "c-43"),
    ):
        answer = db.move(command_move, key, by="node-7")
        print(f"{answer.outcome:8} won={answer.won!s:5} reached={answer.reached!s:5} {answer}")
