"""Triggers from the same declaration: raw SQL cannot make an undeclared move."""

import sqlite3
from contextlib import closing

from commands import Command
from database import database
from raceproof import bind, ddl
from raceproof.ops.verify import try_matrix, verify

with database("c-42") as path, closing(sqlite3.connect(path, isolation_level=None)) as connection:
    # docs: call
    for statement in ddl(Command, dialect="sqlite", only="guards"):  # or: raceproof sql --guards
        connection.execute(statement)
    db = bind(connection)
    db.move(Command.finish, "c-42", by="listener")

    try:
        connection.execute("UPDATE commands SET status = 'SENT' WHERE cmd_id = 'c-42'")
    except sqlite3.IntegrityError as error:
        print(f"refused: {error}")

    connection.execute("BEGIN")
    connection.execute("INSERT INTO raceproof_override VALUES ('Command', 'ann', 'the device was swapped')")
    connection.execute("UPDATE commands SET status = 'QUEUED' WHERE cmd_id = 'c-42'")
    connection.execute("DELETE FROM raceproof_override")  # in case the update matched no row
    connection.execute("COMMIT")
    latest = db.history(Command, "c-42")[0]
    print(f"{latest.move} by {latest.actor}: {latest.before} → {latest.after}, because {latest.reason}")

    for finding in verify(db, Command):
        print(f"{finding.level:3} {finding.what}")
    trials = try_matrix(db, Command)
    wrong = [trial for trial in trials if trial.wrong]
    print(f"{len(trials)} changes tried, {len(wrong)} with a wrong result")
