"""What `--app` names: a module, an object in it, or a TOML file; and everything declared there."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, TypeVar

import click

from raceproof import Attempts, DeclarationError, Delivery, Inbox, Lease, Lifecycle
from raceproof.declare import Claimable, Spec
from raceproof.ops.cli.django_project import set_up_after, set_up_django
from raceproof.ops.cli.exits import Failure
from raceproof.run import Schedules

T = TypeVar("T")
WORDS: dict[type[Any], str] = {
    Spec: "lifecycle",
    Claimable: "claim",
    Delivery: "delivery",
    Attempts: "attempts",
    Lease: "lease",
    Inbox: "inbox",
    Schedules: "schedules",
}
_FOUND_IN_MODULES = (type, *WORDS)


@dataclass(frozen=True)
class Target(Generic[T]):
    """A declaration, and how it is named on the command line."""

    app: str
    name: str
    thing: T
    aliases: frozenset[str] = field(default=frozenset())

    def answers_to(self, name: str) -> bool:
        return name.lower() in {self.name.lower(), *(alias.lower() for alias in self.aliases)}


def targets_at(app: str, asked: str | None = None) -> list[Target[Any]]:
    """Everything declared at `MODULE`, `MODULE:OBJECT` or in a TOML file."""
    if app.endswith(".toml"):
        return list(_walk(app, "", _read_toml(app)))
    module_name, colon, attribute = app.partition(":")
    module = import_app(module_name)
    if not colon:
        return list(_walk(module_name, "", module))
    try:
        thing = attrgetter(attribute)(module)
    except AttributeError as error:
        known = ", ".join(dict.fromkeys(target.name for target in _walk(module_name, "", module))) or "no declarations"
        raise click.UsageError(f"{asked or app}: {module_name} has no {attribute!r}; it has {known}.") from error
    return list(_walk(module_name, attribute, thing))


def claims_of(target: Target[Any]) -> Iterator[Target[Any]]:
    """The claims of a lifecycle."""
    for claim in target.thing.claims.values():
        yield Target(target.app, str(claim), claim, frozenset((f"{target.thing.table}.{claim.name}",)))


def _walk(app: str, name: str, thing: Any) -> Iterator[Target[Any]]:
    match thing:
        case ModuleType():
            for attribute, value in vars(thing).items():
                if isinstance(value, _FOUND_IN_MODULES):
                    yield from _walk(app, attribute, value)
        case list() | tuple():
            for one in thing:
                yield from _walk(app, name, one)
        case Spec():
            target: Target[Any] = Target(app, thing.name, thing, frozenset((thing.table, name)))
            yield target
            yield from claims_of(target)
        case type() if issubclass(thing, Lifecycle) and thing is not Lifecycle:
            yield from _walk(app, name, thing.spec)
            for attribute, value in vars(thing).items():
                if isinstance(value, Delivery):
                    yield from _walk(app, f"{name}.{attribute}", value)
        case Claimable():
            yield Target(app, str(thing), thing)
        case Delivery() | Lease():
            yield Target(app, name, thing, frozenset((thing.name,)))
        case Inbox():
            yield Target(app, name, thing, frozenset((thing.table,)))
            yield Target(app, f"{name}.work", thing.work)
        case Schedules():
            yield Target(app, name, thing, frozenset((thing.table,)))
        case Attempts():
            yield Target(app, name, thing, frozenset((str(thing),)))


def _read_toml(app: str) -> Spec[Any]:
    """The lifecycle declared in a file."""
    try:
        return Lifecycle.from_toml(app)
    except OSError as error:
        raise click.UsageError(f"--app {app}: {error.strerror or error}.") from error
    except DeclarationError as error:
        raise Failure(f"--app {app}: {error}") from error


def import_app(name: str, asked: str | None = None) -> ModuleType:
    """Import a module of the user, possibly from the current folder; its output goes to stderr."""
    asked = f"--app {name}" if asked is None else asked
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with redirect_stdout(sys.stderr):
            set_up_django(asked)
            return _imported(name, asked)
    except Failure:
        raise
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise click.UsageError(
                f"{asked}: no module {error.name!r} in the current folder or among the installed packages."
            ) from error
        raise Failure(f"{asked}: the import failed: {error}") from error
    except (Exception, SystemExit) as error:
        raise Failure(
            f"{asked}: the import failed: {type(error).__name__}: {error}", advice="`raceproof --debug …` shows where."
        ) from error


def _imported(name: str, asked: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        if not set_up_after(error, asked):
            raise
        return importlib.import_module(name)
