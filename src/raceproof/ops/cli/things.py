"""What else a command can be about: claims, deliveries, attempts, leases and inboxes, found by name.

A TARGET is a name among what `--app` declares (`Job.work`, `pictures`), or says itself where it is (`shop.models:Job.work`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from types import ModuleType
from typing import Any, Generic, TypeVar

import click

from raceproof import Attempts, Delivery, Inbox, Lease, Lifecycle
from raceproof.declare import Claimable, Spec
from raceproof.ops.cli.target import find_lifecycles, import_app, need_apps, read_toml
from raceproof.run import Schedules

T = TypeVar("T")
Thing = Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox

WORDS: dict[type[Any], str] = {
    Spec: "lifecycle",
    Claimable: "claim",
    Delivery: "delivery",
    Attempts: "attempts",
    Lease: "lease",
    Inbox: "inbox",
    Schedules: "schedules",
}
BESIDE = (Delivery, Attempts, Lease, Inbox)
"""What is declared beside lifecycles."""
_FOUND_IN_MODULES = (type, *WORDS)


@dataclass(frozen=True)
class Target(Generic[T]):
    """A thing, and how it is named."""

    app: str
    name: str
    thing: T
    aliases: frozenset[str] = field(default=frozenset())

    def answers_to(self, name: str) -> bool:
        return name.lower() in {self.name.lower(), *(alias.lower() for alias in self.aliases)}


def find_things(apps: Sequence[str], names: Sequence[str], *kinds: type[Any]) -> list[Target[Any]]:
    """All things of these kinds at `apps`, or those that are named; a lifecycle stands for its claims too."""
    if not names:
        need_apps(apps)
        return _distinct(target for app in apps for target in _of_kinds(_declared(app), kinds))
    return _distinct(target for name in names for target in _named(apps, name, kinds))


def find_declared(
    apps: Sequence[str], names: Sequence[str], kinds: Sequence[type[Any]] = BESIDE
) -> tuple[list[Spec[Any]], list[Target[Any]]]:
    """Lifecycles, with their claims, and what is declared beside them."""
    if not names:
        others = find_things(apps, (), *kinds) if apps else []
        alone = others and not find_things(apps, (), Spec)
        return [] if alone else find_lifecycles(apps), others
    listed = find_things(apps, names, Spec, *kinds)
    specs = [target.thing for target in listed if isinstance(target.thing, Spec)]
    return specs, [target for target in listed if not isinstance(target.thing, Spec)]


def find_thing(apps: Sequence[str], name: str, kind: type[T]) -> Target[T]:
    """The one thing of a kind with this name."""
    found: list[Target[T]] = find_things(apps, [name], kind)
    if len(found) > 1:
        listed = ", ".join(target.name for target in found)
        raise click.UsageError(f"{name!r} means several: name one of {listed}.")
    return found[0]


def find_only(apps: Sequence[str], kind: type[T]) -> Target[T]:
    """The one thing of a kind that is declared."""
    found: list[Target[T]] = find_things(apps, (), kind)
    if len(found) != 1:
        listed = ", ".join(target.name for target in found)
        has = f"which {WORDS[kind]}? Name one of {listed}" if found else f"{', '.join(apps)} declares no {WORDS[kind]}"
        raise click.UsageError(f"{has}.")
    return found[0]


def tenant_column(thing: Thing) -> str | None:
    """The column that says whose a row is, where rows have to be those of somebody."""
    if isinstance(thing, Lease):
        return None
    owner = thing if isinstance(thing, Spec | Delivery) else thing.lifecycle
    owned = isinstance(thing, Attempts) and owner.tenant == thing.owner
    return None if owned else owner.tenant


def need_tenant(thing: Thing, tenant: str | None) -> None:
    """Rows of a table with tenants are always those of one."""
    column = tenant_column(thing)
    if column and tenant is None:
        raise click.UsageError(f"{thing} has a tenant column {column!r}: say whose rows with --tenant.")


def _named(apps: Sequence[str], name: str, kinds: Sequence[type[Any]]) -> list[Target[Any]]:
    if ":" in name:
        found = list(_of_kinds(_at(name), kinds))
        if not found:
            raise click.UsageError(f"{name} is not {_wanted(kinds)}.")
        return found
    need_apps(apps)
    there = [target for app in apps for target in _declared(app)]
    alike = _distinct(_of_kinds((target for target in there if target.answers_to(name)), kinds))
    if not alike:
        known = [target.name for target in _distinct(_of_kinds(there, kinds))]
        has = f"there are {', '.join(known)}" if known else f"{', '.join(apps)} declares none"
        raise click.UsageError(f"there is no {_wanted(kinds)} {name!r}; {has}.")
    return alike


def _wanted(kinds: Sequence[type[Any]]) -> str:
    *others, last = (WORDS[kind] for kind in kinds)
    return f"{', '.join(others)} or {last}" if others else last


def _of_kinds(targets: Iterable[Target[Any]], kinds: Sequence[type[Any]]) -> Iterator[Target[Any]]:
    for target in targets:
        if isinstance(target.thing, tuple(kinds)):
            yield target
        elif Claimable in kinds and isinstance(target.thing, Spec):
            yield from _claims(target)
        elif Claimable in kinds and isinstance(target.thing, Inbox):
            yield Target(target.app, f"{target.name}.work", target.thing.work)


def _distinct(targets: Iterable[Target[Any]]) -> list[Target[Any]]:
    """Each once: a module may have imported what another declares."""
    return list({id(target.thing): target for target in reversed(list(targets))}.values())[::-1]


def _declared(app: str) -> list[Target[Any]]:
    """What `--app` names; where nothing is declared there is nothing that could be well."""
    found = list(_at(app))
    if not found:
        raise click.UsageError(f"--app {app}: nothing is declared there: no {_wanted(list(WORDS))}.")
    return found


def _at(app: str) -> Iterator[Target[Any]]:
    if app.endswith(".toml"):
        yield from _walk(app, "", read_toml(app))
        return
    module_name, colon, attribute = app.partition(":")
    module = import_app(module_name)
    if not colon:
        yield from _walk(module_name, "", module)
        return
    try:
        thing = attrgetter(attribute)(module)
    except AttributeError as error:
        known = ", ".join(target.name for target in _walk(module_name, "", module)) or "nothing of ours"
        raise click.UsageError(f"{app}: {module_name} has no {attribute!r}; it has {known}.") from error
    yield from _walk(module_name, attribute, thing)


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
            spec_target: Target[Any] = Target(app, thing.name, thing, frozenset((thing.table, name)))
            yield spec_target
            yield from _claims(spec_target)
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


def _claims(target: Target[Any]) -> Iterator[Target[Any]]:
    for claim in target.thing.claims.values():
        yield Target(target.app, str(claim), claim, frozenset((f"{target.thing.table}.{claim.name}",)))
