"""Which scenarios `raceproof explore` is about: MODULE:SCENARIO, or all of a module or a file."""

import sys
from collections.abc import Iterator
from inspect import Parameter, signature
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click

from raceproof.ops.cli.apps import import_app
from raceproof.testing.explorer import Explored, explored


class Target(NamedTuple):
    """A scenario, and how it is asked for."""

    name: str
    scenario: Explored


def find_scenarios(target: str) -> Iterator[Target]:
    """The scenario at MODULE:SCENARIO, or all that are at MODULE."""
    name, colon, attribute = target.partition(":") if ".py:" not in target else target.rpartition(":")
    module = _imported(name)
    scenarios = {one: thing for one, thing in vars(module).items() if _is_scenario(thing, module)}
    if not colon:
        if not scenarios:
            raise click.UsageError(f"{target}: no scenario there; it is a function with one parameter, `world`.")
        for one, thing in scenarios.items():
            yield Target(f"{name}:{one}", explored(thing))
        return
    try:
        thing = attrgetter(attribute)(module)
    except AttributeError as error:
        known = ", ".join(scenarios) or "no scenario"
        raise click.UsageError(f"{target}: {name} has no {attribute!r}; it has {known}.") from error
    if not (isinstance(thing, Explored) or hasattr(thing, "explored") or _takes_one(thing)):
        raise click.UsageError(f"{target} is no scenario; that is a function with one parameter, `world`.")
    yield Target(target, explored(thing))


def _imported(name: str) -> ModuleType:
    """A module by its name, or by its file."""
    path = Path(name)
    if path.suffix != ".py":
        return import_app(name, asked=name)
    if not path.is_file():
        raise click.UsageError(f"{name}: there is no such file.")
    sys.path.insert(0, str(path.resolve().parent))
    module = import_app(path.stem, asked=name)
    if not (module.__file__ and path.samefile(module.__file__)):
        raise click.UsageError(f"{name}: another module is called {path.stem}, too; please rename the file.")
    return module


def _is_scenario(thing: Any, module: ModuleType) -> bool:
    """Whether it is meant as one: with `@explore()`, or a function of this module whose one parameter is `world`."""
    if isinstance(thing, Explored) or isinstance(getattr(thing, "explored", None), Explored):
        return True
    own = callable(thing) and getattr(thing, "__module__", "") == module.__name__
    return own and _takes_one(thing) and list(signature(thing).parameters) == ["world"]


def _takes_one(thing: Any) -> bool:
    try:
        given = signature(thing).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [one for one in given if one.default is Parameter.empty and one.kind is not Parameter.VAR_KEYWORD]
    return len(needed) == 1
