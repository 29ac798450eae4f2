"""Stuck work: leases long expired, rows out of attempts, uncertain deliveries, overdue attempts, dead events."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from raceproof.attempts import Attempts
from raceproof.claims.answers import held_claims
from raceproof.claims.request import claim_request
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.moment import moment
from raceproof.kernel.statement import Program
from raceproof.ops.doctor.finding import Problem, Repair, Row, Subject, advice, command
from raceproof.ops.doctor.patient import Patient
from raceproof.ops.doctor.quoting import key_words
from raceproof.ops.inspect import programs_of
from raceproof.ops.sweep import SpentRow, overdue, spent_rows

_INDEXED = 1000
_WHY = "doctor: the lease has expired"
NEXT_TRY = {"resend": "; the next try resends", "probe": "; the next try probes first", "hold": ""}


def claims(patient: Patient, subject: Subject, claim: Claimable[Any]) -> Program[list[Problem]]:
    """Rows whose lease expired at least one lease ago, and that no worker has claimed since."""
    # on Redis waiting rows are listed among the held ones
    limit = _INDEXED if patient.dialect == "redis" else patient.limit + 1
    asked = claim_request(claim, limit=limit, tenant=patient.tenant, now=patient.now)
    rows = yield from programs_of(patient.store).claims.listed(asked)
    late = [
        one
        for one in held_claims(claim, rows)
        if one.stale and one.until + timedelta(seconds=claim.lease) <= patient.moment
    ]
    if not late:
        return []
    evidence = tuple(
        {"key": one.key, "status": one.status, "holder": one.holder, "until": one.until, "attempts": one.attempts}
        for one in late[: patient.limit]
    )
    what = f"the leases of {str(claim)!r} have expired and no worker claims the rows: is a worker running?"
    lines = [
        subject.command(
            "claims",
            *key_option("--release", row["key"]),
            "--reason",
            _WHY,
            "--yes",
            name=claim_name(subject, claim),
            tenant=patient.whose(claim.lifecycle),
        )
        for row in evidence
    ]
    return [Problem("stuck.claim", "warning", subject.name, what, evidence, len(late) > patient.limit, command(*lines))]


def spent(patient: Patient, subject: Subject, claim: Claimable[Any]) -> Program[list[Problem]]:
    """Rows that are out of attempts and have not been dead-lettered."""
    rows = yield from spent_rows(patient.store, claim, patient.limit + 1, patient.now)
    return out_of_attempts(patient, subject, claim, evidence_of(rows))


def evidence_of(rows: Sequence[SpentRow]) -> list[dict[str, Any]]:
    """Such rows as evidence."""
    return [{"key": one.key, "status": one.status, "attempts": one.attempts, "since": one.since} for one in rows]


def out_of_attempts(
    patient: Patient, subject: Subject, claim: Claimable[Any], rows: list[dict[str, Any]]
) -> list[Problem]:
    """The problem with such rows, if any; a sweep dead-letters them if the claim declares `dead_letter=`."""
    if not rows:
        return []
    what = f"rows of {str(claim)!r} are out of attempts"
    if claim.dead_letter is not None:
        repair = swept(patient, subject, claim)
    else:
        what += ", and the claim declares no dead_letter="
        repair = command(*(_exit(patient, subject, claim, row) for row in rows[: patient.limit]))
    more = len(rows) > patient.limit
    return [Problem("stuck.claim", "error", subject.name, what, tuple(rows[: patient.limit]), more, repair)]


def swept(patient: Patient, subject: Subject, claim: Claimable[Any]) -> Repair:
    """A repair by a sweep."""
    name, tenant = claim_name(subject, claim), patient.whose(claim.lifecycle)
    return command(subject.command("sweep", "--yes", name=name, tenant=tenant), safe=True, sweeps=claim)


def _exit(patient: Patient, subject: Subject, claim: Claimable[Any], row: Row) -> str:
    """A move that an operator can make: preferably out of the statuses at which the row would be claimed."""
    spec = claim.lifecycle
    ways = [spec.moves[name] for name in spec.moves_from.get(str(row["status"]), ())]
    ways.sort(key=lambda one: (one.target in claim.open, one.target not in spec.terminal))
    if not ways:
        return f"# no move leads out of {row['status']!r}: declare one, and pass it to the claim as dead_letter="
    others = f"  # or {', '.join(one.name for one in ways[1:])}" if ways[1:] else ""
    words = (ways[0].name, "--reason", "doctor: out of attempts", "--yes", *as_argument(row["key"]))
    return subject.command("move", *words, name=spec.name, tenant=patient.whose(spec)) + others


def deliveries(patient: Patient, subject: Subject, delivery: Delivery) -> Program[list[Problem]]:
    """Deliveries with an unknown outcome."""
    own = (delivery.key,) if isinstance(delivery.key, str) else delivery.key
    rows = yield from programs_of(patient.store).deliveries.listed(
        delivery, patient.limit + 1, patient.tenant, patient.now, uncertain=True
    )
    evidence = []
    for _, holder, since, attempts, error, *parts in rows:
        key = tuple(parts)[-len(own) :]
        evidence.append(
            {"key": key if len(key) > 1 else key[0], "holder": holder, "error": error, "attempts": attempts}
            | {"since": None if since is None else moment(since)}
        )
    return uncertain(patient, subject, delivery, evidence)


def uncertain(patient: Patient, subject: Subject, delivery: Delivery, rows: list[dict[str, Any]]) -> list[Problem]:
    """The problem with such deliveries: an operator must check whether they arrived."""
    if not rows:
        return []
    what = f"deliveries have an unknown outcome{NEXT_TRY[delivery.policy]}"
    level: Any = "error" if delivery.policy == "hold" else "warning"
    shown = tuple(rows[: patient.limit])
    lines = ["# check with the receiver first, then uncomment the line that is true"]
    tenant = patient.whose(delivery)
    lines += [
        "# " + subject.command("delivery", *key_option("--resolve", row["key"]), ended, "--yes", tenant=tenant)
        for row in shown
        for ended in ("--arrived", "--not-arrived")
    ]
    more = len(rows) > patient.limit
    return [Problem("stuck.delivery", level, subject.name, what, shown, more, command(*lines))]


def expired(patient: Patient, subject: Subject, attempts: Attempts) -> Program[list[Problem]]:
    """Overdue open attempts."""
    rows = yield from overdue(patient.store, attempts, patient.limit + 1, patient.now)
    if not rows:
        return []
    spec = attempts.lifecycle
    evidence = tuple(dict(zip(spec.key_columns, row, strict=True)) for row in rows[: patient.limit])
    what = f"attempts are still open after their {attempts.ttl:g} s"
    if attempts.expire is not None:
        repair = command(subject.command("sweep", "--yes", tenant=patient.whose(spec)), safe=True, sweeps=attempts)
    else:
        repair = advice(f"declare expire= for {attempts}; the next attempt of the same owner also ends the old one")
    return [Problem("stuck.attempt", "warning", subject.name, what, evidence, len(rows) > patient.limit, repair)]


def events(patient: Patient, subject: Subject, inbox: Inbox) -> Program[list[Problem]]:
    """Events that are out of attempts."""
    rows = yield from programs_of(patient.store).inbox.listed(inbox, "dead", patient.limit + 1)
    evidence = [
        {"source": source, "event_id": event_id, "attempts": attempts, "received": moment(received)}
        for source, event_id, _, attempts, received, *_ in rows
    ]
    return dead(patient, subject, evidence)


def dead(patient: Patient, subject: Subject, rows: list[dict[str, Any]]) -> list[Problem]:
    """The problem with such events; they can be revived."""
    if not rows:
        return []
    shown = tuple(rows[: patient.limit])
    lines = [
        subject.command("inbox", *key_option("--revive", (row["source"], row["event_id"])), "--yes") for row in shown
    ]
    what = "events are dead: they are out of attempts"
    more = len(rows) > patient.limit
    return [Problem("stuck.inbox", "error", subject.name, what, shown, more, command(*lines))]


def key_option(option: str, key: Any) -> tuple[str, ...]:
    """The option that names a row."""
    *separator, text = key_words(key)
    return (*separator, option, text)


def as_argument(key: Any) -> tuple[str, ...]:
    """A key as the last word of a command, protected if it looks like an option."""
    *separator, text = key_words(key)
    return (*separator, *(("--",) if text.startswith("-") else ()), text)


def claim_name(subject: Subject, claim: Claimable[Any]) -> str:
    """The name of a claim in commands; the claim of an inbox goes by the name of the inbox."""
    return f"{subject.name}.{claim.name}" if isinstance(subject.thing, Inbox) else str(claim)


def needs_tenant(patient: Patient, thing: Spec[Any] | Delivery) -> bool:
    """Whether the rows have tenants and none is given."""
    return thing.tenant is not None and patient.tenant is None
