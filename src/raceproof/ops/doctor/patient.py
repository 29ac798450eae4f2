"""The store that is looked at, how far, and what the checks so far have learnt of it."""

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
from raceproof.ops.verify import Catalog
from raceproof.store import AsyncStore, Store

_TIMEOUT = "SET LOCAL statement_timeout = '{}ms'"


@dataclass
class Patient:
    """What every check is given."""

    store: Store | AsyncStore
    limit: int = 20
    rows: int = 50_000
    seconds: float = 5.0
    now: datetime | None = None
    clock: Callable[[], float] = time.time
    ailing: set[str] = field(default_factory=set)
    """Tables that are missing, or lack columns: their rows cannot be looked at."""
    guarded: set[str] = field(default_factory=set)
    """The names of lifecycles that have guards in the database."""
    histories: set[str] = field(default_factory=set)
    """Those that were looked at; many lifecycles share one."""
    logged: set[str] = field(default_factory=set)
    """Tables of PostgreSQL of which it is known whether they survive a crash."""
    apart: float = 0.0
    """How many seconds the store's clock is ahead of ours."""
    looked_at: str = ""
    """How far the last check has looked, if not at everything."""

    @property
    def driver(self) -> Any:
        return self.store.driver

    @property
    def dialect(self) -> Any:
        return self.store.dialect

    @property
    def catalog(self) -> Catalog:
        """What the database knows of its tables."""
        return Catalog(self.dialect, self.driver.dialect.style)

    @property
    def tenant(self) -> Any:
        return self.store.tenant

    @property
    def tenant_value(self) -> Any:
        """The tenant as a parameter of a statement."""
        return SQLITE.stored((self.tenant,))[0] if self.dialect == "sqlite" else self.tenant

    def whose(self, thing: Spec[Any] | Delivery) -> str | None:
        """The tenant that a command about rows of a thing has to name, if they are those of one."""
        return None if thing.tenant is None or self.tenant is None else str(self.tenant)

    @property
    def moment(self) -> datetime:
        """The time by the store's clock."""
        return self.now or datetime.fromtimestamp(self.clock() + self.apart, UTC)

    def text(self, name: str, slots: dict[str, str], package: str = "raceproof.ops.doctor") -> Prepared:
        """A statement of a file, for this store."""
        return templates(package, f"{self.dialect}.sql")[name].prepare(slots, self.driver.dialect.style)

    def bounded(self, program: Program[T]) -> Program[T]:
        """The same program; PostgreSQL gives up a query that takes too long. A transaction of the caller's is left alone."""
        if self.dialect == "postgres" and self.driver.settled:
            return transaction(BEGIN, self._timed(program))
        return program

    def _timed(self, program: Program[T]) -> Program[T]:
        yield Statement("doctor.timeout", _TIMEOUT.format(int(self.seconds * 1000)))
        return (yield from program)


def subjects_of(things: Iterable[Thing | Subject]) -> list[Subject]:
    """Each thing once; a claim stands for its lifecycle, and attempts bring theirs."""
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
    """The lifecycle of an inbox is looked at with the inbox."""
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
