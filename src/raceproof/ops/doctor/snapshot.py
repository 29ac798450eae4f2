"""The state of a store: rows by status, claims, deliveries, attempts, leases; for gauges and for `raceproof top`.

Promise: every count is bounded, whatever the size of a table, and says so: in a large table, rows with an index are counted
up to `limit`, others among its first rows, ten times as many. Not promised: that all counts are from the same moment.
"""

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, overload

from raceproof.attempts import Attempts
from raceproof.claims.answers import HeldClaim, held_claims
from raceproof.claims.request import claim_request
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery, DeliveryState
from raceproof.inbox import Inbox
from raceproof.kernel.errors import CallError
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import identifier, literal, qualified
from raceproof.kernel.redis import parts_of_text
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import is_of_tenant, row_of_tenant
from raceproof.leases import Lease
from raceproof.leases.request import LeaseRequest
from raceproof.ops.doctor import redis
from raceproof.ops.doctor.finding import Subject, Thing
from raceproof.ops.doctor.patient import Patient, subjects_of
from raceproof.ops.doctor.walk import walk
from raceproof.ops.inspect import Steps, programs_of, run_steps
from raceproof.ops.metrics import Reading
from raceproof.ops.sweep import overdue
from raceproof.store import AsyncStore, Store

_CLAIMS = 1000
_KEYS_OF_REDIS = 5000
_WINDOW = 10
_INBOX_TIMES = {"received": "received_at", "processing": "received_at", "done": "ended_at", "dead": "ended_at"}

Counted = tuple[int, bool, datetime | None]
"""How many rows, whether there are more, and since when the oldest is there."""


@dataclass(frozen=True, slots=True)
class StatusCount:
    """The number of rows of a lifecycle or an inbox at a status; `more`: at least so many."""

    target: str
    status: str
    number: int
    more: bool
    oldest: datetime | None
    """Since when the first of them is there, where a stamp or the inbox tells."""
    ended: bool


@dataclass(frozen=True, slots=True)
class ClaimCount:
    """The held rows of a claim; those with an expired lease are stale."""

    target: str
    claim: str
    rows: tuple[HeldClaim, ...]
    more: bool

    @property
    def held(self) -> int:
        return sum(not one.stale for one in self.rows)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that was read."""

    at: datetime
    states: list[StatusCount] = field(default_factory=list)
    claims: list[ClaimCount] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    """The active attempts of each lifecycle."""
    deliveries: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each delivery: how many are in progress or uncertain."""
    more_deliveries: set[str] = field(default_factory=set)
    """Deliveries that were counted only in part."""
    leases: dict[str, tuple[str | None, int, datetime | None]] = field(default_factory=dict)
    """Holder, epoch and end of each lease."""
    inboxes: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    """What could not be read, and why."""

    def readings(self, leases: bool = False) -> Iterator[Reading]:
        """As gauges; those of leases are for a process without leaders of its own."""
        for one in self.states:
            yield Reading("state_items", (one.target, one.status), one.number)
            if one.oldest is not None:
                seconds = one.oldest.timestamp()
                yield Reading("state_oldest_timestamp_seconds", (one.target, one.status), seconds)
                if one.target in self.inboxes and one.status == "received":
                    yield Reading("inbox_oldest_timestamp_seconds", (one.target,), seconds)
        for claim in self.claims:
            yield Reading("claims_held", (claim.target, claim.claim), claim.held)
        for target, number in self.attempts.items():
            yield Reading("attempts_active", (target,), number)
        if leases:
            for name, (holder, epoch, _) in self.leases.items():
                yield Reading("leader", (name,), int(holder is not None))
                yield Reading("leader_epoch", (name,), epoch)


@overload
def snapshot(store: Store, *things: Thing | Subject, limit: int = ..., seconds: float = ...) -> Snapshot: ...
@overload
def snapshot(
    store: AsyncStore, *things: Thing | Subject, limit: int = ..., seconds: float = ...
) -> Awaitable[Snapshot]: ...


def snapshot(store: Store | AsyncStore, *things: Thing | Subject, limit: int = 10_000, seconds: float = 2.0) -> Any:
    """Read the state of a store; a query that takes PostgreSQL longer than `seconds` is skipped, and noted.

    On an AsyncStore, await it.
    """
    return run_steps(store, _Reader(store, limit, seconds).steps(things))


class _Reader:
    """The reads of one snapshot, each a program of its own."""

    def __init__(self, store: Store | AsyncStore, limit: int, seconds: float) -> None:
        self.patient = Patient(store, limit=limit, rows=_KEYS_OF_REDIS, seconds=seconds)
        self.found = Snapshot(datetime.now(UTC))
        self._opens: dict[str, list[tuple[str, ...]]] = {}

    def steps(self, things: Any) -> Steps[Snapshot]:
        for name, program in self._programs(things):
            try:
                yield self.patient.bounded(program)
            except Exception as error:
                self._skip(name, error)
        return self.found

    def _skip(self, name: str, error: Exception) -> None:
        """Note what this store cannot read, or not in time; missing tables are for the doctor to report."""
        code = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
        missing = "no such table" in str(error) or "no such column" in str(error)
        if not (isinstance(error, CallError) or missing or code in ("57014", "42P01", "42703")):
            raise error
        self.found.notes.append(f"{name}: {str(error).splitlines()[0]}")

    def _programs(self, things: Any) -> Iterator[tuple[str, Program[None]]]:
        subjects = subjects_of(things)
        attempts = [subject.thing for subject in subjects if isinstance(subject.thing, Attempts)]
        for one in attempts:
            self._opens.setdefault(one.lifecycle.name, []).append(tuple(map(str, one.open)))
        for subject in subjects:
            thing: Any = subject.thing
            match thing:
                case Spec():
                    yield thing.name, self._states(thing.name, thing, _stamps(thing))
                    for claim in thing.claims.values():
                        yield str(claim), self._claim(thing.name, claim)
                case Inbox():
                    self.found.inboxes.add(thing.table)
                    yield thing.table, self._states(thing.table, thing.lifecycle, _INBOX_TIMES)
                    yield thing.table, self._claim(thing.table, thing.work)
                case Attempts():
                    yield str(thing), self._attempts(thing)
                case Delivery():
                    yield thing.name, self._delivery(thing)
                case Lease():
                    yield thing.name, self._lease(thing)

    def _states(self, target: str, spec: Spec[Any], times: dict[str, str]) -> Program[None]:
        if self.patient.dialect == "redis":
            counted = yield from self._states_on_redis(spec, times)
        else:
            opens = [tuple(map(str, claim.open)) for claim in spec.claims.values()]
            opens += self._opens.get(spec.name, [])
            counted = yield from self._states_in_sql(spec, times, opens)
        for status in map(str, spec.statuses):
            number, more, oldest = counted.get(status, (0, False, None))
            ended = status in spec.ended
            self.found.states.append(StatusCount(target, status, number, more, oldest, ended))

    def _states_in_sql(
        self, spec: Spec[Any], times: dict[str, str], opens: list[tuple[str, ...]]
    ) -> Program[dict[str, Counted]]:
        """Of the first rows of the table; where it has more, those that an index finds are counted by themselves."""
        window = self.patient.limit * _WINDOW
        found = yield from self._counted(spec, times, (), window)
        if sum(number for number, *_ in found.values()) < window:
            return found
        unseen = {str(status): (0, True, None) for status in spec.statuses}
        found = unseen | {status: (number, True, oldest) for status, (number, _, oldest) in found.items()}
        for statuses in opens:
            counted = yield from self._counted(spec, times, statuses, self.patient.limit)
            more = sum(number for number, *_ in counted.values()) >= self.patient.limit
            for status in statuses:
                number, _, oldest = counted.get(status, (0, False, None))
                found[status] = (number, more, oldest)
        return found

    def _counted(
        self, spec: Spec[Any], times: dict[str, str], statuses: tuple[str, ...], rows: int
    ) -> Program[dict[str, Counted]]:
        cast = "::timestamptz" if self.patient.dialect == "postgres" else ""
        cases = [f"WHEN {literal(status)} THEN t.{identifier(column)}{cast}" for status, column in times.items()]
        text = "::text" if self.patient.dialect == "postgres" else ""
        slots = {
            "table": qualified(spec.table),
            "status": identifier(spec.column),
            "since": f"CASE t.{identifier(spec.column)}{text} {' '.join(cases)} END" if cases else f"NULL{cast}",
            "open": ", ".join(literal(status) for status in statuses),
            "of_tenant": row_of_tenant(spec.tenant, self.patient.tenant),
        }
        given = {"rows": rows, "tenant": self.patient.tenant_value}
        asked = self.patient.text("snapshot.states", slots).bind(given)
        return {
            status: (int(number), False, moment(oldest) if oldest else None) for status, number, oldest in (yield asked)
        }

    def _states_on_redis(self, spec: Spec[Any], times: dict[str, str]) -> Program[dict[str, Counted]]:
        known = {str(status) for status in spec.statuses}
        rows = yield from walk(
            self.patient,
            spec.table,
            (spec.column, *times.values()),
            lambda row: (
                row.fields[spec.column] in known
                and is_of_tenant(spec.tenant, parts_of_text(spec, row.member), self.patient.tenant)
            ),
            self.patient.rows * 2,
        )
        more = bool(self.patient.looked_at)
        found: dict[str, Counted] = {}
        for row in rows:
            status = row.fields[spec.column]
            number, _, oldest = found.get(status, (0, more, None))
            since = row.fields.get(times.get(status, ""))
            began = moment(since) if since else oldest
            found[status] = (number + 1, more, min(began, oldest) if began and oldest else began)
        return found

    def _claim(self, target: str, claim: Claimable[Any]) -> Program[None]:
        spec = claim.lifecycle
        if spec.tenant and self.patient.tenant is None:
            return
        asked = claim_request(claim, limit=_CLAIMS, tenant=self.patient.tenant)
        rows = yield from programs_of(self.patient.store).claims.listed(asked)
        held = tuple(held_claims(claim, rows))
        self.found.claims.append(ClaimCount(target, claim.name, held, len(held) >= _CLAIMS))

    def _attempts(self, attempts: Attempts) -> Program[None]:
        """The open ones, without those whose time is over."""
        spec = attempts.lifecycle
        counted = sum(one.number for one in self.found.states if one.target == spec.name and not one.ended)
        late = yield from overdue(self.patient.store, attempts, self.patient.limit)
        self.found.attempts[spec.name] = max(0, counted - len(late))

    def _delivery(self, delivery: Delivery) -> Program[None]:
        if delivery.tenant and self.patient.tenant is None:
            return
        found: list[str]
        if self.patient.dialect == "redis":
            found = yield from self._under_way_on_redis(delivery)
        else:
            programs = programs_of(self.patient.store).deliveries
            rows = yield from programs.listed(delivery, _CLAIMS, self.patient.tenant, None)
            found = [str(state) for state, *_ in rows]
        counted = dict.fromkeys(map(str, (DeliveryState.RESERVED, DeliveryState.SENDING, DeliveryState.UNCERTAIN)), 0)
        for state in found:
            counted[state] = counted.get(state, 0) + 1
        self.found.deliveries[delivery.name] = counted
        if len(found) >= _CLAIMS or (self.patient.dialect == "redis" and self.patient.looked_at):
            self.found.more_deliveries.add(delivery.name)

    def _under_way_on_redis(self, delivery: Delivery) -> Program[list[str]]:
        now = self.patient.moment.timestamp()
        wanted = (delivery.delivering, delivery.delivered, *((delivery.state,) if delivery.state else ()))
        rows = yield from walk(
            self.patient,
            delivery.table,
            wanted,
            lambda row: (
                redis.state_of(delivery, row.fields, now) is not None
                and is_of_tenant(delivery.tenant, redis.delivered_parts(delivery, row.member), self.patient.tenant)
            ),
            _CLAIMS,
        )
        return [redis.state_of(delivery, row.fields, now) or "" for row in rows]

    def _lease(self, lease: Lease) -> Program[None]:
        led = yield from programs_of(self.patient.store).leases.holder(LeaseRequest(lease))
        self.found.leases[lease.name] = (led.by, led.epoch, led.until)


def _stamps(spec: Spec[Any]) -> dict[str, str]:
    """The column that tells since when a row is at a status, if every way there stamps the same."""
    found: dict[str, set[str | None]] = {}
    for one in spec.moves.values():
        found.setdefault(str(one.target), set()).add(one.stamp[0] if one.stamp else None)
    first = {str(status) for status in spec.initial}
    return {
        status: next(iter(stamps)) or ""
        for status, stamps in found.items()
        if len(stamps) == 1 and None not in stamps and status not in first
    }
