"""The command line on the same table; `make docs` shows its output."""

import os
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from commands import Command
from database import database
from raceproof import connect

RACEPROOF = [sys.executable, "-c", "from raceproof.ops.cli import main; main()"]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

with database("c-42") as path:
    with connect(f"sqlite:///{path}") as db:
        db.move(Command.ack, "c-42", by="listener", now=NOON)

    settings = {"RACEPROOF_APP": "commands", "RACEPROOF_URL": f"sqlite:///{path}", "NO_COLOR": "1"}
    for command in (
        "explain Command c-42 --to SENT",
        "move Command finish c-42 --set duration_ms=730 --by ann --yes",
        "verify",
    ):
        done = subprocess.run(
            [*RACEPROOF, *shlex.split(command)],
            cwd=Path(__file__).parent,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            encoding="utf-8",
            check=False,
        )
        print(f"$ raceproof {command}", *map(str.rstrip, done.stdout.splitlines()), "", sep="\n")
