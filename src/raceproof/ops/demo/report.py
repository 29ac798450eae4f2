"""The screen after the race over commands: the numbers, one that went wrong, and the code that made the difference."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from raceproof.ops.demo.audit import Wrong
from raceproof.ops.demo.commands import Status
from raceproof.ops.demo.example import Example, Step
from raceproof.ops.demo.layout import BAD, GOOD, Row, indented, listings, program, side_by_side, verdict
from raceproof.ops.demo.page import scoreboard
from raceproof.ops.demo.race import Standing
from raceproof.ops.demo.sides import RACEPROOF, SIDES, UNGUARDED

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


def report(standing: Standing, example: Example | None, width: int) -> list[RenderableType]:
    """Everything that is printed at the end."""
    parts: list[RenderableType] = [_verdict(standing), "", scoreboard(standing, width), ""]
    if example:
        parts += [*_story(example, width), ""]
    return [*parts, *listings(UNGUARDED_CODE, (4, 5), f"{DECLARATION}\n{CALL}", (5,), width)]


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


def summary(standing: Standing) -> Row:
    """The row of this race in the table of all."""
    unguarded, guarded = (verdict(len(standing.scores[side].tally.broken)) for side in SIDES)
    return "commands gone wrong", "commands", unguarded, guarded


def problem_of(standing: Standing) -> str | None:
    """Why the race does not show what it should."""
    unguarded, guarded = standing.scores[UNGUARDED], standing.scores[RACEPROOF]
    if guarded.tally.wrong.total():
        counts = (f"{number} {wrong}" for wrong, number in guarded.tally.wrong.items())
        return f"raceproof went wrong: {', '.join(counts)}"
    if not guarded.outcomes["moved"]:
        return "raceproof moved nothing"
    if not unguarded.tally.wrong.total():
        return "the unguarded side did not go wrong"
    return None


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
        side_by_side(_steps(UNGUARDED, example.unguarded), _steps(RACEPROOF, example.guarded), width),
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
    return Group(Text(side, "bold"), indented(table))


def question(example: Example | None, database: Path) -> str:
    """A command that asks the kept database about a row, for the shell: to be printed neither wrapped nor padded."""
    cmd_id, status = (example.cmd_id, example.after) if example else ("c-0001", Status.SENT)
    return (
        f"  # both tables and the audit: {database}\n"
        f"  {program()} explain Command {cmd_id} --to {status} \\\n"
        f"    --app raceproof.ops.demo.commands:Command \\\n"
        f"    --url sqlite:///{quote(str(database))}"
    )
