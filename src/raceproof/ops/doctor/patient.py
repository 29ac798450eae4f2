"""The store under examination, the limits, and what the checks have learned so far."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from raceproof.attempts import Attempts
from raceproof.declare.lifecycle import spec_of
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.dialects import SQLITE
from raceproof.kernel.statement import BEGIN, Prepared, Program, Statement, T, templates, transaction
from raceproof.leases import Lease
from raceproof.ops.doctor.finding import Subject, Thing
from raceproof.ops.inspect import is_settled, sql_of
from raceproof.ops.verify import Catalog
from raceproof.store import AsyncStore, Store

_TIMEOUT = "SET LOCAL statement_timeout = '{}ms'"


@dataclass
class Patient:
    """What every check gets."""

    store: Store | AsyncStore
    limit: int = 20
    rows: int = 50_000
    seconds: float = 5.0
    now: datetime | None = None
    clock: Callable[[], float] = time.time
    ailing: set[str] = field(default_factory=set)
    """Tables that are missing or lack columns, so that their rows cannot be read."""
    guarded: set[str] = field(default_factory=set)
    """The names of lifecycles that have guards in the database."""
    histories: set[str] = field(default_factory=set)
    """The histories checked so far; lifecycles may share one."""
    logged: set[str] = field(default_factory=set)
    """Tables of PostgreSQL that were checked for UNLOGGED."""
    apart: float = 0.0
    """By how many seconds the store's clock is ahead of this process."""
    looked_at: str = ""
    """How much the last check read, if not everything."""

    @property
    def dialect(self) -> Any:
        return self.store.dialect

    @property
    def catalog(self) -> Catalog:
        """The catalog of the database."""
        return Catalog(sql_of(self.store).name, sql_of(self.store).style)

    @property
    def tenant(self) -> Any:
        return self.store.tenant

    @property
    def tenant_value(self) -> Any:
        """The tenant as a parameter of a statement."""
        return SQLITE.stored((self.tenant,))[0] if self.dialect == "sqlite" else self.tenant

    def whose(self, thing: Spec[Any] | Delivery) -> str | None:
        """The tenant that a command about these rows must name, if any."""
        return None if thing.tenant is None or self.tenant is None else str(self.tenant)

    @property
    def moment(self) -> datetime:
        """The time by the store's clock."""
        return self.now or datetime.fromtimestamp(self.clock() + self.apart, UTC)

    def text(self, name: str, slots: dict[str, str], package: str = "raceproof.ops.doctor") -> Prepared:
        """A statement of a file, for this store."""
        return templates(package, f"{self.dialect}.sql")[name].prepare(slots, sql_of(self.store).style)

    def bounded(self, program: Program[T]) -> Program[T]:
        """The same program with a time limit on PostgreSQL, except in a transaction of the caller."""
        if self.dialect == "postgres" and is_settled(self.store):
            return transaction(BEGIN, self._timed(program))
        return program

    def _timed(self, program: Program[T]) -> Program[T]:
        yield Statement("doctor.timeout", _TIMEOUT.format(int(self.seconds * 1000)))
        return (yield from program)


def subjects_of(things: Iterable[Thing | Subject]) -> list[Subject]:
    """Each declaration once; claims and attempts add their lifecycle."""
    found: dict[int, Subject] = {}
    for one in things:
        subject = one if isinstance(one, Subject) else Subject(one, _name(one))
        thing = subject.thing
        if isinstance(thing, Claimable | Attempts):
            spec = thing.lifecycle
            found.setdefault(id(spec), Subject(spec, spec.name, subject.options))
        if isinstance(thing, type):
            thing = spec_of(thing)
            subject = Subject(thing, subject.name, subject.options)
        if not isinstance(thing, Claimable):
            found[id(thing)] = subject
    return _without_parts(found.values())


def _without_parts(subjects: Iterable[Subject]) -> list[Subject]:
    """The lifecycle of an inbox is checked with the inbox."""
    found = list(subjects)
    inner = {id(one.thing.lifecycle) for one in found if isinstance(one.thing, Inbox)}
    return [one for one in found if id(one.thing) not in inner]


def _name(thing: Thing) -> str:
    match thing:
        case Lease() | Delivery():
            return thing.name
        case Inbox():
            return thing.table
        case Spec() | Claimable() | Attempts():
            return str(thing)
    return spec_of(thing).name
