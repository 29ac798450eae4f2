"""`raceproof leader`: who leads, in which epoch, and until when."""

from datetime import UTC
from typing import Any

import click

from raceproof import Lease, Store
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, output_option, url_option
from raceproof.ops.cli.output import print_rows
from raceproof.ops.cli.stores import look_at_each
from raceproof.ops.cli.things import Target, find_things

_COLUMNS = ("lease", "holder", "epoch", "until")
_STYLES = {"(nobody)": "bold red"}


@click.command(
    epilog="""\b
Examples:
  raceproof leader --app shop.models bot_lease
  raceproof leader bot                              (a lease by its name, in the usual table)
  raceproof leader bot -o json | jq '.[0].holder'

\b
Exit code 7 if some leases could not be looked at."""
)
@click.argument("names", metavar="[TARGET|NAME]...", nargs=-1, shell_complete=complete_thing(Lease))
@app_option
@url_option
@click.option(
    "--table", default=Lease("-").table, show_default=True, help="The table of a lease that is named directly."
)
@output_option("table", "json", "jsonl", "ids")
@debug_option
@click.pass_context
def leader(
    context: click.Context,
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    table: str,
    output: str,
) -> None:
    """Say who leads.

    TARGET is a Lease that a module declares, or the name of any lease; without one, all that are declared. With -o ids the
    names of the holders are printed.
    """
    targets = find_things(apps, (), Lease) if not names else [_find(apps, name, table) for name in names]
    rows, code = look_at_each(location, None, targets, lambda store, target: [_led(store, target.thing)])
    if output == "table":
        rows = [{**row, "holder": row["holder"] or "(nobody)"} for row in rows]
    if output == "ids":
        rows = [row for row in rows if row["holder"]]
    print_rows(output, _COLUMNS, rows, _STYLES, lambda row: str(row["holder"]))
    context.exit(code)


def _led(store: Store, lease: Lease) -> dict[str, Any]:
    led = store.lease_holder(lease)
    until = led.until.astimezone(UTC) if led.until else None
    return {"lease": lease.name, "holder": led.by, "epoch": led.epoch, "until": until}


def _find(apps: tuple[str, ...], name: str, table: str) -> Target[Lease]:
    """A declared one, or one that is only known by its name."""
    if ":" in name:
        return find_things(apps, [name], Lease)[0]
    declared = [target for target in find_things(apps, (), Lease) if target.answers_to(name)] if apps else []
    return declared[0] if declared else Target("", name, Lease(name, table=table))
