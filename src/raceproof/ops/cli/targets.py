"""Which declarations a command is about, found by name.

A TARGET is a name among what `--app` declares (`Job.work`, `pictures`), or says itself where it is (`shop.models:Job.work`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import click

from raceproof import Attempts, Delivery, Inbox, Lease
from raceproof.declare import Claimable, Move, Spec
from raceproof.ops.cli.apps import WORDS, Target, claims_of, targets_at

T = TypeVar("T")
Thing = Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox
BESIDE = (Delivery, Attempts, Lease, Inbox)
"""The kinds of declarations other than lifecycles."""


def find_lifecycles(apps: Sequence[str], names: Sequence[str] = ()) -> list[Spec[Any]]:
    """The lifecycles at `apps`: all of them, or those with these names."""
    found: dict[str, Spec[Any]] = {}
    _need_apps(apps)
    for app in apps:
        for spec in _lifecycles_at(app):
            if found.setdefault(spec.name, spec).hash != spec.hash:
                raise click.UsageError(
                    f"two different lifecycles are called {spec.name}; name the one you mean with --app module:object."
                )
    return [_choose(found, name) for name in names] if names else list(found.values())


def find_lifecycle(apps: Sequence[str], name: str) -> Spec[Any]:
    """The lifecycle with this name."""
    return find_lifecycles(apps, [name])[0]


def find_move(spec: Spec[Any], name: str) -> Move[Any]:
    """A move of a lifecycle by its name."""
    if name not in spec.moves:
        raise click.UsageError(f"{spec} has no move {name!r}; it has {', '.join(spec.moves)}.")
    return spec.moves[name]


def find_targets(apps: Sequence[str], names: Sequence[str], *kinds: type[Any]) -> list[Target[Any]]:
    """All declarations of these kinds at `apps`, or the named ones; a lifecycle includes its claims."""
    if not names:
        _need_apps(apps)
        return _distinct(target for app in apps for target in _of_kinds(_declared(app), kinds))
    return _distinct(target for name in names for target in _named(apps, name, kinds))


def find_declared(
    apps: Sequence[str], names: Sequence[str], kinds: Sequence[type[Any]] = BESIDE
) -> tuple[list[Spec[Any]], list[Target[Any]]]:
    """The lifecycles with their claims, and the other declarations of these kinds."""
    if not names:
        others = find_targets(apps, (), *kinds) if apps else []
        alone = others and not find_targets(apps, (), Spec)
        return [] if alone else find_lifecycles(apps), others
    listed = find_targets(apps, names, Spec, *kinds)
    specs = [target.thing for target in listed if isinstance(target.thing, Spec)]
    return specs, [target for target in listed if not isinstance(target.thing, Spec)]


def find_target(apps: Sequence[str], name: str, kind: type[T]) -> Target[T]:
    """The declaration of a kind with this name."""
    found: list[Target[T]] = find_targets(apps, [name], kind)
    if len(found) > 1:
        listed = ", ".join(target.name for target in found)
        raise click.UsageError(f"{name!r} is ambiguous: name one of {listed}.")
    return found[0]


def find_only(apps: Sequence[str], kind: type[T]) -> Target[T]:
    """The only declaration of a kind."""
    found: list[Target[T]] = find_targets(apps, (), kind)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(target.name for target in found)
    several = f"several {WORDS[kind]} declarations: name one of {listed}."
    raise click.UsageError(several if found else f"{', '.join(apps)} declares no {WORDS[kind]}.")


def tenant_column(thing: Thing) -> str | None:
    """The tenant column of the rows; None if there is none, or if each owner is a tenant."""
    if isinstance(thing, Lease):
        return None
    owner = thing if isinstance(thing, Spec | Delivery) else thing.lifecycle
    owned = isinstance(thing, Attempts) and owner.tenant == thing.owner
    return None if owned else owner.tenant


def need_tenant(thing: Thing, tenant: str | None) -> None:
    """Raise a usage error if the rows have tenants and none is given."""
    column = tenant_column(thing)
    if column and tenant is None:
        raise click.UsageError(f"{thing} has a tenant column {column!r}: name the tenant with --tenant.")


def _need_apps(apps: Sequence[str]) -> None:
    if not apps:
        raise click.UsageError("no declarations given: use --app module:object, --app file.toml, or set RACEPROOF_APP.")


def _choose(found: dict[str, Spec[Any]], name: str) -> Spec[Any]:
    if name in found:
        return found[name]
    alike = [spec for spec in found.values() if name.lower() in (spec.name.lower(), spec.table.lower())]
    if len(alike) != 1:
        raise click.UsageError(f"there is no lifecycle {name!r}; there are {', '.join(found)}.")
    return alike[0]


def _lifecycles_at(app: str) -> list[Spec[Any]]:
    found = [target.thing for target in targets_at(app, f"--app {app}")]
    specs = [one for one in found if isinstance(one, Spec)]
    if not specs and ":" in app:
        specs = [one.lifecycle for one in found if isinstance(one, Claimable | Attempts | Inbox)]
    if not specs:
        raise click.UsageError(f"--app {app}: expected a Lifecycle class, a Spec, or a module with lifecycles.")
    return specs


def _named(apps: Sequence[str], name: str, kinds: Sequence[type[Any]]) -> list[Target[Any]]:
    if ":" in name:
        found = list(_of_kinds(targets_at(name), kinds))
        if not found:
            raise click.UsageError(f"{name} is not {_wanted(kinds)}.")
        return found
    _need_apps(apps)
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
            yield from claims_of(target)
        elif Claimable in kinds and isinstance(target.thing, Inbox):
            yield Target(target.app, f"{target.name}.work", target.thing.work)


def _distinct(targets: Iterable[Target[Any]]) -> list[Target[Any]]:
    """Each once: a module may have imported what another declares."""
    return list({id(target.thing): target for target in reversed(list(targets))}.values())[::-1]


def _declared(app: str) -> list[Target[Any]]:
    """The declarations at `--app`; none at all is an error, or a typo would look like a healthy store."""
    found = targets_at(app)
    if not found:
        raise click.UsageError(f"--app {app}: no declarations found: no {_wanted(list(WORDS))}.")
    return found
