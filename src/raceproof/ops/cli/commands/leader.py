"""`raceproof leader`: who holds a lease, in which epoch, and until when."""

from datetime import UTC
from typing import Any

import click

from raceproof import Lease, Store
from raceproof.ops.cli.apps import Target
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.output import print_rows
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import read_each
from raceproof.ops.cli.targets import find_targets

_COLUMNS = ("lease", "holder", "epoch", "until")
_STYLES = {"(none)": "bold red"}


@click.command(
    epilog="""\b
Examples:
  raceproof leader --app shop.models bot_lease
  raceproof leader bot                              (a lease by its name, in the default table)
  raceproof leader bot -o json | jq '.[0].holder'

\b
Exit code 7 if some leases could not be read."""
)
@click.argument("names", metavar="[TARGET|NAME]...", nargs=-1, shell_complete=complete_target(Lease))
@shared_options("app", "url", output=("table", "json", "jsonl", "ids"))
@click.option(
    "--table", default=Lease("-").table, show_default=True, help="The table of a lease given by its name alone."
)
@click.pass_context
def leader(context: click.Context, options: Options, names: tuple[str, ...], table: str) -> None:
    """Show who holds each lease.

    TARGET is a Lease declared in a module, or the name of any lease; without one, all declared leases. -o ids prints the
    names of the holders.
    """
    targets = find_targets(options.apps, (), Lease) if not names else [_find(options, name, table) for name in names]
    rows, code = read_each(options, targets, lambda store, target: [_lease(store, target.thing)])
    if options.output == "table":
        rows = [{**row, "holder": row["holder"] or "(none)"} for row in rows]
    if options.output == "ids":
        rows = [row for row in rows if row["holder"]]
    print_rows(options.output, _COLUMNS, rows, _STYLES, lambda row: str(row["holder"]))
    context.exit(code)


def _lease(store: Store, lease: Lease) -> dict[str, Any]:
    found = store.lease_holder(lease)
    until = found.until.astimezone(UTC) if found.until else None
    return {"lease": lease.name, "holder": found.by, "epoch": found.epoch, "until": until}


def _find(options: Options, name: str, table: str) -> Target[Lease]:
    """A declared lease, or one known by its name alone."""
    if ":" in name:
        return find_targets(options.apps, [name], Lease)[0]
    declared = find_targets(options.apps, (), Lease) if options.apps else []
    return next((one for one in declared if one.answers_to(name)), Target("", name, Lease(name, table=table)))
