"""What commands that change something have in common: who, whether to ask first, and how not to."""

import getpass
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from raceproof import Store
from raceproof.ops.cli.ends import ExitCode, Failure
from raceproof.ops.cli.keys import Key, written_key
from raceproof.ops.cli.location import Location
from raceproof.ops.cli.moving import exit_code
from raceproof.ops.cli.options import Command
from raceproof.ops.cli.output import print_rows, printable
from raceproof.ops.cli.stores import open_store

by_option = click.option(
    "--by", envvar="RACEPROOF_BY", show_envvar=True, help="Who does it, for the history.  [default: your login name]"
)


def write_options(command: Command) -> Command:
    """Look first, and do not ask."""
    for option in (
        click.option("-y", "--yes", is_flag=True, help="Do not ask; needed where there is no terminal to ask on."),
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


@dataclass(frozen=True, slots=True)
class Change:
    """What came of one row, or would come of it."""

    key: Any
    outcome: str
    message: str
    code: ExitCode
    more: dict[str, Any]
    """What else is told of it."""

    def data(self) -> dict[str, Any]:
        return {"key": self.key, "outcome": self.outcome, **self.more, "message": self.message}


def change_each(
    location: Location | None,
    tenant: str | None,
    keys: Sequence[Key],
    change: Callable[[Store, Key], Change],
    show: Callable[[Sequence[Change]], None],
) -> ExitCode:
    """Change rows one after the other, and show what came of each; also of those before an error, which stay changed."""
    done: list[Change] = []
    try:
        with open_store(location, None, tenant) as store:
            for key in keys:
                done.append(change(store, key))
    except Failure as failure:
        if not done:
            raise
        told = f"after {len(done)} of {len(keys)} rows: {failure.message}"
        raise Failure(told, ExitCode.PARTLY, failure.advice) from failure
    finally:  # an interrupted run has changed rows too
        if done or not keys:
            show(done)
    for one in done:
        if one.code != ExitCode.OK:
            click.echo(printable(one.message), err=True)
    if not keys:
        click.echo("no keys, nothing to do", err=True)
    return exit_code(done)


def show_changes(
    output: str, columns: Sequence[str], styles: dict[str, str], separator: str
) -> Callable[[Sequence[Change]], None]:
    """How they are printed; as ids, those that are as they were asked to be."""

    def show(done: Sequence[Change]) -> None:
        rows = [one.data() for one in done if output != "ids" or one.code == ExitCode.OK]
        if output == "table":
            rows = [{**row, "key": written_key(row["key"], separator)} for row in rows]
        print_rows(output, columns, rows, styles, lambda row: written_key(row["key"], separator))

    return show


def rows_of(keys: Sequence[Key], separator: str) -> str:
    """Which rows a question is about: the one, or how many."""
    return written_key(keys[0], separator) if len(keys) == 1 else f"{len(keys)} rows"
