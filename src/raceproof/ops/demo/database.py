"""The demo's database: one SQLite file that all processes of both sides share."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from raceproof.ops.demo.commands import Command
from raceproof.ops.demo.plan import Fate
from raceproof.schema import ddl


def connect_file(path: Path) -> sqlite3.Connection:
    """A connection with the settings that both sides use: writers wait for each other, commits are on the disk."""
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def create(path: Path, fates: Iterable[Fate]) -> None:
    """The tables, and every command twice: once for each side.

    Nothing stays open: a connection must not be carried into a forked process.
    """
    rows = [(fate.cmd_id, fate.due) for fate in fates]
    with closing(connect_file(path)) as connection:
        connection.executescript(files("raceproof.ops.demo").joinpath("schema.sql").read_text(encoding="utf-8"))
        connection.executescript("\n".join(ddl(Command, dialect="sqlite", only="tables")))
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO commands (cmd_id, due) VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO commands_unguarded (cmd_id, due) VALUES (?, ?)", rows)
        connection.execute("COMMIT")
