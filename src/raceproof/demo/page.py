"""The screen while it races: what is racing, and how both sides stand.

Colours are the terminal's own red and green, so that they suit a light and a dark one; nothing is told by colour alone.
"""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from raceproof.demo.audit import Wrong
from raceproof.demo.plan import DEADLINE, HANDLING, PUBLISHING
from raceproof.demo.race import Refusal, Setting, Standing
from raceproof.demo.sides import RACEPROOF, SIDES, UNGUARDED

WIDE = 110
NARROW = 72
BAD = "bold red"
GOOD = "bold green"

_LABELS = {
    Wrong.BACKWARDS: ("moved backwards", "ACK → SENT"),
    Wrong.LOST: ("lost updates", "DONE → SENT"),
    Wrong.DOUBLE: ("double moves", "ACK → ACK"),
    Wrong.UNDECLARED: ("undeclared moves", "SEND_FAILED → ACK"),
}


def opening(setting: Setting) -> RenderableType:
    """What is about to be seen."""
    publishing, handling = (_milliseconds(between, setting.delay) for between in (PUBLISHING, HANDLING))
    return Group(
        Text.assemble(
            ("raceproof demo", "bold"),
            f" · {setting.processes} processes race over {setting.commands:,} rows · seed {setting.seed}",
        ),
        "",
        "A controller sends commands to devices through a message broker:",
        _indented("QUEUED → SENT → ACK → DONE, or another end; SEND_FAILED → SENT"),
        "These processes record what happens, each on a connection of its own:",
        _indented(
            _named(
                ("dispatcher", f"publishes a command ({publishing}), then records SENT"),
                (
                    f"handlers ×{setting.handlers}",
                    f"record the answers ({handling} each): ACK, DONE, …; many come twice",
                ),
                ("sweeper", f"records TIMEOUT for what is open after {DEADLINE * 1000:.0f} ms"),
                ("re-sender", "publishes SEND_FAILED ones again, then records SENT"),
            )
        ),
        "All this twice at once, the same commands with the same delays:",
        _indented(
            _named(
                (UNGUARDED, "reads the status, checks it, does the work, UPDATEs"),
                (RACEPROOF, "does the work, makes one guarded move"),
            )
        ),
    )


def live(standing: Standing, refusals: list[Refusal], width: int) -> RenderableType:
    """How it stands, with what happened last."""
    board = scoreboard(standing, width)
    if width < WIDE:
        return Group(board, "", _latest(standing, refusals, 1), "", _clock(standing, width))
    beside = Table.grid(padding=(0, 4))
    beside.add_row(board, _latest(standing, refusals, 5))
    return Group(beside, "", _clock(standing, width))


def scoreboard(standing: Standing, width: int) -> Table:
    """Both sides in numbers."""
    board = Table(box=None, padding=(0, 1), header_style="bold")
    board.add_column("", no_wrap=True)
    if width >= NARROW:
        board.add_column("", no_wrap=True, style="dim")
    for side in SIDES:
        board.add_column(side, justify="right", no_wrap=True, min_width=11)

    def add(label: str, example: str, values: Iterable[str | Text]) -> None:
        board.add_row(label, *([example] if width >= NARROW else []), *values)

    scores = [standing.scores[side] for side in SIDES]
    for outcome, label in (("moved", "moves made"), ("already", "already there"), ("refused", "refused")):
        add(label, "", (f"{score.outcomes[outcome]:,}" for score in scores))
    board.add_row()
    for wrong, (label, example) in _LABELS.items():
        add(label, example, (_verdict(score.tally.wrong[wrong]) for score in scores))
    board.add_row()
    total = f"of {standing.setting.commands:,}"
    add("commands gone wrong", total, (_verdict(len(score.tally.broken)) for score in scores))
    add("still wrong at the end", total, (_verdict(score.tally.misled) for score in scores))
    return board


def progress_line(standing: Standing) -> str:
    """The same in one line, for a log."""
    sides = []
    for side in SIDES:
        score = standing.scores[side]
        wrong = ", ".join(f"{score.tally.wrong[one]} {label}" for one, (label, _) in _LABELS.items())
        sides.append(f"{side}: {score.outcomes['moved']} moves, {wrong}")
    return f"{standing.elapsed:4.1f} s  " + " | ".join(sides)


def _latest(standing: Standing, refusals: list[Refusal], most: int) -> RenderableType:
    """What went wrong last on one side, and what was refused last on the other."""
    wrong = [
        (one.cmd_id, one.actor, f"wrote {one.after} over {one.before}")
        for one in reversed(standing.scores[UNGUARDED].tally.recent)
    ]
    refused = [(one.cmd_id, one.actor, f"refused {one.target} at {one.found}") for one in refusals]
    lists = Table.grid(padding=(0, 2))
    for _ in range(4):
        lists.add_column(no_wrap=True, overflow="ellipsis")
    for title, style, lines in ((f"{UNGUARDED} ✗", BAD, wrong), (f"{RACEPROOF} ✓", GOOD, refused)):
        for place in range(most):
            line = lines[place] if place < len(lines) else ("", "", "")
            lists.add_row(Text("" if place else title, style), *line)
        if most > 1:
            lists.add_row()
    return Padding(lists, (0, 0, 0, 1), expand=False)


def _clock(standing: Standing, width: int) -> RenderableType:
    seconds = standing.setting.seconds
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(
            seconds,
            min(standing.elapsed, seconds),
            width=min(width, 78) - 22,
            style="dim",
            complete_style="default",
            finished_style="default",
        ),
        f"{min(standing.elapsed, seconds):.1f} of {seconds:g} s",
    )
    return line


def _verdict(number: int) -> Text:
    return Text(f"{number:,} ✗", BAD) if number else Text("0 ✓", GOOD)


def _named(*rows: tuple[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, min_width=11)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def _indented(what: RenderableType) -> Padding:
    return Padding(what, (0, 0, 1, 2), expand=False)


def _milliseconds(between: tuple[float, float], delay: float) -> str:
    return f"{between[0] * 1000 * delay:g}–{between[1] * 1000 * delay:g} ms" if delay else "0 ms"
