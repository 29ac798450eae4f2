"""`raceproof move`: take rows along a declared move, by hand."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
from rich.progress import Progress

from raceproof.declare import Move
from raceproof.ops.cli.changes import by_option, confirm, login_name, write_options
from raceproof.ops.cli.completing import complete_lifecycle, complete_move
from raceproof.ops.cli.ends import ExitCode, Failure
from raceproof.ops.cli.keys import parse_keys, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.moving import BATCH, Line, exit_code, foresee_rows, move_rows, summary
from raceproof.ops.cli.options import app_option, debug_option, key_options, output_option, url_option
from raceproof.ops.cli.output import console, print_json, print_jsonl, print_lines, print_table, printable
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.target import find_lifecycle, find_move

_STYLES = {
    "moved": "green",
    "would move": "green",
    "may move": "yellow",
    "refused": "red",
    "would be refused": "red",
    "missing": "red",
    "lost": "red",
    "unknown": "bold red",
    "conflict": "bold red",
}
_MESSAGES = 20


@click.command(
    epilog="""\b
Examples:
  raceproof move --app shop.models Order cancel 1042 --reason "customer called"
  raceproof move --app shop.models Order ship 1042 1043 --set carrier=DHL --dry-run
  psql -At -c "select id from orders where …" shop | raceproof move --app shop.models Order cancel - --yes

\b
Exit code 0 if every row is at the target now, 3 if the move was refused, 4 if there is no such row,
7 if some rows got there and some did not."""
)
@click.argument("lifecycle", shell_complete=complete_lifecycle)
@click.argument("move_name", metavar="MOVE", shell_complete=complete_move)
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@app_option
@url_option
@key_options
@click.option(
    "--set", "assignments", metavar="COLUMN=VALUE", multiple=True, help="Set a column that the move declares."
)
@click.option("--clear", metavar="COLUMN", multiple=True, help="Set such a column to NULL.")
@by_option
@click.option("--reason", help="Why, for the history.")
@write_options
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def move(
    context: click.Context,
    lifecycle: str,
    move_name: str,
    keys: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    key_separator: str,
    assignments: tuple[str, ...],
    clear: tuple[str, ...],
    by: str | None,
    reason: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Move rows along a declared move, with an answer for each.

    The guards are the same as for every other caller: there is no force. A key of - reads keys from stdin, one on a line.
    Many rows are moved 500 at a time, by one statement. With -o ids the keys of the rows that this call moved are printed.
    """
    spec = find_lifecycle(apps, lifecycle)
    chosen = find_move(spec, move_name)
    columns = _columns(chosen, assignments, clear)
    wanted = parse_keys(spec, keys, key_separator)
    if not (dry_run or yes):
        number = "1 row" if len(wanted) == 1 else f"{len(wanted)} rows"
        confirm(f"Move {number} to {chosen.target} ({chosen}) in {location}?")
    lines: list[Line] = []
    failure: Failure | None = None
    try:
        with open_store(location, spec, tenant) as store:
            if dry_run:
                rows = foresee_rows(store, chosen, wanted)
            else:
                rows = move_rows(store, chosen, wanted, columns, by or login_name(), reason)
            _collect(rows, lines, len(wanted))
    except Failure as error:
        failure = error
    finally:  # an interrupted run has moved rows too
        if lines or not failure:
            _print(lines, output, key_separator)
    if failure and lines:
        done = f"after {len(lines)} of {len(wanted)} rows: {failure.message}"
        raise Failure(done, ExitCode.PARTLY, failure.advice) from failure
    if failure:
        raise failure
    _tell(lines, len(wanted))
    context.exit(exit_code(lines))


def _columns(chosen: Move[Any], assignments: Iterable[str], clear: Iterable[str]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for assignment in assignments:
        column, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--set {assignment}: write it as column=value.")
        columns[column] = value
    columns |= dict.fromkeys(clear)
    if unknown := [column for column in columns if column not in chosen.sets]:
        may = ", ".join(chosen.sets) or "no column"
        raise click.UsageError(f"{chosen} may not set {', '.join(unknown)}; it declares {may}.")
    return columns


def _collect(rows: Iterable[Line], lines: list[Line], expected: int) -> None:
    """Take the answers as they come, with a progress bar where somebody is watching."""
    if expected <= BATCH or not sys.stderr.isatty():
        for line in rows:
            lines.append(line)
        return
    with Progress(console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("moving", total=expected)
        for line in rows:
            lines.append(line)
            progress.advance(task)


def _print(lines: Sequence[Line], output: str, separator: str) -> None:
    match output:
        case "json":
            print_json([line.data() for line in lines])
        case "jsonl":
            print_jsonl(line.data() for line in lines)
        case "ids":
            print_lines(written_key(line.key, separator) for line in lines if line.moves)
        case _ if lines:
            print_table(
                ["key", "outcome", "before", "status", "revision"],
                [
                    (written_key(line.key, separator), line.outcome, line.before, line.status, line.revision)
                    for line in lines
                ],
                _STYLES,
            )


def _tell(lines: Sequence[Line], expected: int) -> None:
    """For people, on stderr: why rows did not get there, and how many of each there are."""
    failed = [line for line in lines if line.code != ExitCode.OK]
    for line in failed[:_MESSAGES]:
        click.echo(printable(line.message), err=True)
    if len(failed) > _MESSAGES:
        click.echo(f"… and {len(failed) - _MESSAGES} more.", err=True)
    if expected != 1:
        click.echo(summary(lines) or "no keys, nothing to move", err=True)
    if len(lines) < expected:
        click.echo(f"Stopped: {expected - len(lines)} rows were not tried.", err=True)
