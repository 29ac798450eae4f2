"""`raceproof demo`: one race between real processes on SQLite, with the usual code and with raceproof.

The code that it prints is the code that raced.
"""

import re
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from inspect import getsource
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
from rich.text import Text

from raceproof import Lifecycle, Refused, bind, move
from raceproof.ops.cli.exits import Failure
from raceproof.ops.cli.options import debug_option
from raceproof.ops.cli.output import console

COMMANDS = 300
_RACE = f"""\
A dispatcher publishes a command, waits until the broker has taken it, and records SENT. Meanwhile another
process receives the device's answer and records ACK. Every device answers, so every row must end as ACK.
{COMMANDS} commands with the usual code, then {COMMANDS} with raceproof; two processes each time, on SQLite.
"""
_ROWS = {"ACK": "ended as ACK", "SENT": "ended as SENT, ACK lost", "refused": "late SENT refused"}
_SPAWN = get_context("spawn")

Publish = Callable[[int], None]


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"


class Usual:
    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def status(self, key: int) -> str:
        return str(self.db.execute("SELECT status FROM commands WHERE id = ?", (key,)).fetchone()[0])

    def dispatch(self, key: int, publish: Publish) -> None:
        if self.status(key) == "QUEUED":
            publish(key)
            self.db.execute("UPDATE commands SET status = 'SENT' WHERE id = ?", (key,))

    def answered(self, key: int) -> None:
        if self.status(key) in ("QUEUED", "SENT"):
            self.db.execute("UPDATE commands SET status = 'ACK' WHERE id = ?", (key,))


class Command(Lifecycle[Status], table="commands"):
    send = move(Status.QUEUED, to=Status.SENT)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)


class Guarded:
    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = bind(db)

    def dispatch(self, key: int, publish: Publish) -> object:
        publish(key)
        return self.db.move(Command.send, key)

    def answered(self, key: int) -> object:
        return self.db.move(Command.ack, key)


SIDES: dict[str, type[Usual | Guarded]] = {"usual code": Usual, "raceproof": Guarded}


@click.command(epilog="\b\nExample:\n  raceproof demo")
@debug_option
def demo() -> None:
    """See rows race, with and without raceproof.

    Real processes race over the same rows: once with the usual code, which reads the status, checks it and updates it,
    and once with guarded moves. The counts show what was lost; the code that raced follows.
    """
    console().print(_RACE)
    with tempfile.TemporaryDirectory(prefix="raceproof-demo-") as folder:
        counts = {side: race(side, COMMANDS, Path(folder, side)) for side in SIDES}
    _report(counts)
    if counts["raceproof"]["ACK"] != COMMANDS:
        raise Failure("raceproof lost an ACK, which must not happen. Please report it.")


def race(side: str, commands: int, path: Path) -> Counter[str]:
    """Dispatch all commands while a second process takes the answers; return how many rows ended where."""
    broker, device = _SPAWN.Pipe()
    receiver = _SPAWN.Process(target=_receive, args=(side, commands, path, device), daemon=True)

    def publish(key: int) -> None:
        broker.send(key)
        broker.recv()

    with closing(_connect(path)) as db:
        db.execute("CREATE TABLE commands (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
        db.executemany("INSERT INTO commands VALUES (?, 'QUEUED')", [(key,) for key in range(commands)])
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C is for this process only
        try:
            receiver.start()
        finally:
            signal.signal(signal.SIGINT, interrupt)
        try:
            device.close()
            racing: Any = SIDES[side](db)
            answers = [racing.dispatch(key, publish) for key in range(commands)]
            receiver.join()
            if receiver.exitcode:
                raise ChildProcessError
        except (EOFError, OSError):
            raise Failure("the process that takes the answers has failed") from None
        finally:
            receiver.kill()
        counts = Counter(dict(db.execute("SELECT status, count(*) FROM commands GROUP BY status").fetchall()))
        return counts + Counter(refused=sum(isinstance(answer, Refused) for answer in answers))


def _receive(side: str, commands: int, path: Path, broker: Connection) -> None:
    racing = SIDES[side](_connect(path))
    for _ in range(commands):
        key = broker.recv()
        broker.send("taken")
        racing.answered(key)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, isolation_level=None)
    db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    return db


def _report(counts: dict[str, Counter[str]]) -> None:
    lines = [Text(f"{'':24}" + "".join(f"{side:>12}" for side in SIDES), "bold")]
    for name, said in _ROWS.items():
        lines.append(Text(f"{said:24}"))
        for side in SIDES:
            number = counts[side][name]
            mark, style = ("", "") if name != "SENT" else ("✗ ", "bold red") if number else ("✓ ", "bold green")
            lines[-1].append(f"{mark}{number:,}".rjust(12), style)
    lines.append(Text("\nThe lines that made the difference", "bold"))
    for side, style, word, code in (
        ("usual code", "red", "UPDATE", (Usual.dispatch, Usual.answered)),
        ("raceproof", "green", r"class |move\(", (Command, Guarded.dispatch, Guarded.answered)),
    ):
        lines.append(Text(f"\n{side}", "bold"))
        for line in "\n".join(dedent(getsource(part)) for part in code).splitlines():
            lines.append(Text(f"  {line}".rstrip(), style if re.search(word, line) else ""))
    for text in lines:
        console().print(text, soft_wrap=True)
