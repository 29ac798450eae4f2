"""`raceproof sweep`: housekeeping, in small steps."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.progress import Progress, TaskID

from raceproof import Attempts, Inbox, Store
from raceproof.declare import Claimable, Spec
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.changes import confirm
from raceproof.ops.cli.exits import ExitCode, Failure
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import console, print_rows, printable
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_targets, need_tenant
from raceproof.ops.sweep import Swept, unsearchable
from raceproof.ops.sweep import sweep as sweep_up

_KINDS = (Spec, Claimable, Attempts, Inbox)
_DAY = 86400.0
_LONGEST = 36_500


def _finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """FloatRange accepts nan, which is in every range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("must be a number of days, got nan.")
    return value


@click.command(
    epilog="""\b
Examples:
  raceproof sweep --app shop.models --dry-run
  raceproof sweep --app shop.models --keep-days 90 --yes
  raceproof sweep --app shop.models Job.work events --yes -o json"""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(*_KINDS))
@shared_options("app", "url", "tenant", "by", "write", output=("table", "json", "jsonl"))
@click.option(
    "--keep-days",
    type=click.FloatRange(0, _LONGEST, min_open=True),
    callback=_finite,
    help="Delete history that is older.  [default: keep all]",
)
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Rows per step.")
def sweep(options: Options, names: tuple[str, ...], keep_days: float | None, batch: int) -> None:
    """Housekeeping, in small steps.

    Dead-letters rows that are out of attempts, ends overdue attempts, deletes old events and old history. TARGET is a
    lifecycle, a claim, an Attempts or an Inbox; without one, everything declared. Each step is small and commits by
    itself: it blocks no other work, and can be interrupted and restarted. Rows with expired leases are counted and left
    alone, because the next claim takes them. On Redis, rows missing from the index of a claim are offered again.
    """
    targets = _once(find_targets(options.apps, names, *_KINDS))
    for target in targets:
        need_tenant(target.thing, options.tenant)
    confirm(options, f"Sweep {', '.join(target.name for target in targets)} in {options.location}?")
    found: dict[tuple[str, str], Swept] = {}
    try:
        with open_store(options) as store, _progress(found) as report:
            _report_unsearchable(store, targets)
            sweep_up(
                store,
                *(target.thing for target in targets),
                keep=None if keep_days is None else keep_days * _DAY,
                batch=batch,
                dry_run=options.dry_run,
                by=options.actor,
                tell=report,
            )
    except Failure as failure:
        if not found:
            raise
        raise Failure(f"swept only in part: {failure.message}", ExitCode.PARTLY, failure.advice) from failure
    finally:  # what was swept stays so, also in an interrupted run
        _print(list(found.values()), options.output, options.dry_run)
    if options.dry_run:
        click.echo("nothing was changed: this is what a sweep would do now", err=True)


def _report_unsearchable(store: Store, targets: Sequence[Target[Any]]) -> None:
    """Name what this store cannot be searched for: finding nothing there says nothing about it."""
    for target in targets:
        if isinstance(target.thing, Attempts) and (why := unsearchable(store, target.thing)):
            click.echo(printable(f"could not be read: {why}"), err=True)


def _print(found: Sequence[Swept], output: str, dry_run: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"target": one.target, "work": one.work, "number": one.number, "more": one.more, "dry_run": dry_run}
        for one in found
    ]
    if output == "table":
        rows = [{**row, "number": _number(one)} for row, one in zip(rows, found, strict=True)]
    print_rows(output, ("target", "work", "number"), rows)


def _number(one: Swept) -> str:
    if one.work == "not looked at":
        return ""
    return f"{one.number} or more" if one.more else f"{one.number}"


def _once(targets: Sequence[Target[Any]]) -> list[Target[Any]]:
    """A lifecycle and an inbox are swept with their claims, which need not be swept again."""
    whole = [target.thing for target in targets if isinstance(target.thing, Spec)]
    whole += [target.thing.lifecycle for target in targets if isinstance(target.thing, Inbox)]
    return [
        target for target in targets if not (isinstance(target.thing, Claimable) and target.thing.lifecycle in whole)
    ]


@contextmanager
def _progress(found: dict[tuple[str, str], Swept]) -> Iterator[Callable[[Swept], None]]:
    """Remember each step; on a terminal, show a bar for each kind of work, whose total is unknown."""
    tasks: dict[tuple[str, str], TaskID] = {}
    with Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:

        def report(swept: Swept) -> None:
            key = (swept.target, swept.work)
            found[key] = swept
            if key not in tasks:
                tasks[key] = progress.add_task(f"{swept.target}: {swept.work}", total=None)
            progress.update(tasks[key], completed=swept.number)

        yield report
