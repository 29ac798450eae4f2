"""`raceproof top`: a live view of a store in the terminal."""

import sys

import click

from raceproof import Attempts, Delivery, Inbox, Lease
from raceproof.declare import Claimable, Spec
from raceproof.kernel.errors import missing_extra
from raceproof.ops.cli.options import Options, shared_options
from raceproof.ops.cli.shell_completion import complete_target
from raceproof.ops.cli.stores import open_store
from raceproof.ops.cli.targets import find_targets
from raceproof.ops.doctor import Subject

_KINDS = (Spec, Claimable, Delivery, Attempts, Lease, Inbox)


@click.command(
    epilog="""\b
Keys: 1 to 6 for the pages (lifecycles, claims, races, leader, inbox, stuck), arrows to move,
r refresh, p pause, + and - slower and faster, q quit.

\b
Examples:
  raceproof top --app shop.models
  raceproof top --app shop.models Job logins --every 5"""
)
@click.argument("names", metavar="[TARGET]...", nargs=-1, shell_complete=complete_target(*_KINDS))
@shared_options("app", "url", "tenant")
@click.option("--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between refreshes.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Count the rows at a status up to this many.",
)
def top(options: Options, names: tuple[str, ...], every: float) -> None:
    """Watch a store in the terminal.

    Shows rows by status, held claims and their leases, races won and lost, leaders, waiting events, and stuck work with its
    repair. Nothing is written. TARGET is anything declared; without one, everything.
    """
    targets = find_targets(options.apps, names, *_KINDS)
    try:
        from raceproof.ops.top import Top, Watch
    except ImportError as error:
        raise missing_extra(str(error.name), "top") from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; in scripts use show, claims, stuck or doctor.")
    with open_store(options):
        pass  # report a wrong URL before taking over the screen
    subjects = [Subject(target.thing, target.name, f"--app {target.app}") for target in targets]
    Top(Watch(lambda: open_store(options), subjects, options.limit), str(options.location), every).run()
