"""`raceproof demo`: parse, race, print."""

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import randrange
from types import FrameType

import click
from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from raceproof.ops.demo.children import ActorFailed
from raceproof.ops.demo.layout import board, indented, program
from raceproof.ops.demo.race import Setting
from raceproof.ops.demo.showing import SCENARIOS, Showing, Shown

INTERRUPTED = 130
COMMANDS_EACH_SECOND = 40


@click.command()
@click.option(
    "--only",
    type=click.Choice(SCENARIOS),
    multiple=True,
    help="Show this scenario and no other; can be given again.  [default: all]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 600),
    default=9,
    show_default=True,
    help="How long to race over commands; the rest takes a third each.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 32),
    default=3,
    show_default=True,
    help="Handlers of answers to commands, on each side.",
)
@click.option("--commands", type=click.IntRange(1, 100_000), help="Commands to race over.  [default: 40 a second]")
@click.option("--seed", type=int, help="The same seed gives the same commands and delays.  [default: random]")
@click.option(
    "--delay",
    type=click.FloatRange(0, 100),
    default=1,
    show_default=True,
    help="Multiply what publishing and handling take; 0 for no delay at all.",
)
@click.option("--plain", is_flag=True, help="No live display: a line each second.")
@click.option("--keep", is_flag=True, help="Keep the databases.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The form of the result.")
@click.option(
    "--assert",
    "asserting",
    is_flag=True,
    help="Fail unless the unguarded side goes wrong and raceproof does not.",
)
@click.pass_context
def demo(
    context: click.Context,
    only: tuple[str, ...],
    seconds: float,
    workers: int,
    commands: int | None,
    seed: int | None,
    delay: float,
    plain: bool,
    keep: bool,
    output: str,
    asserting: bool,
) -> None:
    """See rows race, with and without raceproof.

    Real processes race over the same rows: on one side with the usual code, on the other with raceproof. The database
    counts what goes wrong.

    \b
      commands         what happens to commands is recorded by all at once
      callback-poller  both learn of the same picture, and both send it
      deploy-overlap   two instances, and both believe that they lead
      stale-worker     a worker wakes up and finishes what another one did
    """
    setting = Setting(
        seconds=seconds,
        handlers=workers,
        commands=commands or max(1, round(seconds * COMMANDS_EACH_SECOND)),
        seed=randrange(10_000) if seed is None else seed,
        delay=delay,
    )
    try:
        problems = _run(only or SCENARIOS, setting, plain, keep, output)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        context.exit(INTERRUPTED)
    except ActorFailed as failure:
        raise click.ClickException(f"a process of the demo failed: {failure}") from None
    if asserting and problems:
        raise click.ClickException("; ".join(problems))


def _run(names: tuple[str, ...], setting: Setting, plain: bool, keep: bool, output: str) -> list[str]:
    """Show all these and print what came of them; says why they do not show what they should, if they do not."""
    console = Console(stderr=output == "json", highlight=False)
    plain = plain or not console.is_terminal or console.is_dumb_terminal
    shown: dict[str, Shown] = {}
    with _terminable(), _folder(keep) as folder:
        showing = Showing(setting, folder, console, plain, output == "table", keep)
        for name in dict.fromkeys(names):
            if shown:
                console.print("", Rule(style="dim"), "", sep="\n")
            shown[name] = showing.show(name)
    if output == "json":
        click.echo(json.dumps({name: one.numbers for name, one in shown.items()}, indent=2))
    else:
        console.print(*_ending(shown, folder if keep else None, console.width), sep="\n")
        for one in shown.values():
            if one.question:
                console.print(one.question, soft_wrap=True, markup=False)
    return [one.problem for one in shown.values() if one.problem]


def _ending(shown: dict[str, Shown], folder: Path | None, width: int) -> list[RenderableType]:
    """All scenarios in one table, and where to look."""
    parts: list[RenderableType] = ["", Rule(style="dim"), ""]
    if len(shown) > 1:
        rows = [row for one in shown.values() for row in one.summary]
        parts += [Text("All scenarios", "bold"), "", board(rows, width), ""]
    places = Table.grid(padding=(0, 2))
    places.add_column(no_wrap=True)
    places.add_column(style="dim")
    places.add_row("docs/tour.md", "the idea, step by step")
    places.add_row("src/raceproof/demo", "sides.py, scenes/: the code that raced")
    places.add_row(f"{program()} demo --delay 0", "the same without the delays")
    if len(shown) > 1:
        places.add_row(f"{program()} demo --only {next(reversed(shown))}", "this one alone")
    if folder is None:
        places.add_row(f"{program()} demo --keep", "keeps the databases, to ask why")
    return [*parts, Text("Where to look", "bold"), "", indented(places), *([""] if folder else [])]


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="raceproof-demo-"))
    finished = False
    try:
        yield folder
        finished = True
    finally:
        if not (keep and finished):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the demo in the same orderly way as Ctrl-C."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
