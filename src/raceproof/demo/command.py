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
from rich.console import Console
from rich.live import Live

from raceproof.demo.example import Example, choose
from raceproof.demo.page import live, opening, progress_line
from raceproof.demo.race import ActorFailed, Race, Setting, Standing, race
from raceproof.demo.report import numbers, question, report
from raceproof.demo.sides import RACEPROOF, UNGUARDED

INTERRUPTED = 130
COMMANDS_EACH_SECOND = 40


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(1, 600), default=9, show_default=True, help="How long to race."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 32),
    default=3,
    show_default=True,
    help="Answer handlers on each side.",
)
@click.option(
    "--commands", type=click.IntRange(1, 100_000), help="Rows to race over.  [default: 40 a second]"
)
@click.option("--seed", type=int, help="The same seed gives the same commands and delays.  [default: random]")
@click.option(
    "--delay",
    type=click.FloatRange(0, 100),
    default=1,
    show_default=True,
    help="Multiply what publishing and handling take; 0 for no delay at all.",
)
@click.option("--plain", is_flag=True, help="No live display: a line each second.")
@click.option("--keep", is_flag=True, help="Keep the database.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The form of the result."
)
@click.option(
    "--assert",
    "asserting",
    is_flag=True,
    help="Fail unless the unguarded side goes wrong and raceproof does not.",
)
@click.pass_context
def demo(
    context: click.Context,
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

    Real processes record what happens to commands, all at once: on one side with the usual code, on the other with
    guarded moves. An audit in the database counts what went wrong.
    """
    setting = Setting(
        seconds=seconds,
        handlers=workers,
        commands=commands or max(1, round(seconds * COMMANDS_EACH_SECOND)),
        seed=randrange(10_000) if seed is None else seed,
        delay=delay,
    )
    try:
        problem = _run(setting, plain, keep, output)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        context.exit(INTERRUPTED)
    except ActorFailed as failure:
        raise click.ClickException(f"a process of the demo failed: {failure}") from None
    if asserting and problem:
        raise click.ClickException(problem)


def _run(setting: Setting, plain: bool, keep: bool, output: str) -> str | None:
    """Race and print the result; says why it does not show what it should, if it does not."""
    console = Console(stderr=output == "json", highlight=False)
    with _terminable(), _folder(keep) as folder:
        database = folder / "demo.db"
        standing, example = _watch(setting, database, console, plain)
    kept = database if keep else None
    if output == "json":
        click.echo(json.dumps(numbers(standing, example, kept), indent=2))
    else:
        console.print(*report(standing, example, kept, console.width), sep="\n")
        if kept:
            console.print(question(example, kept), soft_wrap=True, markup=False)
    return problem_of(standing)


def _watch(
    setting: Setting, database: Path, console: Console, plain: bool
) -> tuple[Standing, Example | None]:
    """Race, and show it."""
    console.print(opening(setting))
    plain = plain or not console.is_terminal or console.is_dumb_terminal
    with race(setting, database) as racing:
        standing = _lines(racing) if plain else _screen(racing, console)
        return standing, choose(racing.connection)


def _lines(racing: Race) -> Standing:
    for standing in racing.standings(every=1):
        click.echo(progress_line(standing), err=True)
    return standing


def _screen(racing: Race, console: Console) -> Standing:
    with Live(console=console, auto_refresh=False, transient=True) as screen:
        for standing in racing.standings(every=0.1):
            screen.update(live(standing, racing.refusals(), console.width), refresh=True)
    return standing


def problem_of(standing: Standing) -> str | None:
    """Why the run does not show what it should."""
    unguarded, guarded = standing.scores[UNGUARDED], standing.scores[RACEPROOF]
    if guarded.tally.wrong.total():
        counts = (f"{number} {wrong}" for wrong, number in guarded.tally.wrong.items())
        return f"raceproof went wrong: {', '.join(counts)}"
    if not guarded.outcomes["moved"]:
        return "raceproof moved nothing"
    if not unguarded.tally.wrong.total():
        return "the unguarded side did not go wrong"
    return None


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
