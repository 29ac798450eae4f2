"""`raceproof demo`, run as people run it: a process of its own, with real processes racing inside."""

import fcntl
import json
import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from raceproof.ops.demo.report import question
from raceproof.ops.demo.scenes import SCENES

DEMO = [sys.executable, "-W", "error", "-m", "raceproof.ops.demo"]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-7]|9[0-7]|38|48)[;m]")


@dataclass
class Run:
    """A finished run of the demo."""

    result: dict[str, Any]
    progress: str
    database: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Three seconds of racing over commands, with the database kept."""
    arguments = [
        "--only",
        "commands",
        "--assert",
        "--plain",
        "-o",
        "json",
        "--seconds",
        "3",
        "--keep",
        "--seed",
        "7",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("demo"))}
    ended = subprocess.run([*DEMO, *arguments], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)["commands"]
    return Run(result, ended.stderr, Path(result["database"]))


def test_the_usual_code_goes_wrong_and_raceproof_does_not(run: Run) -> None:
    """The point of the demo, and what `--assert` has checked: one side breaks rows, the other none."""
    unguarded, guarded = run.result["sides"]["unguarded"], run.result["sides"]["raceproof"]
    assert unguarded["commands_gone_wrong"] > 0
    kinds = ("moved_backwards", "lost_updates", "double_moves", "undeclared", "commands_gone_wrong")
    assert [guarded[kind] for kind in kinds] == [0, 0, 0, 0, 0]
    assert guarded["moved"] > 0
    assert guarded["refused"] > 0
    assert "unguarded: " in run.progress


def test_the_numbers_are_those_of_the_audit_in_the_database(run: Run) -> None:
    """Both sides' writes, the double ones and the answers given can be counted again from the kept file."""
    with closing(sqlite3.connect(run.database)) as connection:
        writes = dict(connection.execute("SELECT side, count(*) FROM audit GROUP BY side"))
        doubles = dict(connection.execute("SELECT side, count(*) FROM audit WHERE before = after GROUP BY side"))
        revisions = connection.execute("SELECT sum(rev) FROM commands").fetchone()[0]
        history = dict(connection.execute("SELECT outcome, count(*) FROM raceproof_history GROUP BY outcome"))
    sides = run.result["sides"]
    assert writes == {side: numbers["moved"] for side, numbers in sides.items()}
    assert doubles == {"unguarded": sides["unguarded"]["double_moves"]}
    assert revisions == sides["raceproof"]["moved"]
    assert history == {outcome: sides["raceproof"][outcome] for outcome in ("moved", "already", "refused")}


def test_both_sides_have_the_same_rows_and_end_in_declared_statuses(run: Run) -> None:
    """The twin has the same commands, and the audit's last word on each is what stands in its table."""
    for table, side in (("commands", "raceproof"), ("commands_unguarded", "unguarded")):
        with closing(sqlite3.connect(run.database)) as connection:
            rows = dict(connection.execute(f"SELECT cmd_id, status FROM {table}"))
            last = dict(connection.execute("SELECT cmd_id, after FROM audit WHERE side = ? ORDER BY id", (side,)))
        assert len(rows) == run.result["setting"]["commands"]
        assert {cmd_id: status for cmd_id, status in rows.items() if status != "QUEUED"} == last


def test_the_printed_question_can_be_asked(run: Run) -> None:
    """What the demo says to paste into a shell works there, and says why the command cannot move."""
    asked = subprocess.run(question(None, run.database), shell=True, capture_output=True, text=True)
    assert asked.returncode == 3, asked.stderr
    assert "c-0001" in asked.stdout


def test_a_narrow_terminal_shows_everything_within_its_width() -> None:
    """At 60 columns no line of the live page or of the report is cut or wrapped by the terminal."""
    text = on_a_terminal(60, "--only", "commands", "--seconds", "1")
    lines = [line for line in re.split(r"[\r\n]+", CONTROL.sub("", text)) if line.strip()]
    assert max(cell_len(line.rstrip()) for line in lines) <= 60
    assert any(line.split() == ["unguarded", "raceproof"] for line in lines)
    assert any("of 1 s" in line for line in lines)
    assert "The lines that made the difference" in lines


def test_a_wide_terminal_has_both_codes_side_by_side() -> None:
    """At 140 columns the two listings stand beside each other."""
    text = CONTROL.sub("", on_a_terminal(140, "--only", "commands", "--seconds", "1"))
    assert re.search(r"status = fetch\(.*class Command\(", text)


def test_no_color_takes_the_colours_and_leaves_the_words() -> None:
    """With NO_COLOR there is no colour, and right and wrong are still told apart."""
    plain = on_a_terminal(80, "--only", "commands", "--seconds", "1", NO_COLOR="1")
    assert not COLOUR.search(plain)
    assert "✗" in plain
    assert "✓" in plain
    assert COLOUR.search(on_a_terminal(80, "--only", "commands", "--seconds", "1"))


def interrupt(demo: "subprocess.Popen[str]") -> None:
    """The terminal sends SIGINT to everybody; the demo says so and exits with 130."""
    os.killpg(demo.pid, signal.SIGINT)
    _, stderr = demo.communicate()
    assert demo.returncode == 130
    assert "Traceback" not in stderr
    assert stderr.endswith("interrupted\n")


def test_ctrl_c_ends_all_processes_without_a_traceback(tmp_path: Path) -> None:
    """The terminal sends SIGINT to everybody; the demo says so, exits with 130 and leaves nothing behind."""
    with racing(tmp_path) as demo:
        children = children_of(demo.pid)
        assert len(children) == 14
        interrupt(demo)
    assert not [child for child in children if is_alive(child)]
    assert list(tmp_path.iterdir()) == []


def test_a_killed_demo_takes_its_processes_along(tmp_path: Path) -> None:
    """Even SIGKILL, which nobody can handle, leaves no process running."""
    with racing(tmp_path) as demo:
        children = children_of(demo.pid)
        demo.kill()
    while any(is_alive(child) for child in children):
        time.sleep(0.01)


def test_a_process_that_fails_is_reported_and_not_hidden() -> None:
    """If an actor dies, the numbers would be worth nothing: the demo says which one and why, and fails."""
    code = """
from raceproof.ops.demo import sides
from raceproof.ops.demo.command import demo

def broken(self, move, cmd_id, work):
    raise ValueError("no paper left")

sides.Guarded.record = broken
demo(["--plain", "--seconds", "60"])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "a process of the demo failed: raceproof " in ended.stderr
    assert "no paper left" in ended.stderr


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The scenes in their short form, with their databases kept."""
    arguments = ["--assert", "--plain", "-o", "json", "--seconds", "2", "--keep", "--seed", "7"]
    environment = {**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("scenes"))}
    only = [word for name in SCENES for word in ("--only", name)]
    ended = subprocess.run([*DEMO, *only, *arguments], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    return Run(result, ended.stderr, Path(result["stale-worker"]["database"]).parent)


def test_each_scene_goes_wrong_without_guards_and_never_with_them(scenes: Run) -> None:
    """The figures are exact where the race is arranged: each pause makes four wrong writes, or none."""
    assert list(scenes.result) == list(SCENES)
    for name, scene in SCENES.items():
        sides = scenes.result[name]["sides"]
        wrong = [figure.name for figure in scene.figures if figure.wrong]
        assert [sides["raceproof"][figure] for figure in wrong] == [0, 0]
        assert sides["unguarded"][wrong[0]] > 0
    jobs, slots = (scenes.result[name]["sides"] for name in ("stale-worker", "deploy-overlap"))
    late = ("overwritten_by_a_late_worker", "finished_by_a_late_worker")
    assert [jobs["unguarded"][figure] for figure in late] == [4, 4]
    assert (jobs["raceproof"]["jobs_done"], jobs["raceproof"]["late_results_refused"]) == (16, 8)
    assert (slots["unguarded"]["run_by_two_leaders"], slots["unguarded"]["writes_of_an_old_leader"]) == (8, 8)
    assert (slots["raceproof"]["slots_run"], slots["raceproof"]["late_runs_refused"]) == (16, 8)


def test_every_picture_arrives_once_although_sends_fail(scenes: Run) -> None:
    """Counted again from what the receiver got."""
    sides = scenes.result["callback-poller"]["sides"]
    pictures = scenes.result["callback-poller"]["setting"]["pictures"]
    with closing(sqlite3.connect(scenes.database / "callback-poller.db")) as connection:
        sent = dict(connection.execute("SELECT side, count(*) FROM sent GROUP BY side"))
        once = connection.execute("SELECT count(DISTINCT picture_id) FROM sent WHERE side = 'raceproof'").fetchone()[0]
    assert sent == {side: numbers["sends"] for side, numbers in sides.items()}
    assert once == sent["raceproof"] == pictures
    assert sent["unguarded"] > pictures
    assert sides["raceproof"]["failed_sends"] > 0


def test_an_old_leader_is_refused_for_its_epoch_and_not_only_for_the_slot(scenes: Run) -> None:
    """In half of the rounds the slot is still due when it comes back: nothing but the epoch stands in its way."""
    with closing(sqlite3.connect(scenes.database / "deploy-overlap.db")) as connection:
        answers = dict(connection.execute("SELECT answer, count(*) FROM late GROUP BY answer"))
    assert answers == {"its epoch is over; the slot is DUE": 4, "its epoch is over; the slot is RUN": 4}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_all_scenarios_fit_on_a_terminal(columns: int) -> None:
    """No line is wider than the terminal, no code is cut, and the last table has a row for each figure."""
    text = on_a_terminal(columns, "--seconds", "1")
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", CONTROL.sub("", text)) if line.strip()]
    assert max(map(cell_len, lines)) <= columns
    whole = "\n".join(lines)
    for scene in SCENES.values():
        for code in (scene.code.unguarded, scene.code.guarded):
            assert all(line.strip() in whole for line in code.splitlines())
    ending = lines[lines.index("All scenarios") :]
    for figure in (figure for scene in SCENES.values() for figure in scene.figures if figure.wrong):
        assert any(figure.label in line and line.endswith("0 ✓") for line in ending)


@pytest.mark.parametrize("scenario", list(SCENES))
def test_ctrl_c_in_a_scene_ends_all_processes_also_a_paused_one(tmp_path: Path, scenario: str) -> None:
    """A stopped process hears no polite signal; it is ended all the same."""
    with racing(tmp_path, scenario) as demo:
        children = children_of(demo.pid)
        assert len(children) == 2 * len(SCENES[scenario].cast) + 2
        if scenario != "callback-poller":
            wait_for_a_paused_one(children)
        interrupt(demo)
    assert not [child for child in children if is_alive(child)]
    assert list(tmp_path.iterdir()) == []


def test_a_killed_demo_takes_a_paused_process_along(tmp_path: Path) -> None:
    """Nobody is there to wake it up any more."""
    with racing(tmp_path, "stale-worker") as demo:
        children = children_of(demo.pid)
        wait_for_a_paused_one(children)
        demo.kill()
    while any(is_alive(child) for child in children):
        time.sleep(0.01)


def test_a_process_of_a_scene_that_fails_is_reported() -> None:
    """The director would wait for it in vain."""
    code = """
from raceproof.ops.demo.command import demo
from raceproof.ops.demo.scenes import jobs

def broken(self, job_id):
    raise ValueError("no ink left")

jobs.Guarded.finish = broken
demo(["--only", "stale-worker", "--plain", "--seconds", "60"])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "a process of the demo failed: raceproof worker-1" in ended.stderr
    assert "no ink left" in ended.stderr


class racing:
    """A demo in the middle of its race, in a session of its own."""

    def __init__(self, folder: Path, scenario: str = "commands") -> None:
        self._folder = folder
        self._scenario = scenario

    def __enter__(self) -> "subprocess.Popen[str]":
        self._demo = subprocess.Popen(
            [*DEMO, "--only", self._scenario, "--plain", "--seconds", "600"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(self._folder)},
        )
        assert self._demo.stderr
        assert "unguarded" in self._demo.stderr.readline()
        return self._demo

    def __exit__(self, *_: object) -> None:
        if self._demo.poll() is None:
            self._demo.kill()
        self._demo.wait()
        if self._demo.stderr:
            self._demo.stderr.close()


def on_a_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """Everything that a run writes to a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    demo = subprocess.Popen(
        [*DEMO, *arguments],
        stdout=theirs,
        stderr=theirs,
        env={**clean, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    text = b"".join(everything(ours)).decode()
    assert demo.wait() == 0, text
    return text


def everything(terminal: int) -> Iterator[bytes]:
    with open(terminal, "rb", buffering=0) as stream:
        while True:
            try:
                part = stream.read(65536)
            except OSError:  # on Linux, the end of a terminal is an error
                return
            if not part:
                return
            yield part


def children_of(parent: int) -> list[int]:
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    return [pid for pid in processes if state_and_parent(pid)[1] == str(parent)]


def wait_for_a_paused_one(children: list[int]) -> None:
    while not any(state_and_parent(child)[0] == "T" for child in children):
        time.sleep(0.001)


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and is only waited for does not."""
    return state_and_parent(pid)[0] not in ("", "Z", "X")


def state_and_parent(pid: int) -> tuple[str, str]:
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, parent
