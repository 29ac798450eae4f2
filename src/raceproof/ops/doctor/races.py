"""The latest decisions in the histories: who won and, if losers are recorded, who lost.

In SQL a history has an order; on Redis each row has its own stream, and a bounded number of them is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.declare.spec import Spec
from raceproof.inbox import Inbox
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import literal, qualified
from raceproof.kernel.redis import parts_of_text, text_of
from raceproof.kernel.statement import Program, Statement, reading
from raceproof.kernel.tenants import entry_of_tenant, history_start, is_of_tenant
from raceproof.ops.doctor.finding import Subject, Thing
from raceproof.ops.doctor.patient import Patient, subjects_of
from raceproof.ops.inspect import is_cluster, scan_keys
from raceproof.store import Store

WON = frozenset(("moved", "claimed", "started"))
_STREAMS = 200
_WINDOW = 5_000  # of the newest entries, where those of one tenant are wanted
_SCANS = 10
_FIELDS = ("lifecycle", "move", "outcome", "before", "after", "actor", "reason", "at")


@dataclass(frozen=True, slots=True)
class Race:
    """One recorded decision."""

    at: datetime
    lifecycle: str
    key: str
    move: str
    outcome: str
    before: str | None
    after: str
    actor: str | None
    reason: str | None

    @property
    def won(self) -> bool:
        return self.outcome in WON


def races(store: Store, *things: Thing | Subject, limit: int = 100) -> list[Race]:
    """The newest decisions, newest first."""
    patient = Patient(store, limit=limit)
    return store.run(reading(patient.bounded(_races(patient, _specs(things)))))


def _specs(things: Iterable[Thing | Subject]) -> list[Spec[Any]]:
    found = [subject.thing for subject in subjects_of(things)]
    specs = [one.lifecycle if isinstance(one, Inbox) else one for one in found if isinstance(one, Spec | Inbox)]
    return [one for one in specs if one.history is not None]


def _races(patient: Patient, specs: list[Spec[Any]]) -> Program[list[Race]]:
    found: list[Race] = []
    if patient.dialect == "redis":
        for spec in specs:
            found += yield from _on_redis(patient, spec)
    else:
        for table in dict.fromkeys(spec.history.table for spec in specs if spec.history):
            if not (yield from patient.catalog.columns(table)):
                continue  # reported by the doctor
            text = patient.text(
                "snapshot.races", {"history": qualified(table), "visible": _visible(patient, specs, table)}
            )
            asked = {
                "limit": patient.limit,
                "window": patient.limit if patient.tenant is None else _WINDOW,
                "tenant_text": history_start(patient.tenant),
            }
            for lifecycle, key, move, outcome, before, after, actor, reason, at in (yield text.bind(asked)):
                entry = (lifecycle, key, move, outcome, before, after, actor, reason)
                found.append(Race(moment(at), *entry))
    return sorted(found, key=lambda one: one.at, reverse=True)[: patient.limit]


def _visible(patient: Patient, specs: list[Spec[Any]], table: str) -> str:
    """The entries that a store of one tenant may see: its own, and those of lifecycles without tenants."""
    if patient.tenant is None:
        return ""
    mine = [spec for spec in specs if spec.history and spec.history.table == table]
    shared = [literal(spec.name) for spec in mine if spec.tenant is None]
    owned = [literal(spec.name) for spec in mine if spec.tenant is not None]
    either = [f"h.lifecycle IN ({', '.join(shared)})"] if shared else []
    if owned:
        either.append(f"h.lifecycle IN ({', '.join(owned)}) AND {entry_of_tenant(patient.tenant)}")
    return f"({' OR '.join(either)})"


def _on_redis(patient: Patient, spec: Spec[Any]) -> Program[list[Race]]:
    if is_cluster(patient.store):
        return []
    start = f"{spec.table}/history:"
    names: dict[str, None] = {}
    cursor = "0"
    for _ in range(_SCANS):
        cursor, members = yield from scan_keys(start, cursor, 500, "stream")
        for member in members:
            if is_of_tenant(spec.tenant, parts_of_text(spec, member), patient.tenant):
                names[start + member] = None
        if cursor == "0" or len(names) >= _STREAMS:
            break
    found = []
    for name in list(names)[:_STREAMS]:
        (entries,) = yield Statement("races.newest", "XREVRANGE", (name, "+", "-", "COUNT", 5))
        for _, fields in entries:
            pairs = fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
            entry = {text_of(field): text_of(value) for field, value in pairs}
            lifecycle, move, outcome, before, after, actor, reason, at = (entry.get(one, "") for one in _FIELDS)
            race = (lifecycle, name[len(start) :], move, outcome, before or None, after, actor or None, reason or None)
            found.append(Race(moment(at), *race))
    return found
