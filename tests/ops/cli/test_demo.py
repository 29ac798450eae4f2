"""`raceproof demo`: the usual code loses an ACK to a late SENT, raceproof never does, and the output says so."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from raceproof.ops.cli.commands.demo import SIDES, Usual, race
from raceproof.ops.cli.exits import Failure
from tests.ops.cli.conftest import Process, environment

COMMANDS = 200
COLOUR = "\x1b[1;3"


def test_a_late_sent_overwrites_the_ack_only_without_a_guard(tmp_path: Path) -> None:
    """Two processes on each side race over the same number of commands; the rows are counted afterwards."""
    usual, guarded = (race(side, COMMANDS, tmp_path / side) for side in SIDES)
    assert usual["SENT"] > 0
    assert usual["ACK"] == COMMANDS - usual["SENT"]
    assert (guarded["ACK"], guarded["SENT"], guarded["QUEUED"]) == (COMMANDS, 0, 0)
    assert guarded["refused"] > 0


def test_the_demo_shows_the_counts_and_the_lines_that_made_the_difference(process: Process) -> None:
    """In a pipe it is plain text: the counts of both sides, and the code that raced."""
    result = process("demo")
    assert (result.returncode, result.stderr) == (0, "")
    lines = [line.split() for line in result.stdout.splitlines()]
    [lost] = [line[-4:] for line in lines if line[:3] == ["ended", "as", "SENT,"]]
    assert (lost[0], int(lost[1]) > 0, lost[2:]) == ("✗", True, ["✓", "0"])
    [acknowledged] = [line[-2:] for line in lines if line[:-2] == ["ended", "as", "ACK"]]
    assert [int(acknowledged[0]) + int(lost[1]), int(acknowledged[1])] == [300, 300]
    assert "\x1b" not in result.stdout
    for line in (
        'class Command(Lifecycle[Status], table="commands"):',
        "    send = move(Status.QUEUED, to=Status.SENT)",
        "    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)",
        "    return self.db.move(Command.send, key)",
        "    return self.db.move(Command.ack, key)",
    ):
        assert f"\n  {line}\n" in result.stdout


@pytest.mark.parametrize("no_color", [False, True])
def test_no_color_takes_the_colours(process: Process, no_color: bool) -> None:
    """Right and wrong are told apart by a mark, and by a colour unless NO_COLOR is set."""
    env = {"FORCE_COLOR": "1", "TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if no_color else {})
    result = process("demo", env=env)
    assert ("✗" in result.stdout, "✓" in result.stdout) == (True, True)
    assert (COLOUR in result.stdout) != no_color


def test_a_process_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process does not know this side and ends; the first one neither waits for it nor hides it."""
    monkeypatch.setitem(SIDES, "unknown", Usual)
    with pytest.raises(Failure, match="the process that takes the answers has failed"):
        race("unknown", COMMANDS, tmp_path / "unknown")


def test_ctrl_c_ends_both_processes_without_a_traceback(tmp_path: Path) -> None:
    """The terminal sends SIGINT to both; the demo says so, ends with 130 and leaves no files behind."""
    endless = "from raceproof.ops.cli.commands import demo; demo.COMMANDS = 100_000"
    code = f"{endless}; from raceproof.ops.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "demo"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment() | {"TMPDIR": str(tmp_path)},
    ) as running:
        while not is_racing(tmp_path):
            assert running.poll() is None
            time.sleep(0)
        os.killpg(running.pid, signal.SIGINT)
        _, stderr = running.communicate()
    assert running.returncode == 130
    assert stderr == "\ninterrupted\n"
    assert list(tmp_path.iterdir()) == []


def is_racing(folder: Path) -> bool:
    """Whether an answer was recorded."""
    for path in folder.glob("raceproof-demo-*/usual code"):
        with closing(sqlite3.connect(path)) as db, closing(db.cursor()) as cursor:
            if cursor.execute("SELECT name FROM sqlite_master").fetchone() is None:
                return False
            return cursor.execute("SELECT 1 FROM commands WHERE status <> 'QUEUED' LIMIT 1").fetchone() is not None
    return False
