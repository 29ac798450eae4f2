"""The checks of the doctor, one after the other."""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack, overload

from raceproof.attempts import Attempts
from raceproof.declare.spec import Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program
from raceproof.leases import Lease
from raceproof.ops.doctor import (
    durability,
    durability_redis,
    durability_sqlite,
    overrides,
    redis,
    rows,
    schema,
    server,
    work,
)
from raceproof.ops.doctor.finding import Checked, Diagnosis, Problem, Subject, Thing
from raceproof.ops.doctor.patient import Patient, subjects_of
from raceproof.ops.inspect import Steps, is_cluster, run_steps
from raceproof.schema.needed import table_of
from raceproof.store import AsyncStore, Store

_CANCELLED = "57014"


class DiagnoseOptions(TypedDict, total=False):
    """How much to check."""

    limit: int
    """Rows of evidence per problem; 20 by default."""
    rows: int
    """Rows to scan at each end of a table without an index for the check, and half the keys to scan on Redis; 50 000 by
    default."""
    seconds: float
    """The time limit of a query on PostgreSQL; 5 by default."""
    now: datetime | None
    """The time to use, for tests; the store's clock otherwise."""
    clock: Callable[[], float]
    """The clock of this process in seconds; `time.time` by default."""
    ignore: Iterable[str]
    """Checks to skip, such as `guard`; `stuck` skips all `stuck.*`."""


@overload
def diagnose(store: Store, *things: Thing | Subject, **options: Unpack[DiagnoseOptions]) -> Diagnosis: ...
@overload
def diagnose(
    store: AsyncStore, *things: Thing | Subject, **options: Unpack[DiagnoseOptions]
) -> Awaitable[Diagnosis]: ...


def diagnose(store: Store | AsyncStore, *things: Thing | Subject, **options: Unpack[DiagnoseOptions]) -> Any:
    """Check the store and the rows of these declarations; nothing is written. On an AsyncStore, await it."""
    return run_steps(store, Examination(store, things, options).steps())


class Check(NamedTuple):
    """One check: its name, its target and its program, or why it is skipped."""

    name: str
    target: str
    program: Program[list[Problem]] | None
    note: str = ""


class Examination:
    """The checks of one diagnosis, and their results so far."""

    def __init__(self, store: Store | AsyncStore, things: Iterable[Thing | Subject], options: DiagnoseOptions) -> None:
        self._ignored = tuple(options.get("ignore", ()))
        self._subjects = subjects_of(things)
        self._patient = Patient(
            store,
            limit=options.get("limit", 20),
            rows=options.get("rows", 50_000),
            seconds=options.get("seconds", 5.0),
            now=options.get("now"),
            clock=options.get("clock", time.time),
        )
        if min(self._patient.limit, self._patient.rows) < 1 or not self._patient.seconds > 0:
            raise CallError("limit=, rows= and seconds= must be greater than 0")
        self._problems: list[Problem] = []
        self._checked: list[Checked] = []

    def steps(self) -> Steps[Diagnosis]:
        """The checks one by one: what a check is about may depend on what those before it have found."""
        for check in self._all():
            if self._is_ignored(check.name):
                continue
            if check.program is None:
                self._checked.append(Checked(check.name, check.target, 0, check.note, skipped=True))
                continue
            self._patient.looked_at = ""
            try:
                problems = yield self._patient.bounded(check.program)
            except Exception as error:
                self._skip(check, error)
                continue
            wanted = [one for one in problems if not self._is_ignored(one.check)]
            self._problems += wanted
            self._checked.append(Checked(check.name, check.target, len(wanted), self._patient.looked_at))
        order = {"error": 0, "warning": 1}
        return Diagnosis(tuple(sorted(self._problems, key=lambda one: order[one.level])), tuple(self._checked))

    def _skip(self, check: Check, error: Exception) -> None:
        """Skip a check that this store cannot make, or that took too long; raise all other errors."""
        code = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
        if code == _CANCELLED:
            note = f"no answer within {self._patient.seconds:g} s"
        elif isinstance(error, CallError | ValueError):
            note = str(error)  # not possible on this store, or a malformed value in a row
        else:
            raise error
        self._checked.append(Checked(check.name, check.target, 0, note, skipped=True))

    def _is_ignored(self, check: str) -> bool:
        return any(check == one or check.startswith(f"{one}.") for one in self._ignored)

    def _all(self) -> Iterator[Check]:
        yield from self._server()
        for subject in self._subjects:
            thing: Any = subject.thing
            if self._patient.dialect == "postgres":
                yield from self._unlogged(subject)
            match thing:
                case Spec():
                    yield from self._lifecycle(subject, thing)
                case Inbox():
                    yield from self._inbox(subject, thing)
                case Attempts():
                    yield from self._attempts(subject, thing)
                case Delivery():
                    yield from self._delivery(subject, thing)
                case Lease() if not self._on_redis:
                    yield Check("schema", subject.name, schema.table(self._patient, subject, thing))

    @property
    def _on_redis(self) -> bool:
        return bool(self._patient.dialect == "redis")

    def _server(self) -> Iterator[Check]:
        patient = self._patient
        match patient.dialect:
            case "sqlite":
                yield Check("durability", "store", durability_sqlite.settings(patient))
                yield Check("clock", "store", None, "SQLite uses the clock of this process")
                return
            case "postgres":
                yield Check("primary", "store", durability.primary(patient))
                yield Check("durability", "store", durability.settings(patient))
                yield Check("durability", "store", durability.standbys(patient))
                yield Check("pooler", "store", server.pooler(patient))
            case _ if is_cluster(patient.store):
                for name in ("primary", "durability", "eviction"):
                    yield Check(name, "store", None, "could not check: run the doctor on each node of the cluster")
            case _:
                yield Check("primary", "store", durability_redis.primary(patient))
                yield Check("durability", "store", durability_redis.settings(patient))
                yield Check("eviction", "store", durability_redis.eviction(patient))
        yield Check("clock", "store", server.clock(patient))

    def _unlogged(self, subject: Subject) -> Iterator[Check]:
        """Each table is checked once, though many declarations share one."""
        thing: Any = subject.thing
        owner = thing.lifecycle if isinstance(thing, Attempts | Inbox) else thing
        history = owner.history if isinstance(owner, Spec) else None
        tables = dict.fromkeys((table_of(thing), *((history.table,) if history else ())))
        if new := [table for table in tables if table not in self._patient.logged]:
            yield Check("durability", subject.name, durability.unlogged(self._patient, subject, new))

    def _lifecycle(self, subject: Subject, spec: Spec[Any]) -> Iterator[Check]:
        patient, name = self._patient, subject.name
        if self._on_redis:
            yield Check("status", name, redis.lifecycle(patient, subject, spec))
        else:
            yield Check("schema", name, schema.lifecycle(patient, subject, spec))
            if patient.dialect == "sqlite" and spec.history:
                yield Check("guard", name, overrides.left_behind(patient, subject, spec))
            yield self._of_rows("status", subject, spec, rows.strangers(patient, subject, spec))
        for claim in spec.claims.values():
            yield self._of_tenant("stuck.claim", subject, spec, work.claims(patient, subject, claim))
            programs = redis.claim if self._on_redis else work.spent
            yield self._of_tenant("stuck.claim", subject, spec, programs(patient, subject, claim))

    def _inbox(self, subject: Subject, inbox: Inbox) -> Iterator[Check]:
        patient = self._patient
        if not self._on_redis:
            yield Check("schema", subject.name, schema.table(patient, subject, inbox))
        yield from self._lifecycle(subject, inbox.lifecycle)
        events = redis.events if self._on_redis else work.events
        yield self._of_rows("stuck.inbox", subject, inbox, events(patient, subject, inbox))

    def _attempts(self, subject: Subject, attempts: Attempts) -> Iterator[Check]:
        patient = self._patient
        if self._on_redis:
            yield Check("owner", subject.name, redis.owners(patient, subject, attempts))
            return
        yield Check("schema", subject.name, schema.table(patient, subject, attempts))
        yield self._of_rows("owner", subject, attempts, rows.owners(patient, subject, attempts))
        spec = attempts.lifecycle
        if spec.tenant == attempts.owner:
            yield self._of_rows("stuck.attempt", subject, attempts, work.expired(patient, subject, attempts))
        else:
            yield self._of_tenant("stuck.attempt", subject, spec, work.expired(patient, subject, attempts))

    def _delivery(self, subject: Subject, delivery: Delivery) -> Iterator[Check]:
        patient = self._patient
        if not self._on_redis:
            yield Check("schema", subject.name, schema.table(patient, subject, delivery))
        program = redis.deliveries if self._on_redis else work.deliveries
        yield self._of_tenant("stuck.delivery", subject, delivery, program(patient, subject, delivery))

    def _of_tenant(
        self, name: str, subject: Subject, thing: Spec[Any] | Delivery, program: Program[list[Problem]]
    ) -> Check:
        """A check of rows that belong to tenants."""
        if work.needs_tenant(self._patient, thing):
            return Check(name, subject.name, None, f"name a tenant: {thing} has a tenant column")
        return self._of_rows(name, subject, thing, program)

    def _of_rows(self, name: str, subject: Subject, thing: Any, program: Program[list[Problem]]) -> Check:
        """A check of rows; skipped if the table lacks columns."""
        if table_of(thing) in self._patient.ailing:
            return Check(name, subject.name, None, f"table {table_of(thing)} must be repaired first")
        return Check(name, subject.name, program)
