"""Which lifecycles a command is about: `--app` as a module, an object in it, or a TOML file."""

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from operator import attrgetter
from types import ModuleType
from typing import Any

import click

from raceproof import Attempts, DeclarationError, Inbox, Lifecycle
from raceproof.declare import Claimable, Move, Spec
from raceproof.ops.cli.django_project import set_up_after, set_up_django
from raceproof.ops.cli.ends import Failure

Lifecycles = dict[str, Spec[Any]]


def find_lifecycles(apps: Sequence[str], names: Sequence[str] = ()) -> list[Spec[Any]]:
    """The lifecycles at `apps`: all of them, or those with these names."""
    found: Lifecycles = {}
    need_apps(apps)
    for app in apps:
        for spec in _load(app):
            if found.setdefault(spec.name, spec).hash != spec.hash:
                raise click.UsageError(
                    f"two different lifecycles are called {spec.name}; name the one that you mean: --app module:object"
                )
    return [_choose(found, name) for name in names] if names else list(found.values())


def need_apps(apps: Sequence[str]) -> None:
    if not apps:
        raise click.UsageError("which lifecycles? Say --app module:object, --app file.toml, or set RACEPROOF_APP.")


def find_lifecycle(apps: Sequence[str], name: str) -> Spec[Any]:
    """The one lifecycle with this name."""
    return find_lifecycles(apps, [name])[0]


def find_move(spec: Spec[Any], name: str) -> Move[Any]:
    """A move of a lifecycle by its name."""
    if name not in spec.moves:
        raise click.UsageError(f"{spec} has no move {name!r}; it has {', '.join(spec.moves)}.")
    return spec.moves[name]


def _choose(found: Lifecycles, name: str) -> Spec[Any]:
    if name in found:
        return found[name]
    alike = [spec for spec in found.values() if name.lower() in (spec.name.lower(), spec.table.lower())]
    if len(alike) != 1:
        raise click.UsageError(f"there is no lifecycle {name!r}; there are {', '.join(found)}.")
    return alike[0]


def _load(app: str) -> Iterable[Spec[Any]]:
    if app.endswith(".toml"):
        return [read_toml(app)]
    module_name, colon, attribute = app.partition(":")
    module = import_app(module_name)
    if not colon:
        return _found_in(module, app)
    try:
        return _found_in(attrgetter(attribute)(module), app)
    except AttributeError as error:
        known = ", ".join(dict.fromkeys(spec.name for spec in _specs(module))) or "no lifecycle"
        raise click.UsageError(f"--app {app}: {module_name} has no {attribute!r}; it has {known}.") from error


def read_toml(app: str) -> Spec[Any]:
    """The lifecycle that a file declares."""
    try:
        return Lifecycle.from_toml(app)
    except OSError as error:
        raise click.UsageError(f"--app {app}: {error.strerror or error}.") from error
    except DeclarationError as error:
        raise Failure(f"--app {app}: {error}") from error


def import_app(name: str, asked: str | None = None) -> ModuleType:
    """Import a module of the user's, which may be in the current folder; what it prints is not our data."""
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
                f"{asked}: there is no module {error.name!r} in the current folder or among the installed packages."
            ) from error
        raise Failure(f"{asked}: importing it failed: {error}") from error
    except (Exception, SystemExit) as error:
        raise Failure(
            f"{asked}: importing it failed: {type(error).__name__}: {error}",
            advice="`raceproof --debug …` shows where.",
        ) from error


def _imported(name: str, asked: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        if not set_up_after(error, asked):
            raise
        return importlib.import_module(name)


def _found_in(thing: Any, app: str) -> list[Spec[Any]]:
    found = list(_specs(thing))
    if not found:
        raise click.UsageError(
            f"--app {app}: no lifecycle there; it must be a Lifecycle class, a Spec, or a module that has some."
        )
    return found


def _specs(thing: Any) -> Iterator[Spec[Any]]:
    match thing:
        case Spec():
            yield thing
        case type() if issubclass(thing, Lifecycle) and thing is not Lifecycle:
            yield thing.spec
        case Claimable() | Attempts() | Inbox():
            yield thing.lifecycle
        case ModuleType():
            for value in vars(thing).values():
                if isinstance(value, type | Spec):
                    yield from _specs(value)
        case list() | tuple():
            for one in thing:
                yield from _specs(one)
