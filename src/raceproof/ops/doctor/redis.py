"""Problems with rows on Redis and Valkey, found by scanning a bounded number of keys."""

from datetime import datetime
from typing import Any

from raceproof.attempts import Attempts
from raceproof.attempts.redis import RedisAttempts
from raceproof.claims.request import claim_request
from raceproof.declare.claim_forms import ClaimColumns
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.inbox import Inbox
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.moment import moment
from raceproof.kernel.redis import key_of_member, parts_of_text, text_of
from raceproof.kernel.statement import Program, Statement
from raceproof.kernel.tenants import is_of_tenant
from raceproof.ops.doctor import rows as sql_rows
from raceproof.ops.doctor import work
from raceproof.ops.doctor.finding import Problem, Repair, Subject, advice, redis
from raceproof.ops.doctor.patient import Patient
from raceproof.ops.doctor.walk import Found, walk
from raceproof.ops.inspect import searchable
from raceproof.ops.sweep.spent import SpentRow, SpentSearch
from raceproof.ops.sweep.steps import Sweep

_FOR_EVER = -1
_ROWS_AT_ONCE = 500


def lifecycle(patient: Patient, subject: Subject, spec: Spec[Any]) -> Program[list[Problem]]:
    """Rows at an undeclared status, and ended rows without a time to live."""
    known = {str(status) for status in spec.statuses}

    def is_bad(one: Found) -> bool:
        status = one.fields[spec.column]
        if status is None or not _is_ours(patient, spec, one.member):
            return False
        return status not in known or (spec.expires is not None and one.left == _FOR_EVER and status in spec.ended)

    found = yield from walk(patient, spec.table, (spec.column,), is_bad, patient.limit * 2 + 2)
    strangers = [one for one in found if one.fields[spec.column] not in known]
    stay = [one for one in found if one.fields[spec.column] in known]
    return [*_strangers(patient, subject, spec, strangers), *_stay(patient, subject, spec, stay)]


def _strangers(patient: Patient, subject: Subject, spec: Spec[Any], found: list[Found]) -> list[Problem]:
    if not found:
        return []
    shown = found[: patient.limit]
    rows = tuple({"key": one.member, spec.column: one.fields[spec.column]} for one in shown)
    first = str(spec.initial[0])
    repair = redis(*(("HSET", f"{spec.table}:{one.member}", spec.column, first) for one in shown))
    what = f"rows have an undeclared {spec.column}"
    return [Problem("status", "error", subject.name, what, rows, len(found) > len(shown), repair)]


def _stay(patient: Patient, subject: Subject, spec: Spec[Any], found: list[Found]) -> list[Problem]:
    if not found or spec.expires is None:
        return []
    shown = found[: patient.limit]
    left = f"{spec.expires.ended * 1000:.0f}"
    commands = []
    for one in shown:
        commands.append(("PEXPIRE", f"{spec.table}:{one.member}", left, "NX"))
        if spec.history:
            commands.append(("PEXPIRE", f"{spec.table}/history:{one.member}", left, "NX"))
    what = "ended rows have no time to live: they stay forever"
    rows = tuple({"key": one.member, spec.column: one.fields[spec.column]} for one in shown)
    more = len(found) > len(shown)
    return [Problem("ttl", "warning", subject.name, what, rows, more, redis(*commands, safe=True))]


def claim(patient: Patient, subject: Subject, one: Claimable[Any]) -> Program[list[Problem]]:
    """Rows out of attempts, and waiting rows that are missing from the index of the claim."""
    spec, form = one.lifecycle, one.form
    ends = form.until if isinstance(form, ClaimColumns) else form.column
    wanted = (spec.column, ends, *filter(None, (one.attempts, one.not_before, one.ordering_key)))
    waiting = {str(status) for status in one.open}

    def is_open(row: Found) -> bool:
        mine = key_of_member(spec, row.member, patient.tenant) is not None
        return row.fields[spec.column] in waiting and mine

    rows = yield from walk(patient, spec.table, wanted, is_open, patient.rows)
    problems = []
    if one.max_attempts is not None:
        asked = claim_request(one, tenant=patient.tenant, now=patient.now)
        search = SpentSearch(searchable(patient.store, one), asked, patient.moment.timestamp())
        spent: list[SpentRow] = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            spent += yield from search.among({row.member: row.fields for row in some})
            if len(spent) > patient.limit:
                break
        problems = work.out_of_attempts(patient, subject, one, work.evidence_of(spent))
    lost = yield from Sweep(patient.store, {}).missing(one, [row.member for row in rows][: patient.limit * 50])
    if lost:
        shown = tuple({"key": _key(spec, member)} for member in lost[: patient.limit])
        what = f"rows wait for {str(one)!r} but are missing from its index: no claim finds them"
        more, repair = len(lost) > patient.limit, work.swept(patient, subject, one)
        problems.append(Problem("index", "error", subject.name, what, shown, more, repair))
    return problems


def deliveries(patient: Patient, subject: Subject, delivery: Delivery) -> Program[list[Problem]]:
    """Deliveries with an unknown outcome."""
    now = patient.moment.timestamp()
    named = [column for column in (delivery.state, delivery.holder, delivery.error, delivery.attempts) if column]

    def is_uncertain(row: Found) -> bool:
        mine = is_of_tenant(delivery.tenant, delivered_parts(delivery, row.member), patient.tenant)
        return mine and state_of(delivery, row.fields, now) == "uncertain"

    wanted = (delivery.delivering, delivery.delivered, *named)
    found = yield from walk(patient, delivery.table, wanted, is_uncertain, patient.limit + 1)
    rows = []
    for row in found:
        read = row.fields.get
        since = read(delivery.delivering)
        rows.append(
            {
                "key": _delivered_key(delivery, row.member),
                "holder": read(delivery.holder or ""),
                "error": read(delivery.error or ""),
                "attempts": read(delivery.attempts or ""),
                "since": _moment(since),
            }
        )
    return work.uncertain(patient, subject, delivery, rows)


def state_of(delivery: Delivery, fields: dict[str, Any], now: float) -> str | None:
    """The state of a delivery in progress, as `deliveries/redis.lua` decides it; None for one not started, or ended."""
    since, named = fields[delivery.delivering], fields.get(delivery.state or "")
    if fields[delivery.delivered]:
        return None
    stale = bool(since) and _number(since) + delivery.stale <= now
    if named == "uncertain" or (stale and named != "reserved"):
        return "uncertain"
    return (named or "sending") if since else None


def events(patient: Patient, subject: Subject, inbox: Inbox) -> Program[list[Problem]]:
    """Events that are out of attempts."""
    wanted = ("status", "attempts", "received_at")
    found = yield from walk(patient, inbox.table, wanted, lambda row: row.fields["status"] == "dead", patient.limit + 1)
    rows = []
    for row in found:
        name, event_id = parts_of_text(inbox.lifecycle, row.member)
        received = row.fields["received_at"]
        rows.append(
            {"source": name, "event_id": event_id, "attempts": row.fields["attempts"]} | {"received": _moment(received)}
        )
    return work.dead(patient, subject, rows)


def owners(patient: Patient, subject: Subject, attempts: Attempts) -> Program[list[Problem]]:
    """Owners with several open attempts, and keys of open attempts without a time to live."""
    spec = attempts.lifecycle
    still = {str(status) for status in attempts.open}

    def is_open(row: Found) -> bool:
        return (
            row.fields[spec.column] in still
            and bool(row.fields[attempts.owner])
            and _is_ours(patient, spec, row.member)
        )

    wanted = (spec.column, attempts.owner, *((attempts.started,) if attempts.started else ()))
    found = yield from walk(patient, spec.table, wanted, is_open, patient.rows)
    seen = patient.looked_at
    several = yield from _several(patient, subject, attempts, found)
    patient.looked_at = seen
    if spec.expires is None:
        if attempts.ttl is None:
            return several
        what = f"{attempts} has ttl= but its lifecycle has no expires=: on Redis its rows stay forever"
        repair = advice(f"declare expires=(open, ended) for {spec}, in seconds")
        return [*several, Problem("ttl", "warning", subject.name, what, repair=repair)]
    for_ever = yield from _for_ever(patient, attempts, found)
    if not for_ever:
        return several
    shown = tuple({"key": words[1]} for words in for_ever[: patient.limit])
    what = "keys of open attempts have no time to live: they stay forever"
    more = len(for_ever) > patient.limit
    mended: Repair = redis(*for_ever[: patient.limit], safe=True)
    return [*several, Problem("ttl", "warning", subject.name, what, shown, more, mended)]


def _several(patient: Patient, subject: Subject, attempts: Attempts, found: list[Found]) -> Program[list[Problem]]:
    spec = attempts.lifecycle
    of: dict[str, list[Found]] = {}
    for row in found:
        of.setdefault(_owner(attempts, row), []).append(row)
    crowded = {owner: mine for owner, mine in of.items() if len(mine) > 1}
    if not crowded:
        return []
    rows: list[dict[str, Any]] = []
    kept: dict[KeyParts, KeyParts] = {}
    for owner, mine in list(crowded.items())[: patient.limit]:
        pointer, _ = _keys(patient, attempts, owner)
        (pointed,) = yield Statement("attempt.pointer", "GET", (pointer,))
        mine.sort(key=lambda row: (row.fields.get(attempts.started or "") or "", row.member))
        if text_of(pointed) in {row.member for row in mine}:
            kept[_whose(attempts, mine[0])] = parts_of_text(spec, text_of(pointed))
        for row in mine:
            owned = {attempts.owner: row.fields[attempts.owner], spec.column: row.fields[spec.column]}
            rows.append(_columns(spec, row) | owned)
    shown, more = rows[: patient.limit * 2], len(crowded) > patient.limit
    return [sql_rows.several(patient, subject, attempts, shown, more, kept)]


def _keys(patient: Patient, attempts: Attempts, owner: str) -> tuple[str, str]:
    return RedisAttempts(searchable(patient.store, attempts)).keys(attempts, owner)


def _for_ever(patient: Patient, attempts: Attempts, found: list[Found]) -> Program[list[tuple[str, ...]]]:
    """The commands that give these keys a time to live."""
    spec = attempts.lifecycle
    assert spec.expires is not None
    open_ms = f"{spec.expires.open * 1000:.0f}"
    kept_ms = f"{max(spec.expires.open, spec.expires.ended) * 1000:.0f}"
    commands: list[tuple[str, ...]] = []
    for row in found:
        if row.left == _FOR_EVER:
            commands.append(("PEXPIRE", f"{spec.table}:{row.member}", open_ms, "NX"))
    for owner in list(dict.fromkeys(_owner(attempts, row) for row in found))[: patient.limit * 10]:
        for key, left in zip(_keys(patient, attempts, owner), (open_ms, kept_ms), strict=True):
            replies: Any = yield Statement("doctor.left", "PTTL", (key,))
            if replies[0] == _FOR_EVER:
                commands.append(("PEXPIRE", key, left, "NX"))
    return commands


def _columns(spec: Spec[Any], row: Found) -> dict[str, Any]:
    return dict(zip(spec.key_columns, parts_of_text(spec, row.member), strict=True))


def _whose(attempts: Attempts, row: Found) -> KeyParts:
    """The owner of an attempt, with its tenant if owners are per tenant."""
    known = _columns(attempts.lifecycle, row) | {attempts.owner: row.fields[attempts.owner]}
    return tuple(known[column] for column in attempts.owner_columns)


def _owner(attempts: Attempts, row: Found) -> str:
    """The same as a text, unique per owner."""
    *tenant, owner = _whose(attempts, row)
    return attempts.owner_text(owner, tenant[0] if tenant else None)


def _is_ours(patient: Patient, spec: Spec[Any], member: str) -> bool:
    """Whether a text is a key of the lifecycle, and of the tenant being checked."""
    parts = parts_of_text(spec, member)
    return len(parts) == len(spec.key_columns) and is_of_tenant(spec.tenant, parts, patient.tenant)


def _key(spec: Spec[Any], member: str) -> Any:
    """The key of a row as callers write it, without its tenant."""
    parts = parts_of_text(spec, member)
    own = parts[1:] if spec.tenant else parts
    return own if len(own) > 1 else own[0]


def _delivered_key(delivery: Delivery, member: str) -> Any:
    parts = delivered_parts(delivery, member)
    own = parts[1:] if delivery.tenant else parts
    return own if len(own) > 1 else own[0]


def delivered_parts(delivery: Delivery, member: str) -> KeyParts:
    """The columns of a key of a delivery, from its text."""
    if len(delivery.key_columns) == 1:
        return (member,)
    return tuple(part.replace("%3A", ":").replace("%25", "%") for part in member.split(":"))


def _moment(text: str | None) -> datetime | None:
    try:
        return moment(text) if text else None
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")
