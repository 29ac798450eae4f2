"""`raceproof sweep`: what has to be done now and then, in small steps."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click
from rich.progress import Progress, TaskID

from raceproof import Attempts, Claimable, Inbox, Spec
from raceproof.cli.changes import by_option, confirm, login_name, write_options
from raceproof.cli.completing import complete_thing
from raceproof.cli.location import Location
from raceproof.cli.options import app_option, debug_option, output_option, url_option
from raceproof.cli.output import console, print_rows
from raceproof.cli.stores import open_store
from raceproof.cli.things import Target, find_things, need_tenant
from raceproof.sweep import Swept
from raceproof.sweep import sweep as sweep_up

_KINDS = (Spec, Claimable, Attempts, Inbox)
_DAY = 86400.0


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
    type=click.FloatRange(0, min_open=True),
    help="Delete history that is older.  [default: none is deleted]",
)
@click.option(
    "--batch",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="So many rows in one step.",
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
    """Set aside rows that are out of attempts, end overdue attempts, forget old events and old history.

    TARGET is a lifecycle, a claim, an Attempts or an Inbox; without one, all that are declared. Every step is small and
    committed by itself: it holds up nobody, and may be interrupted and begun again. Rows whose lease is over are counted and
    left, for the next claim takes them. On Redis, rows that no claim would find are offered again.
    """
    targets = _once(find_things(apps, names, *_KINDS))
    for target in targets:
        need_tenant(target.thing, tenant)
    if not (dry_run or yes):
        confirm(f"Sweep {', '.join(target.name for target in targets)} in {location}?")
    with open_store(location, None, tenant) as store, _progress() as tell:
        found = sweep_up(
            store,
            *(target.thing for target in targets),
            keep=None if keep_days is None else keep_days * _DAY,
            batch=batch,
            dry_run=dry_run,
            by=by or login_name(),
            tell=tell,
        )
    rows: list[dict[str, Any]] = [
        {"target": one.target, "work": one.work, "number": one.number, "more": one.more, "dry_run": dry_run}
        for one in found
    ]
    if output == "table":
        rows = [
            {**row, "number": f"{row['number']} or more" if row["more"] else row["number"]} for row in rows
        ]
    print_rows(output, ("target", "work", "number"), rows)
    if dry_run:
        click.echo("nothing was changed: this is what a sweep would find now", err=True)


def _once(targets: Sequence[Target[Any]]) -> list[Target[Any]]:
    """A lifecycle and an inbox are swept with their claims, which need not be swept again."""
    whole = [target.thing for target in targets if isinstance(target.thing, Spec)]
    whole += [target.thing.lifecycle for target in targets if isinstance(target.thing, Inbox)]
    return [
        target
        for target in targets
        if not (isinstance(target.thing, Claimable) and target.thing.lifecycle in whole)
    ]


@contextmanager
def _progress() -> Iterator[Callable[[Swept], None] | None]:
    """A bar for each kind of work where somebody is watching; nobody knows beforehand how much there is."""
    if not sys.stderr.isatty():
        yield None
        return
    tasks: dict[tuple[str, str], TaskID] = {}
    with Progress(console=console(stderr=True), transient=True) as progress:

        def tell(swept: Swept) -> None:
            key = (swept.target, swept.work)
            if key not in tasks:
                tasks[key] = progress.add_task(f"{swept.target}: {swept.work}", total=None)
            progress.update(tasks[key], completed=swept.number)

        yield tell
