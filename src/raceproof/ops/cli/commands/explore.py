"""`raceproof explore`: every order, crash and lost answer of a scenario."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click

from raceproof import RaceproofError
from raceproof.ops.cli.exits import Failure
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import plain_data
from raceproof.ops.cli.scenarios import Target, find_scenarios
from raceproof.testing.explorer import Explorer, Verdict, World
from raceproof.testing.explorer.as_test import source
from raceproof.testing.explorer.html import page
from raceproof.testing.explorer.mermaid import sequence
from raceproof.testing.explorer.report import WIDTH, text
from raceproof.testing.explorer.verdict import Covered, Limits

_monotonic = time.monotonic  # while a scenario is explored, `time` shows its virtual time


class End(IntEnum):
    """The exit codes of this command."""

    PASSED = 0
    FAILED = 1
    INCONCLUSIVE = 3


_LIMITS = {
    "deviations": "Deviations from the undisturbed run: switches, faults and jumps in time.",
    "crashes": "Process crashes per run.",
    "lost": "Lost acknowledgements per run: the operation succeeds, and its answer is lost.",
    "errors": "Failed operations per run, with nothing written.",
    "cancels": "Cancellations per run, as by a timeout or a shutdown.",
}


def _limit_options(command: Any) -> Any:
    limits = Limits()
    seconds = click.option(
        "--seconds",
        metavar="SECONDS",
        type=click.FloatRange(0, min_open=True),
        help=f"Time limit per scenario; when it is reached, the verdict is inconclusive.  [default: {limits.seconds:g}]",
    )
    calm = click.option(
        "--no-faults", is_flag=True, help="Vary only the order of steps and time: inject no faults but those given."
    )
    command = seconds(calm(command))
    for name, said in reversed(_LIMITS.items()):
        shown = f"{said}  [default: {getattr(limits, name)}]"
        command = click.option(f"--{name}", metavar="N", type=click.IntRange(0, 20), help=shown)(command)
    return command


@click.command(
    epilog="""\b
Examples:
  raceproof explore tests.scenarios:one_picture
  raceproof explore tests/scenarios.py                    all scenarios of a file
  raceproof explore tests.scenarios:one_picture --no-faults --deviations 4
  raceproof explore tests.scenarios:one_picture --replay 'callback*2 callback:dies-after'
  raceproof explore tests.scenarios:one_picture --as-test tests/test_one_picture.py
  raceproof explore tests/scenarios.py -o html > explored.html

\b
A schedule is a list of words: `callback` is the next operation of that process, `callback*3` its next three,
`wait` lets time pass to the next expiry, `callback:dies-after` is an operation with a fault: dies-before,
dies-after, fails, unanswered, cancelled-before, cancelled-after.

\b
Exit codes: 0 passed, 1 a schedule fails, 3 inconclusive, 2 usage."""
)
@click.argument("targets", metavar="MODULE[:SCENARIO]...", nargs=-1, required=True)
@_limit_options
@click.option("--replay", metavar="SCHEDULE", help="Run this one schedule, and show its steps.")
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file, not to stdout.")
@click.option(
    "--as-test",
    "test_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the failing schedule, or the replayed one, as a test for pytest.",
)
@shared_options(output=("table", "json", "mermaid", "html"))
@click.pass_context
def explore(
    context: click.Context,
    options: Options,
    /,
    targets: tuple[str, ...],
    replay: str | None,
    output_file: Path | None,
    test_file: Path | None,
    no_faults: bool,
    **limits: float | None,
) -> None:
    """Look for a schedule that breaks what must hold.

    A scenario declares a few processes, what they do outside the store, and what must hold. Every order of their steps,
    every crash and every lost answer is tried up to the limits, on SQLite in memory and in virtual time. The result is the
    smallest failing schedule, as a table, or a certificate of what was tried. MODULE is a module or a .py file; without
    :SCENARIO, all its scenarios run.

    Limits that are not given come from the @explore() of the scenario.
    """
    found = [one for target in targets for one in find_scenarios(target)]
    if (replay is not None or test_file is not None) and len(found) > 1:
        option = "--replay" if replay is not None else "--as-test"
        names = ", ".join(one.name for one in found)
        raise click.UsageError(f"{option} takes exactly one scenario; name one of {names}.")
    if no_faults:
        limits |= {name: limits[name] or 0 for name in ("crashes", "lost", "errors", "cancels")}
    verdicts = [_verdict(one, limits, replay) for one in found]
    rendered = _text(options.output, [one.name for one in found], verdicts)
    if output_file is None:
        click.echo(rendered)
    else:
        _write(output_file, f"{rendered}\n")
    if test_file is not None:
        _keep_as_test(found[0], verdicts[0], test_file)
    kinds = {verdict.kind for verdict in verdicts}
    if "failed" in kinds:
        context.exit(End.FAILED)
    if "inconclusive" in kinds:
        context.exit(End.INCONCLUSIVE)


def _verdict(target: Target, limits: dict[str, Any], replay: str | None) -> Verdict:
    own = target.scenario
    given = {name: value for name, value in limits.items() if value is not None}
    explorer = Explorer(_declared(target), replace(own.limits, **given))
    if replay is not None:
        return explorer.replay(replay)
    with _progress(own.__name__, explorer.limits) as report:
        return explorer.explore(report)


def _declared(target: Target) -> World:
    try:
        return target.scenario.world()
    except RaceproofError:
        raise
    except Exception as error:
        raise Failure(
            f"{target.name}: declaring the scenario failed: {type(error).__name__}: {error}",
            advice="`raceproof --debug …` shows where.",
        ) from error


def _text(output: str, names: Sequence[str], verdicts: Sequence[Verdict]) -> str:
    """The verdicts in the format that was asked for."""
    pairs = list(zip(names, verdicts, strict=True))
    match output:
        case "json":
            data = [{"target": name, **verdict.to_dict()} for name, verdict in pairs]
            return json.dumps(plain_data(data), indent=2, ensure_ascii=False)
        case "html":
            return page(verdicts, names).rstrip("\n")
        case "mermaid":
            return "\n".join(map(sequence, verdicts)).rstrip("\n")
        case _:
            width = get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH
            fits = max(100, min(160, width))
            return "\n\n\n".join(text(verdict, name, fits) for name, verdict in pairs)


def _keep_as_test(target: Target, verdict: Verdict, file: Path) -> None:
    if not verdict.schedule:
        click.echo("no schedule fails, so there is no test to write", err=True)
        return
    _write(file, source(target.name, verdict, file))


def _write(file: Path, content: str) -> None:
    try:
        file.write_text(content, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {file}", err=True)


@contextmanager
def _progress(name: str, limits: Limits) -> Iterator[Callable[[Covered], None] | None]:
    """A progress line on a terminal, which disappears at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    began = shown = _monotonic()

    def report(covered: Covered) -> None:
        nonlocal shown
        now = _monotonic()
        if now - shown < 0.1:
            return
        shown = now
        part = min(1.0, (now - began) / limits.seconds)
        bar = f"{'█' * round(part * 20):░<20}"
        level = f"deviations: {covered.exhausted + 1} of {limits.deviations}"
        line = (
            f"{name}  {bar} {now - began:4.1f} s  {covered.schedules:,} schedules  {covered.states:,} states  {level}"
        )
        sys.stderr.write(f"\r\x1b[K{line[: get_terminal_size().columns - 1]}")
        sys.stderr.flush()

    try:
        yield report
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
