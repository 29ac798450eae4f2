"""Pieces that all pages of the demo are made of.

Colours are the terminal's own red and green, so that they suit a light and a dark one; nothing is told by colour alone.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import which

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from raceproof.ops.demo.sides import RACEPROOF, SIDES, UNGUARDED

NARROW = 72
BAD = "bold red"
GOOD = "bold green"

Row = tuple[str, str, str | Text, str | Text]
"""A label, a remark, and what is said of the two sides."""


def board(rows: Iterable[Row | None], width: int) -> Table:
    """Both sides in numbers; None is an empty row. The remarks are left out where there is no room for them."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("", no_wrap=True)
    if width >= NARROW:
        table.add_column("", no_wrap=True, style="dim")
    for side in SIDES:
        table.add_column(side, justify="right", no_wrap=True, min_width=11)
    for row in rows:
        if row is None:
            table.add_row()
        else:
            label, remark, *values = row
            table.add_row(label, *([remark] if width >= NARROW else []), *values)
    return table


def verdict(number: int) -> Text:
    """A number of wrong things: none is right."""
    return Text(f"{number:,} ✗", BAD) if number else Text("0 ✓", GOOD)


def live_page(table: Table, happened: RenderableType, progress: RenderableType, beside: bool) -> RenderableType:
    """The numbers, what happened last (beside them, or below), and how far it is."""
    if not beside:
        return Group(table, "", happened, "", progress)
    both = Table.grid(padding=(0, 4))
    both.add_row(table, happened)
    return Group(both, "", progress)


def latest(wrong: Sequence[tuple[str, str, str]], refused: Sequence[tuple[str, str, str]], most: int) -> Padding:
    """What went wrong last on one side, and what was refused last on the other: which row, who, and what."""
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


def clock(done: float, total: float, text: str, width: int) -> RenderableType:
    """How far it is."""
    line = Table.grid(padding=(0, 2))
    line.add_row(
        ProgressBar(
            total,
            min(done, total),
            width=min(width, 78) - max(22, len(text) + 4),
            style="dim",
            complete_style="default",
            finished_style="default",
        ),
        text,
    )
    return line


def named(*rows: tuple[str, str]) -> Table:
    """Names, and what is said of them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, min_width=11)
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def listings(
    unguarded: str, unguarded_lines: Sequence[int], guarded: str, guarded_lines: Sequence[int], width: int
) -> list[RenderableType]:
    """The code of both sides, with the lines that matter."""
    return [
        Text("The lines that made the difference", "bold"),
        "",
        side_by_side(
            _listing(UNGUARDED, unguarded, unguarded_lines, BAD),
            _listing(RACEPROOF, guarded, guarded_lines, GOOD),
            width,
        ),
    ]


def _listing(side: str, code: str, telling: Sequence[int], style: str) -> RenderableType:
    lines = []
    for number, line in enumerate(code.splitlines()):
        text, mark, comment = line.partition("# ")
        style_here = style if number in telling else ""
        lines.append(Text.assemble((text, style_here), (mark + comment, "dim"), no_wrap=True))
    return Group(Text(side, "bold"), indented(*lines))


def side_by_side(left: RenderableType, right: RenderableType, width: int) -> RenderableType:
    """Beside each other where there is room, otherwise one below the other."""
    both = Table.grid(padding=(0, 4))
    both.add_row(left, right)
    beside = indented(both)
    console = Console(width=1000)
    fits = Measurement.get(console, console.options, beside).maximum <= width
    return beside if fits else indented(left, "", right)


def indented(*what: RenderableType, below: int = 0) -> Padding:
    """A little to the right, with so many empty lines below."""
    return Padding(Group(*what), (0, 0, below, 2), expand=False)


def program() -> str:
    """How to call the command line from here."""
    beside = Path(sys.executable).with_name("raceproof")
    return "raceproof" if which("raceproof") or not beside.exists() else os.path.relpath(beside)
