"""`raceproof sweep`: what has to be done now and then, in small steps."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.progress import Progress, TaskID

from raceproof import Attempts, Inbox, Store
from raceproof.declare import Claimable, Spec
from raceproof.ops.cli.changes import by_option, confirm, login_name, write_options
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.ends import ExitCode, Failure
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, output_option, url_option
from raceproof.ops.cli.output import console, print_rows, printable
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import Target, find_things, need_tenant
from raceproof.ops.sweep import Swept, unsearchable
from raceproof.ops.sweep import sweep as sweep_up

_KINDS = (Spec, Claimable, Attempts, Inbox)
_DAY = 86400.0
_LONGEST = 36_500


def _finite(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    """What is no number is in every range."""
    if value is not None and math.isnan(value):
        raise click.BadParameter("nan is no number of days.")
    return value


@click.command(
    epilog="""\b
Examples:
  raceproof sweep --app shop.models --dry-run
  raceproof sweep --app shop.models --keep-days 90 --yes
  raceproof sweep --app shop.models Job.work events --yes -o json"""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(*_KINDS))
@app_option
@url_option
@click.option("--tenant", help="Whose rows, where a lifecycle has a tenant column.")
@click.option(
    "--keep-days",
    type=click.FloatRange(0, _LONGEST, min_open=True),
    callback=_finite,
    help="Delete history that is older.  [default: none is deleted]",
)
@click.option(
    "--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="So many rows in one step."
)
@by_option
@write_options
@output_option("table", "json", "jsonl")
@debug_option
def sweep(
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    keep_days: float | None,
    batch: int,
    by: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Tidy up, in small steps.

    Rows that are out of attempts are set aside, overdue attempts ended, old events and old history forgotten. TARGET is
    a lifecycle, a claim, an Attempts or an Inbox; without one, all that are declared. Every step is small and committed
    by itself: it holds up nobody, and may be interrupted and begun again. Rows whose lease is over are counted and
    left, for the next claim takes them. On Redis, rows that no claim would find are offered again.
    """
    targets = _once(find_things(apps, names, *_KINDS))
    for target in targets:
        need_tenant(target.thing, tenant)
    if not (dry_run or yes):
        confirm(f"Sweep {', '.join(target.name for target in targets)} in {location}?")
    found: dict[tuple[str, str], Swept] = {}
    try:
        with open_store(location, None, tenant) as store, _progress(found) as tell:
            _tell_unseen(store, targets)
            sweep_up(
                store,
                *(target.thing for target in targets),
                keep=None if keep_days is None else keep_days * _DAY,
                batch=batch,
                dry_run=dry_run,
                by=by or login_name(),
                tell=tell,
            )
    except Failure as failure:
        if not found:
            raise
        raise Failure(f"only a part was swept: {failure.message}", ExitCode.PARTLY, failure.advice) from failure
    finally:  # what was swept stays so, also in an interrupted run
        _print(list(found.values()), output, dry_run)
    if dry_run:
        click.echo("nothing was changed: this is what a sweep would find now", err=True)


def _tell_unseen(store: Store, targets: Sequence[Target[Any]]) -> None:
    """What this store cannot be searched for is said: that nothing was found is no word about it."""
    for target in targets:
        if isinstance(target.thing, Attempts) and (why := unsearchable(store, target.thing)):
            click.echo(printable(f"not looked at: {why}"), err=True)


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
    """Remember each step; a bar for each kind of work where somebody is watching, without an end that nobody knows yet."""
    tasks: dict[tuple[str, str], TaskID] = {}
    with Progress(console=console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:

        def tell(swept: Swept) -> None:
            key = (swept.target, swept.work)
            found[key] = swept
            if key not in tasks:
                tasks[key] = progress.add_task(f"{swept.target}: {swept.work}", total=None)
            progress.update(tasks[key], completed=swept.number)

        yield tell
