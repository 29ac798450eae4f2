"""The declarations that a dashboard shows, each once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from raceproof.attempts import Attempts
from raceproof.declare.lifecycle import Lifecycle
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.errors import CallError
from raceproof.leases import Lease

Thing = Spec[Any] | Claimable[Any] | Delivery | Attempts | Lease | Inbox
Declared = type[Lifecycle[Any]] | Thing | ModuleType | Iterable["Declared"]
_KINDS = (Spec, Claimable, Delivery, Attempts, Lease, Inbox)


@dataclass(slots=True)
class Catalog:
    """The declarations by name."""

    lifecycles: dict[str, Spec[Any]] = field(default_factory=dict)
    claims: dict[str, Claimable[Any]] = field(default_factory=dict)
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    attempts: dict[str, Attempts] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    inboxes: dict[str, Inbox] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """By kind: what a dashboard for one tenant hides, because it has no tenant column."""

    @property
    def histories(self) -> dict[str, list[str]]:
        """The tables of histories, each with the lifecycles that it is for."""
        found: dict[str, list[str]] = {}
        for spec in self.lifecycles.values():
            if spec.history:
                found.setdefault(spec.history.table, []).append(spec.name)
        return found

    @property
    def losers_kept(self) -> bool:
        return any(spec.history and spec.history.losers for spec in self.lifecycles.values())

    def name_of(self, spec: Spec[Any]) -> str:
        return next((name for name, one in self.lifecycles.items() if one is spec), spec.name)

    def inbox_of(self, spec: Spec[Any]) -> Inbox | None:
        return next((one for one in self.inboxes.values() if one.lifecycle is spec), None)

    def deliveries_of(self, spec: Spec[Any]) -> dict[str, Delivery]:
        """The deliveries that are kept in the same rows."""
        return {
            name: one
            for name, one in self.deliveries.items()
            if one.table == spec.table and one.key_columns == spec.key_columns
        }

    def attempts_of(self, spec: Spec[Any]) -> Attempts | None:
        return next((one for one in self.attempts.values() if one.lifecycle is spec), None)

    def spec_of_table(self, table: str) -> Spec[Any] | None:
        return next((one for one in self.lifecycles.values() if one.table == table), None)

    @property
    def things(self) -> list[Thing]:
        found: list[Thing] = []
        for kind in (self.lifecycles, self.deliveries, self.attempts, self.leases, self.inboxes):
            found += kind.values()
        return [one for one in found if not (isinstance(one, Spec) and self.inbox_of(one))]


def catalog(declared: Iterable[Declared]) -> Catalog:
    """The named declarations, with those they depend on."""
    found = Catalog()
    for thing in _walk(tuple(declared), 0):
        match thing:
            case Spec():
                _add_lifecycle(found, thing)
            case Claimable():
                _add_lifecycle(found, thing.lifecycle)
            case Delivery():
                _add(found.deliveries, thing.name, thing.table, thing)
            case Attempts():
                _add_lifecycle(found, thing.lifecycle)
                _add(found.attempts, thing.lifecycle.name, thing.owner, thing)
            case Lease():
                _add(found.leases, thing.name, thing.table, thing)
            case Inbox():
                if all(one.table != thing.table for one in found.inboxes.values()):
                    _add(found.inboxes, thing.table, thing.table, thing)
                    _add_lifecycle(found, thing.lifecycle)
    return found


def for_one_tenant(found: Catalog) -> Catalog:
    """The things whose rows have a tenant column; the names of all others are in `left_out`."""
    lifecycles = {name: spec for name, spec in found.lifecycles.items() if spec.tenant}
    kept = Catalog(
        lifecycles=lifecycles,
        claims={name: claim for name, claim in found.claims.items() if claim.lifecycle.tenant},
        deliveries={name: one for name, one in found.deliveries.items() if one.tenant},
        attempts={name: one for name, one in found.attempts.items() if one.lifecycle.tenant},
    )
    inner = {id(box.lifecycle) for box in found.inboxes.values()}
    left_out = {
        "lifecycle": [
            name for name, spec in found.lifecycles.items() if name not in kept.lifecycles and id(spec) not in inner
        ],
        "delivery": [name for name in found.deliveries if name not in kept.deliveries],
        "attempts": [name for name in found.attempts if name not in kept.attempts],
        "lease": list(found.leases),
        "inbox": list(found.inboxes),
    }
    kept.left_out = {kind: names for kind, names in left_out.items() if names}
    return kept


def _add_lifecycle(found: Catalog, spec: Spec[Any]) -> None:
    if any(one is spec for one in found.lifecycles.values()):
        return
    name = _add(found.lifecycles, spec.name, spec.table, spec)
    for claim in spec.claims.values():
        found.claims[f"{name}.{claim.name}"] = claim


def _add(names: dict[str, Any], name: str, more: str, thing: Any) -> str:
    """Add it under its name, or with its table where the name is taken."""
    if names.get(name) is thing:
        return name
    if name in names:
        name = f"{name} ({more})"
    names[name] = thing
    return name


def _walk(thing: Any, depth: int) -> Iterator[Thing]:
    if isinstance(thing, _KINDS):
        yield thing
    elif isinstance(thing, type) and issubclass(thing, Lifecycle) and thing is not Lifecycle:
        yield thing.spec
        yield from (value for value in vars(thing).values() if isinstance(value, Delivery))
    elif isinstance(thing, ModuleType):
        for value in vars(thing).values():
            if isinstance(value, _KINDS) or (isinstance(value, type) and issubclass(value, Lifecycle)):
                yield from _walk(value, depth + 1)
    elif thing is Lifecycle:
        return
    elif isinstance(thing, Iterable) and not isinstance(thing, str | bytes | Mapping) and depth < 5:
        for one in thing:
            yield from _walk(one, depth + 1)
    else:
        raise CallError(f"a dashboard takes declarations or modules that contain them, got {thing!r}")
