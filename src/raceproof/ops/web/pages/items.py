"""One row: its columns, history, claims and deliveries, and for each status whether and how the row can reach it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from raceproof.declare.claim_forms import ClaimColumns, TextMarker, TimestampClaim
from raceproof.declare.spec import Claimable, Spec
from raceproof.deliveries import Delivery
from raceproof.kernel.moment import moment
from raceproof.kernel.statement import Program
from raceproof.kernel.tenants import is_of_tenant
from raceproof.moves import HistoryEntry
from raceproof.moves.reading import history as history_of
from raceproof.ops.explain import Explanation, explain
from raceproof.ops.inspect import programs_of
from raceproof.ops.web.live import Seen
from raceproof.ops.web.pages.overview import read_row
from raceproof.ops.web.queries.deliveries import state_of
from raceproof.ops.web.queries.ledger import why_lost, winners
from raceproof.ops.web.queries.statements import typed, user_key
from raceproof.ops.web.visit import Visit
from raceproof.store import AsyncStore

_HISTORY = 200
_SEEN = 20


@dataclass(frozen=True, slots=True)
class RowClaim:
    """A claim on this row, from its columns."""

    name: str
    claim: Claimable[Any]
    open: bool
    """Its status is one at which this claim may be held."""
    holder: str | None
    fence: Any
    until: datetime | None
    stale: bool
    attempts: Any
    not_before: datetime | None

    @property
    def held(self) -> bool:
        return self.until is not None


@dataclass(frozen=True, slots=True)
class RowDelivery:
    name: str
    delivery: Delivery
    state: str
    holder: Any
    since: datetime | None
    error: Any
    attempts: Any


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the timeline; for one that lost, who won and why."""

    entry: HistoryEntry
    winner: HistoryEntry | None
    why: str


async def item(visit: Visit) -> Response:
    spec = visit.lifecycle(visit.asked("of"))
    parts = tuple(visit.request.query_params.getlist("key"))
    if len(parts) != len(spec.key_columns):
        raise HTTPException(404, f"the key of {spec} is {', '.join(spec.key_columns)}; got {len(parts)} parts")
    reply = await read_row(visit, spec, parts)
    if reply.trouble:
        raise HTTPException(503, reply.trouble)
    row = reply.value
    past = await visit.ask(_history, spec, parts)
    history = past.value or []
    if row is None and not history:
        raise HTTPException(404, f"no {spec} has this key")
    key = user_key(spec, parts)
    status = None if row is None else str(row.get(spec.column))
    explained = [
        explain(spec, row, str(one), history, key, visit.board.hidden)
        for one in spec.statuses
        if row and str(one) != status
    ]
    legal: list[tuple[str, Explanation]] = []
    for name in spec.moves_from.get(status or "", ()) if row else ():
        foreseen = explain(spec, row, spec.moves[name], history, key, visit.board.hidden)
        if foreseen.verdict in ("possible", "depends"):
            legal.append((name, foreseen))
    now = visit.now
    box = visit.catalog.inbox_of(spec)
    return visit.page(
        "item.html",
        spec=spec,
        name=visit.catalog.name_of(spec),
        parts=parts,
        row=row,
        columns=_columns(visit, spec, row, box is not None) if row else [],
        status=status,
        timeline=timeline(spec, history),
        trouble=past.trouble,
        full=len(history) == _HISTORY,
        explained=explained,
        legal=legal,
        claims=[claim_of(name, one, row, now) for name, one in visit.catalog.claims.items() if one.lifecycle is spec]
        if row
        else [],
        deliveries=[delivery_of(name, one, row, now) for name, one in visit.catalog.deliveries_of(spec).items()]
        if row
        else [],
        box=box,
        seen=_seen(visit, spec, parts),
    )


def _seen(visit: Visit, spec: Spec[Any], parts: Sequence[str]) -> list[Seen]:
    """Decisions about the row seen in this process that no history keeps: deliveries, renewals, lost claims."""
    own = parts[1:] if spec.tenant else parts
    names = {spec.name, *(one.name for one in visit.catalog.deliveries_of(spec).values())}
    return [
        one
        for one in reversed(list(visit.board.feed.recent))
        if one.event.lifecycle in names
        and _texts(one.event.key) == list(own)
        and (spec.tenant is None or str(one.event.tenant) == parts[0])
        and (one.event.operation != "move" or spec.history is None)
    ][:_SEEN]


def _texts(key: Any) -> list[str]:
    return [str(part) for part in key] if isinstance(key, tuple) else [str(key)]


def _columns(visit: Visit, spec: Spec[Any], row: dict[str, Any], event: bool) -> list[tuple[str, Any, bool]]:
    """Each column with its value, and whether to hide it; the content of events is always hidden."""
    inside = ("body", "headers") if event else ()
    return [
        (name, value, name in inside or (visit.secret(name) and name not in spec.key_columns))
        for name, value in row.items()
    ]


def _history(store: AsyncStore, spec: Spec[Any], parts: Sequence[str]) -> Program[list[HistoryEntry]]:
    if spec.history is None:
        return []
    try:
        key = yield from typed(store, spec.table, spec.key_columns, parts)
    except ValueError:
        return []
    if not is_of_tenant(spec.tenant, key, store.tenant):
        return []
    tenant = key[0] if spec.tenant else None
    return (yield from history_of(programs_of(store).reading, spec, user_key(spec, key), tenant, _HISTORY))


def timeline(spec: Spec[Any], history: Sequence[HistoryEntry]) -> list[Moment]:
    """The history, newest first; each loser with the decision that won."""
    won = winners(history)
    return [
        Moment(entry, won.get(place), why_lost(spec, entry) if entry.outcome in ("refused", "lost", "already") else "")
        for place, entry in enumerate(history)
    ]


def claim_of(name: str, claim: Claimable[Any], row: dict[str, Any], now: datetime) -> RowClaim:
    """Who holds the row, from its columns."""
    form = claim.form
    holder, until = None, None
    mark = row.get(form.cleared[-1])
    match form:
        case ClaimColumns():
            holder, until = row.get(form.holder), None if mark is None else moment(mark)
        case TimestampClaim():
            until = None if mark is None else moment(moment(mark).timestamp() + claim.lease)
        case TextMarker():
            seconds = str(mark).rpartition(":")[2] if str(mark).startswith(form.prefix) else ""
            until = _after(seconds, claim.lease)
    is_open = str(row.get(claim.lifecycle.column)) in map(str, claim.open)
    not_before = row.get(claim.not_before or "")
    return RowClaim(
        name,
        claim,
        is_open,
        holder,
        row.get(form.fence_column),
        until if is_open else None,
        until is not None and until <= now,
        row.get(claim.attempts or ""),
        None if not_before is None else moment(not_before),
    )


def _after(seconds: str, lease: float) -> datetime | None:
    """When a lease is over that began at this number of seconds; None if it is not a number that is a time."""
    try:
        return moment(float(seconds) + lease)
    except (ValueError, OverflowError, OSError):
        return None


def delivery_of(name: str, delivery: Delivery, row: dict[str, Any], now: datetime) -> RowDelivery:
    """How a delivery stands, from the row's columns."""
    since = row.get(delivery.delivering)
    state = row.get(delivery.state) if delivery.state else None
    found = state_of(delivery, since, row.get(delivery.delivered), state, now.timestamp())
    return RowDelivery(
        name, delivery, found, row.get(delivery.holder or ""), moment(since) if since else None,
        row.get(delivery.error or ""), row.get(delivery.attempts or ""),
    )  # fmt: skip
