"""The screen after the race: the numbers, one command that went wrong, the code that made the difference, where to look."""

import os
import sys
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from raceproof.demo.audit import Wrong
from raceproof.demo.commands import Status
from raceproof.demo.example import Example, Step
from raceproof.demo.page import BAD, GOOD, WIDE, scoreboard
from raceproof.demo.race import Standing
from raceproof.demo.sides import RACEPROOF, UNGUARDED

UNGUARDED_CODE = """\
status = fetch("SELECT status FROM commands"
               " WHERE cmd_id = ?", cmd_id)
if status in ("QUEUED", "SEND_FAILED"):
    publish(command)  # meanwhile the device answers
    execute("UPDATE commands SET status = 'SENT'"
            " WHERE cmd_id = ?", cmd_id)
"""

DECLARATION = """\
class Command(Lifecycle[Status], table="commands", …):
    send = move(Status.QUEUED, Status.SEND_FAILED,
                to=Status.SENT)
"""

CALL = """\
publish(command)
answer = db.move(Command.send, cmd_id, by="dispatcher")
# UPDATE … WHERE cmd_id = ?
#   AND status IN ('QUEUED', 'SEND_FAILED')
# Moved, Already or Refused: losing is an answer
"""


def report(
    standing: Standing, example: Example | None, database: Path | None, width: int
) -> list[RenderableType]:
    """Everything that is printed at the end."""
    parts: list[RenderableType] = [Rule(style="dim"), _verdict(standing), "", scoreboard(standing, width), ""]
    if example:
        parts += [*_story(example, width), ""]
    return [*parts, *_code(width), "", *_further(database)]


def numbers(standing: Standing, example: Example | None, database: Path | None) -> dict[str, Any]:
    """The same as plain data."""
    setting = standing.setting
    return {
        "setting": {
            "seconds": setting.seconds,
            "workers": setting.handlers,
            "commands": setting.commands,
            "seed": setting.seed,
            "delay": setting.delay,
            "processes": setting.processes,
        },
        "elapsed": round(standing.elapsed, 3),
        "sides": {
            side: {
                "moved": score.outcomes["moved"],
                "already": score.outcomes["already"],
                "refused": score.outcomes["refused"],
                "moved_backwards": score.tally.wrong[Wrong.BACKWARDS],
                "lost_updates": score.tally.wrong[Wrong.LOST],
                "double_moves": score.tally.wrong[Wrong.DOUBLE],
                "undeclared": score.tally.wrong[Wrong.UNDECLARED],
                "commands_gone_wrong": len(score.tally.broken),
                "still_wrong_at_the_end": score.tally.misled,
                "commands_ended": score.tally.ended,
            }
            for side, score in standing.scores.items()
        },
        "example": example.cmd_id if example else None,
        "database": str(database) if database else None,
    }


def _verdict(standing: Standing) -> Text:
    total = standing.setting.commands
    unguarded, guarded = (len(standing.scores[side].tally.broken) for side in (UNGUARDED, RACEPROOF))
    return Text.assemble(
        f"Of {total:,} commands, ",
        (f"{unguarded:,}", BAD) if unguarded else ("none", GOOD),
        " went wrong with the usual code and ",
        (f"{guarded:,}", BAD) if guarded else ("none", GOOD),
        " with raceproof. Counted from an audit that triggers in the database kept of every write.",
    )


def _story(example: Example, width: int) -> list[RenderableType]:
    return [
        Text.assemble(("What went wrong", "bold"), f", as command {example.cmd_id} shows"),
        "",
        _side_by_side(_steps(UNGUARDED, example.unguarded), _steps(RACEPROOF, example.guarded), width),
        *(["", example.moral] if example.moral else []),
    ]


def _steps(side: str, steps: tuple[Step, ...]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True, style="dim")
    for _ in range(3):
        table.add_column(no_wrap=True)
    for step in steps:
        style = BAD if step.wrong else GOOD if step.refused else ""
        mark = "✗ " if step.wrong else "✓ " if step.refused else ""
        table.add_row(
            f"{step.milliseconds} ms",
            step.actor,
            Text(step.what, style),
            Text(mark + step.remark, style or "dim"),
        )
    return Group(Text(side, "bold"), _indented(table))


def _code(width: int) -> list[RenderableType]:
    unguarded = _listing(UNGUARDED, UNGUARDED_CODE, (4, 5), BAD)
    guarded = _listing(RACEPROOF, f"{DECLARATION}\n{CALL}", (5,), GOOD)
    return [
        Text("The lines that made the difference", "bold"),
        "",
        _side_by_side(unguarded, guarded, width),
    ]


def _listing(side: str, code: str, telling: tuple[int, ...], style: str) -> RenderableType:
    lines = []
    for number, line in enumerate(code.splitlines()):
        text, mark, comment = line.partition("# ")
        style_here = style if number in telling else ""
        lines.append(Text.assemble((text, style_here), (mark + comment, "dim"), no_wrap=True))
    return Group(Text(side, "bold"), _indented(*lines))


def _further(database: Path | None) -> list[RenderableType]:
    places = Table.grid(padding=(0, 2))
    places.add_column(no_wrap=True)
    places.add_column(style="dim")
    places.add_row("docs/tour.md", "the idea, step by step")
    places.add_row("src/raceproof/demo/sides.py", "the two pieces of code that raced")
    program = _program()
    places.add_row(f"{program} demo --delay 0", "the same without the delays")
    if database is None:
        places.add_row(f"{program} demo --keep", "keeps the database, to ask it why")
    return [Text("Where to look", "bold"), "", _indented(places), *([""] if database else [])]


def question(example: Example | None, database: Path) -> str:
    """A command that asks the kept database about a row, for the shell: to be printed neither wrapped nor padded."""
    cmd_id, status = (example.cmd_id, example.after) if example else ("c-0001", Status.SENT)
    return (
        f"  # both tables and the audit: {database}\n"
        f"  {_program()} explain Command {cmd_id} --to {status} \\\n"
        f"    --app raceproof.demo.commands:Command \\\n"
        f"    --url sqlite:///{quote(str(database))}"
    )


def _program() -> str:
    """How to call the command line from here."""
    beside = Path(sys.executable).with_name("raceproof")
    return "raceproof" if which("raceproof") or not beside.exists() else os.path.relpath(beside)


def _side_by_side(left: RenderableType, right: RenderableType, width: int) -> RenderableType:
    if width < WIDE:
        return _indented(left, "", right)
    both = Table.grid(padding=(0, 4))
    both.add_row(left, right)
    return _indented(both)


def _indented(*what: RenderableType) -> Padding:
    return Padding(Group(*what), (0, 0, 0, 2), expand=False)
