"""A move inside your own transaction commits or rolls back with it."""

import sqlite3
from contextlib import closing

from commands import Command
from database import database
from raceproof import bind

with database("c-42") as path, closing(sqlite3.connect(path)) as connection:
    connection.execute("CREATE TABLE notices (cmd_id TEXT, said TEXT)")
    db = bind(connection)

    # docs: call
    try:
        with connection:  # sqlite3: commits at the end, rolls back on an exception
            db.move(Command.send, "c-42", by="sender").must()
            connection.execute("INSERT INTO notices VALUES ('c-42', 'on its way')")
            raise RuntimeError("the power went out here")
    except RuntimeError:
        print("after the rollback:", connection.execute("SELECT status FROM commands").fetchone()[0])

    with connection:
        db.move(Command.send, "c-42", by="sender").must()
        connection.execute("INSERT INTO notices VALUES ('c-42', 'on its way')")
    print("after the commit:  ", connection.execute("SELECT status FROM commands").fetchone()[0])
