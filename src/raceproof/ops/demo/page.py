"""The screen while commands are raced for: what is racing, and how both sides stand."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from raceproof.ops.demo.audit import Wrong
from raceproof.ops.demo.layout import Row, board, clock, indented, latest, live_page, named, verdict
from raceproof.ops.demo.plan import DEADLINE, HANDLING, PUBLISHING
from raceproof.ops.demo.race import Refusal, Setting, Standing
from raceproof.ops.demo.sides import RACEPROOF, SIDES, UNGUARDED

WIDE = 110
"""Where what happened last has room beside the numbers."""

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
            ("commands", "bold"),
            f" · {setting.processes} processes race over {setting.commands:,} rows · seed {setting.seed}",
        ),
        "",
        "A controller sends commands to devices through a message broker:",
        indented("QUEUED → SENT → ACK → DONE, or another end; SEND_FAILED → SENT", below=1),
        "These processes record what happens, each on a connection of its own:",
        indented(
            named(
                ("dispatcher", f"publishes a command ({publishing}), then records SENT"),
                (
                    f"handlers ×{setting.handlers}",
                    f"record the answers ({handling} each): ACK, DONE, …; many come twice",
                ),
                ("sweeper", f"records TIMEOUT for what is open after {DEADLINE * 1000:.0f} ms"),
                ("re-sender", "publishes SEND_FAILED ones again, then records SENT"),
            ),
            below=1,
        ),
        "All this twice at once, the same commands with the same delays:",
        indented(
            named(
                (UNGUARDED, "reads the status, checks it, does the work, UPDATEs"),
                (RACEPROOF, "does the work, makes one guarded move"),
            ),
            below=1,
        ),
    )


def live(standing: Standing, refusals: list[Refusal], width: int) -> RenderableType:
    """How it stands, with what happened last."""
    seconds = standing.setting.seconds
    elapsed = min(standing.elapsed, seconds)
    return live_page(
        scoreboard(standing, width),
        _latest(standing, refusals, 1 if width < WIDE else 5),
        clock(elapsed, seconds, f"{elapsed:.1f} of {seconds:g} s", width),
        beside=width >= WIDE,
    )


def scoreboard(standing: Standing, width: int) -> Table:
    """Both sides in numbers."""
    return board(_rows(standing), width)


def _rows(standing: Standing) -> Iterator[Row | None]:
    one, other = (standing.scores[side] for side in SIDES)
    for outcome, label in (("moved", "moves made"), ("already", "already there"), ("refused", "refused")):
        yield label, "", f"{one.outcomes[outcome]:,}", f"{other.outcomes[outcome]:,}"
    yield None
    for wrong, (label, example) in _LABELS.items():
        yield label, example, verdict(one.tally.wrong[wrong]), verdict(other.tally.wrong[wrong])
    yield None
    total = f"of {standing.setting.commands:,}"
    yield "commands gone wrong", total, verdict(len(one.tally.broken)), verdict(len(other.tally.broken))
    yield "still wrong at the end", total, verdict(one.tally.misled), verdict(other.tally.misled)


def progress_line(standing: Standing) -> str:
    """The same in one line, for a log."""
    sides = []
    for side in SIDES:
        score = standing.scores[side]
        wrong = ", ".join(f"{score.tally.wrong[one]} {label}" for one, (label, _) in _LABELS.items())
        sides.append(f"{side}: {score.outcomes['moved']} moves, {wrong}")
    return f"{standing.elapsed:4.1f} s  " + " | ".join(sides)


def _latest(standing: Standing, refusals: list[Refusal], most: int) -> RenderableType:
    wrong = [
        (one.cmd_id, one.actor, f"wrote {one.after} over {one.before}")
        for one in reversed(standing.scores[UNGUARDED].tally.recent)
    ]
    refused = [(one.cmd_id, one.actor, f"refused {one.target} at {one.found}") for one in refusals]
    return latest(wrong, refused, most)


def _milliseconds(between: tuple[float, float], delay: float) -> str:
    return f"{between[0] * 1000 * delay:g}–{between[1] * 1000 * delay:g} ms" if delay else "0 ms"
