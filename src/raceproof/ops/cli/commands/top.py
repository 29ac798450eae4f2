"""`raceproof top`: a store in a terminal, live."""

import sys

import click

from raceproof import Attempts, Delivery, Inbox, Lease
from raceproof.declare import Claimable, Spec
from raceproof.kernel.errors import missing_extra
from raceproof.ops.cli.completing import complete_thing
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.options import app_option, debug_option, url_option
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.things import find_things
from raceproof.ops.doctor import Subject

_KINDS = (Spec, Claimable, Delivery, Attempts, Lease, Inbox)


@click.command(
    epilog="""\b
Keys: 1 to 6 for the pages (lifecycles, claims, races, leader, inbox, stuck), arrows to move,
r look now, p pause, + and - slower and faster, q quit.

\b
Examples:
  raceproof top --app shop.models
  raceproof top --app shop.models Job logins --every 5"""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_thing(*_KINDS))
@app_option
@url_option
@click.option("--tenant", help="Whose rows, where a lifecycle has a tenant column.")
@click.option("--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between two looks.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Rows at a status are counted up to this many.",
)
@debug_option
def top(
    names: tuple[str, ...],
    apps: tuple[str, ...],
    location: Location | None,
    tenant: str | None,
    every: float,
    limit: int,
) -> None:
    """Watch a store in the terminal.

    Rows by status, who holds what and until when, races as they are won and lost, who leads, events that wait, and what
    is stuck with its repair. Nothing is written. TARGET is anything declared; without one, all of it.
    """
    targets = find_things(apps, names, *_KINDS)
    try:
        from raceproof.ops.top import Top, Watch
    except ImportError as error:
        raise missing_extra(str(error.name), "top") from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; for scripts there are show, claims, stuck and doctor.")
    with open_store(location, None, tenant):
        pass  # what is wrong with the URL is told before the screen is taken
    subjects = [Subject(target.thing, target.name, f"--app {target.app}") for target in targets]
    Top(Watch(lambda: open_store(location, None, tenant), subjects, limit), str(location), every).run()
