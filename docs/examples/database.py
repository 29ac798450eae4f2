"""The table that the examples share, in a fresh database for each run."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from commands import Command
from raceproof import ddl

TABLE = """
-- docs: table
CREATE TABLE commands (
    cmd_id      TEXT PRIMARY KEY,
    status      TEXT NOT NULL DEFAULT 'QUEUED',
    rev         INTEGER NOT NULL DEFAULT 0,
    sent_at     TEXT,
    ack_at      TEXT,
    duration_ms INTEGER,
    error       TEXT
);
-- docs: database
"""


@contextmanager
def database(*cmd_ids: str) -> Iterator[Path]:
    """A SQLite file with these commands, all QUEUED; gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "commands.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(TABLE + "\n".join(ddl(Command, dialect="sqlite", only="tables")))
            connection.executemany("INSERT INTO commands (cmd_id) VALUES (?)", [(one,) for one in cmd_ids])
            connection.commit()
        yield path
