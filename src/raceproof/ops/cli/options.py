"""The options that several commands share: declared once, and handed to a command as one `Options`."""

import functools
import getpass
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import click

from raceproof.kernel.secrecy import redacted
from raceproof.ops.cli.location import Location, parse_location

Command = Callable[..., Any]
Decorator = Callable[[Any], Any]


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


@dataclass(frozen=True, slots=True)
class Options:
    """The shared options as they were given; those that a command does not have keep their defaults."""

    apps: tuple[str, ...] = ()
    location: Location | None = None
    tenant: str | None = None
    key_separator: str = ","
    limit: int = 0
    by: str | None = None
    dry_run: bool = False
    yes: bool = False
    output: str = "table"

    @property
    def actor(self) -> str:
        """Who makes the change: --by, or the name of the login."""
        if self.by:
            return self.by
        try:
            return getpass.getuser()
        except (OSError, KeyError):  # a container may know no name for its user
            return f"uid {os.getuid()}"


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
_APP = click.option(
    "--app",
    "apps",
    metavar="MODULE[:OBJECT]",
    multiple=True,
    envvar="RACEPROOF_APP",
    show_envvar=True,
    help="Where the lifecycles are declared: a module, an object in it, or a .toml file. Repeatable.",
)
_URL = click.option(
    "--url",
    "location",
    metavar="URL",
    envvar=["RACEPROOF_URL", "DATABASE_URL"],
    show_envvar=True,
    callback=_locate,
    help="The store: sqlite:///file.db, postgresql://… or redis://…",
)
_TENANT = click.option("--tenant", help="The tenant whose rows are meant, for lifecycles with a tenant column.")
_SEPARATOR = click.option(
    "--key-separator", default=",", show_default=True, help="Separates the columns of a composite key."
)
_BY = click.option(
    "--by",
    envvar="RACEPROOF_BY",
    show_envvar=True,
    help="The actor to record in the history.  [default: your login name]",
)
_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation; required off a terminal.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would happen now, and change nothing.")
_FIRST = {"app": (_APP,), "url": (_URL,), "tenant": (_TENANT,), "keys": (_TENANT, _SEPARATOR)}
_LAST = {"by": (_BY,), "write": (_DRY_RUN, _YES)}


def shared_options(*names: str, limit: int | None = None, output: Sequence[str] = ()) -> Decorator:
    """Give a command the shared options of these names, as one `Options`; the first output format is the default."""
    first: list[Decorator] = [option for name in names for option in _FIRST.get(name, ())]
    last: list[Decorator] = [option for name in names for option in _LAST.get(name, ())]
    if limit is not None:
        last.insert(0, _limit(limit))
    if output:
        last.append(_output(output))
    known = {one.name for one in fields(Options)}

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            shared = {name: given.pop(name) for name in known & set(given)}
            return command(Options(**shared), *args, **given)

        run.__click_params__ = []  # type: ignore[attr-defined]
        for option in reversed([*last, debug_option]):
            option(run)
        run.__click_params__ += getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
        for option in reversed(first):
            option(run)
        return run

    return decorate


def _limit(number: int) -> Decorator:
    return click.option(
        "--limit", type=click.IntRange(1, 100_000), default=number, show_default=True, help="Rows to list at most."
    )


def _output(formats: Sequence[str]) -> Decorator:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="The format of the data on stdout.",
    )
