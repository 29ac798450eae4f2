"""What commands that change something have in common: who, whether to ask first, and how not to."""

import getpass
import os
import sys

import click

from raceproof.cli.ends import Failure
from raceproof.cli.options import Command
from raceproof.cli.output import printable

by_option = click.option(
    "--by",
    envvar="RACEPROOF_BY",
    show_envvar=True,
    help="Who does it, for the history.  [default: your login name]",
)


def write_options(command: Command) -> Command:
    """Look first, and do not ask."""
    for option in (
        click.option(
            "-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal to ask on."
        ),
        click.option("--dry-run", is_flag=True, help="Only say what would happen, as things are now."),
    ):
        command = option(command)
    return command


def confirm(question: str) -> None:
    """Ask the person at the terminal; without one, nothing is changed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(
            "there is no terminal to ask on: add --yes to do it, or --dry-run to see what would happen."
        )
    if not click.confirm(printable(question), err=True):
        raise Failure("nothing was changed")


def login_name() -> str:
    """Who is at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may know no name for its user
        return f"uid {os.getuid()}"
