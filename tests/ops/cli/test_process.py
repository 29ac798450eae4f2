"""The program as a process: exit codes, pipes, terminals, colours, interruption, and a missing extra."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from raceproof import __version__
from raceproof.ops.cli.program import COMMANDS
from tests.ops.cli.conftest import Cli, Process, command_line, environment


def test_the_version_is_printed(process: Process) -> None:
    """Name and version on stdout, nothing on stderr."""
    result = process("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"raceproof {__version__}\n", "")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help_with_an_example(cli: Cli, command: str) -> None:
    """Help says what it does and shows at least one call that can be typed."""
    result = cli(*command.split(), "--help")
    assert result.exit_code == 0
    assert "  raceproof " in result.stdout


def test_a_pipe_of_two_commands_moves_rows(process: Process, sqlite_url: str) -> None:
    """Ids from one process are keys for the next, and what is said to people is not among them."""
    env = {"RACEPROOF_APP": "declared", "DATABASE_URL": sqlite_url}
    first = process("move", "Command", "send", "c-1", "c-2", "c-3", "--yes", "-o", "ids", env=env)
    assert (first.returncode, first.stdout) == (0, "c-1\nc-2\nc-3\n")
    assert "3 moved" in first.stderr
    second = process("move", "Command", "ack", "-", "nobody", "--yes", "-o", "jsonl", env=env, input=first.stdout)
    assert second.returncode == 7
    assert [json.loads(line)["outcome"] for line in second.stdout.splitlines()] == ["moved"] * 3 + ["missing"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("show", "Command", "c-1"), 0),
        (("diagram", "--output", "no/such/folder/x.svg"), 1),
        (("show", "Command"), 2),
        (("explain", "Command", "c-1", "--move", "explode"), 2),
        (("explain", "Job", "43", "--to", "RUNNING"), 3),
        (("show", "Command", "nobody"), 4),
        (("show", "Command", "c-1", "--url", "sqlite:///nothing.db"), 5),
        (("verify", "--matrix"), 6),
        (("move", "Command", "ack", "c-1", "nobody", "-y"), 7),
    ],
)
def test_exit_codes_are_what_the_help_says(process: Process, sqlite_url: str, args: tuple[str, ...], code: int) -> None:
    """Each kind of end has its code, and none has a traceback."""
    result = process(*args, env={"RACEPROOF_APP": "declared", "RACEPROOF_URL": sqlite_url})
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback(process: Process) -> None:
    """Before or after the command's name, --debug adds where the error comes from."""
    for args in (("--debug", "show", "Job", "1"), ("show", "Job", "1", "--debug")):
        result = process(*args, "--app", "declared", "--url", "sqlite:///nothing.db")
        assert (result.returncode, "Traceback" in result.stderr) == (5, True)


@pytest.mark.parametrize("module", ["click", "rich"])
def test_a_missing_extra_is_named(tmp_path: Path, module: str) -> None:
    """Without click or rich the program says what to install, in one line and with exit code 1."""
    program = f"import sys; sys.modules[{module!r}] = None; from raceproof.ops.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert f"{module} is not installed" in result.stderr
    assert "install the extra 'cli' of raceproof, with pip install '.[cli]'" in result.stderr


def test_a_missing_driver_is_named(tmp_path: Path) -> None:
    """Without psycopg a PostgreSQL URL leads to the extra that has it."""
    program = "import sys; sys.modules['psycopg'] = None; from raceproof.ops.cli import main; main()"
    call = [sys.executable, "-c", program, "show", "Job", "1", "--app", "tests.ops.cli.declared"]
    result = subprocess.run(
        [*call, "--url", "postgresql://127.0.0.1/x"], capture_output=True, text=True, env=environment()
    )
    assert (result.returncode, "'.[postgres]'" in result.stderr) == (1, True)
    assert "Traceback" not in result.stderr


def test_a_reader_that_has_seen_enough_is_no_error(process: Process, sqlite_url: str) -> None:
    """A closed pipe ends the program without a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        result = process(
            "sql",
            "--statements",
            "--app",
            "declared",
            stdout=closed,
            stderr=subprocess.PIPE,
            capture_output=False,
        )
    assert result.stderr == ""
    assert result.returncode != 0


@pytest.mark.parametrize("args", [("show", "Command", "c-1"), ("metrics",), ("sql",)])
def test_a_full_disk_is_said_and_ends_with_1(process: Process, sqlite_url: str, args: tuple[str, ...]) -> None:
    """It is stdout that cannot be written, not the store that cannot be reached; and Python is not surprised at its end."""
    env = {"RACEPROOF_APP": "declared", "RACEPROOF_URL": sqlite_url}
    with open("/dev/full", "wb") as full:
        result = process(*args, env=env, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: stdout cannot be written: ")
    assert "No space left" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", [0, 1, 2], ids=["stdin", "stdout", "stderr"])
def test_a_stream_that_is_closed_is_no_surprise(process: Process, sqlite_url: str, closed: int) -> None:
    """Without stdout nothing is begun, for nobody would be told; the others are not needed."""
    env = {"RACEPROOF_APP": "declared", "RACEPROOF_URL": sqlite_url}
    moving = ("move", "Command", "ack", "c-1")
    result = process(*moving, "--yes", env=env, preexec_fn=lambda: os.close(closed))
    assert (result.returncode, "stdout is closed" in result.stderr) == (int(closed == 1), closed == 1)
    shown = process("show", "Command", "c-1", "-o", "json", env=env)
    assert json.loads(shown.stdout)["status"] == ("QUEUED" if closed == 1 else "ACK")
    asked = process(*moving, env=env, preexec_fn=lambda: os.close(closed))
    assert (asked.returncode, "Traceback" in asked.stderr) == (1 if closed == 1 else 2, False)


def test_a_pipe_gets_neither_colour_nor_cut_lines(process: Process, sqlite_url: str) -> None:
    """A long value in a table stays whole, and there is no escape sequence."""
    env = {"RACEPROOF_APP": "declared", "RACEPROOF_URL": sqlite_url, "COLUMNS": "40"}
    process("move", "Command", "finish", "c-1", "--set", f"note={'x' * 300}", "--yes", env=env)
    result = process("show", "Command", "c-1", env=env)
    assert "x" * 300 in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_any_encoding_of_the_terminal_will_do(process: Process, sqlite_url: str, encoding: str) -> None:
    """Arrows and marks that cannot be shown are no error, and the exit code stays the same."""
    env = {"RACEPROOF_APP": "declared", "RACEPROOF_URL": sqlite_url, "PYTHONIOENCODING": encoding}
    for args, code in (
        (("explain", "Job", "42", "--to", "ENDED"), 3),
        (("show", "Job", "42"), 0),
        (("verify",), 0),
    ):
        result = process(*args, env=env, encoding="utf-8")
        assert (result.returncode, result.stderr) == (code, "")


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_a_move_asks_first(
    process: Process, sqlite_url: str, tmp_path: Path, answer: str, code: int
) -> None:
    """Only a yes moves the row; the question names the move and the store, on stderr."""
    with on_terminal(tmp_path, "move", "Command", "ack", "c-1", url=sqlite_url) as (running, terminal):
        question = read_until(terminal, "[y/N]")
        assert "Move 1 row to ACK (Command.ack) in sqlite:///" in question
        os.write(terminal, answer.encode())
        stdout, _ = running.communicate()
    assert running.returncode == code
    assert ("moved" in stdout) == (code == 0)


def test_an_interrupted_program_ends_with_130(process: Process, sqlite_url: str, tmp_path: Path) -> None:
    """Ctrl-C at the question moves nothing and leaves no traceback."""
    with on_terminal(tmp_path, "move", "Command", "ack", "c-1", url=sqlite_url) as (running, terminal):
        read_until(terminal, "[y/N]")
        interrupt(running)
        assert "Traceback" not in read_until(terminal, "interrupted")
    assert running.returncode == 130
    shown = process("show", "Command", "c-1", "-o", "json", "--app", "declared", "--url", sqlite_url)
    assert json.loads(shown.stdout)["status"] == "QUEUED"


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_has_colour_unless_no_color_is_set(
    process: Process, sqlite_url: str, tmp_path: Path, no_color: bool
) -> None:
    """With NO_COLOR there may be bold, but no colour."""
    env = {"TERM": "xterm-256color"} | ({"NO_COLOR": "1"} if no_color else {})
    with on_terminal(tmp_path, "verify", "Job", url=sqlite_url, env=env, stdout=True) as (running, terminal):
        seen = read_until(terminal, "no guards: raw SQL")
        running.communicate()
    assert ("\x1b[32m" in seen) != no_color


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_for_this_program(process: Process, shell: str) -> None:
    """It asks raceproof itself what may come next."""
    result = process("completion", shell)
    assert (result.returncode, "_RACEPROOF_COMPLETE" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("raceproof ", "explain"),
        ("raceproof show --app declared J", "Job"),
        ("raceproof move --app declared Command fa", "fail_sending"),
        ("raceproof explain --app declared Command c-1 --to SEND", "SEND_FAILED"),
        ("raceproof show --app nowhere J", ""),
    ],
)
def test_the_tab_key_offers_names_of_the_declaration(process: Process, typed: str, offered: str) -> None:
    """Commands, lifecycles, moves and statuses are completed; a wrong --app offers nothing and says nothing."""
    words = typed.split(" ")
    env = {
        "_RACEPROOF_COMPLETE": "bash_complete",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(words) - 1),
    }
    result = process(env=env)
    assert result.returncode == 0
    assert result.stderr == ""
    found = [line.partition(",")[2] for line in result.stdout.splitlines() if line]
    assert (offered in found) if offered else found == []


@contextmanager
def on_terminal(
    folder: Path, *args: str, url: str, env: dict[str, str] | None = None, stdout: bool = False
) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run the program with a terminal as stdin and stderr, and as stdout on request."""
    ours, theirs = pty.openpty()
    settings = environment() | {"RACEPROOF_APP": "declared", "RACEPROOF_URL": url} | (env or {})
    with subprocess.Popen(
        command_line(*args),
        stdin=theirs,
        stderr=theirs,
        stdout=theirs if stdout else subprocess.PIPE,
        text=True,
        cwd=folder,
        env=settings,
    ) as running:
        os.close(theirs)
        try:
            yield running, ours
        finally:
            running.kill()
            os.close(ours)


def interrupt(running: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C until the program has ended: one that comes just before a read begins is not seen by it."""
    for _ in range(60):
        running.send_signal(signal.SIGINT)
        try:
            running.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            continue
        return
    pytest.fail("the program cannot be interrupted")


def read_until(terminal: int, wanted: str) -> str:
    """What the terminal shows, up to a text that must come."""
    seen = b""
    while wanted not in seen.decode(errors="replace"):
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, f"{wanted!r} did not come: {seen!r}"
        try:
            seen += os.read(terminal, 4096)
        except OSError:  # the other side has closed it
            break
    assert wanted in seen.decode(errors="replace"), seen
    return seen.decode(errors="replace")
