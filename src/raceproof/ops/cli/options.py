"""The options that several commands share, and what they have in common while they run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from raceproof.kernel.secrecy import redacted
from raceproof.ops.cli.location import Location, parse_location

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Run:
    """What one run of the program has to remember."""

    debug: bool = False
    secrets: set[str] = field(default_factory=set)

    def redacted(self, text: str) -> str:
        """A text without the secrets of this run, and without what looks like another one."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return redacted(text)


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(Run).debug = True


def _locate(context: click.Context, _: click.Parameter, value: str | None) -> Location | None:
    if not value:
        return None
    location = parse_location(value)
    context.ensure_object(Run).secrets |= location.secrets
    return location


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show the traceback of an error.",
)

app_option = click.option(
    "--app",
    "apps",
    metavar="MODULE[:OBJECT]",
    multiple=True,
    envvar="RACEPROOF_APP",
    show_envvar=True,
    help="Where the lifecycles are declared: a module, one object in it, or a .toml file. May be given several times.",
)

url_option = click.option(
    "--url",
    "location",
    metavar="URL",
    envvar=["RACEPROOF_URL", "DATABASE_URL"],
    show_envvar=True,
    callback=_locate,
    help="The store: sqlite:///file.db, postgresql://… or redis://…",
)


def key_options(command: Command) -> Command:
    """How keys are written."""
    for option in (
        click.option(
            "--key-separator", default=",", show_default=True, help="Between the columns of a key that has several."
        ),
        click.option("--tenant", help="Whose rows, where the lifecycle has a tenant column."),
    ):
        command = option(command)
    return command


def limit_option(number: int) -> Callable[[Command], Command]:
    """How many rows are looked at."""
    return click.option(
        "--limit", type=click.IntRange(1, 100_000), default=number, show_default=True, help="How many at most."
    )


def output_option(*formats: str) -> Callable[[Command], Command]:
    """In which form the data is printed; the first is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="The form of the data on stdout.",
    )
