"""Held rows, and rows out of attempts, among the first open ones in the order of the claim."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.claims.redis_index import index_key
from raceproof.claims.request import ClaimRequest
from raceproof.claims.slots import of_request as claim_slots
from raceproof.declare.claim_forms import ClaimColumns, TextMarker
from raceproof.declare.spec import Claimable
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import identifier
from raceproof.kernel.redis import text_of
from raceproof.kernel.statement import Program, Statement
from raceproof.ops.inspect import redis_clock, sql_of
from raceproof.ops.web.queries import redis_rows
from raceproof.ops.web.queries.statements import indexes, newest, statement, status_text, tenant_matches, whole_number
from raceproof.schema.indexes import claim_indexes, search_columns
from raceproof.store import AsyncStore

WINDOW = 2_000
_MOST = 500


@dataclass(frozen=True, slots=True)
class Held:
    """A row that is held, was held until its lease expired, or is out of attempts."""

    parts: tuple[Any, ...]
    status: str
    holder: str | None
    fence: Any
    attempts: int | None
    until: datetime | None
    stale: bool
    spent: bool
    """It is out of attempts and not held."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What was found, and what was looked at for it."""

    rows: Sequence[Held]
    note: str = ""
    hint: str = ""

    @property
    def more(self) -> bool:
        """There may be rows that are not among these."""
        return bool(self.note)

    @property
    def held(self) -> list[Held]:
        return [one for one in self.rows if one.until is not None and not one.stale]

    @property
    def stale(self) -> list[Held]:
        return [one for one in self.rows if one.stale and not one.spent]

    @property
    def spent(self) -> list[Held]:
        return [one for one in self.rows if one.spent]


def claims(store: AsyncStore, claim: Claimable[Any]) -> Program[Claims]:
    """The rows of a claim that are held or out of attempts."""
    if store.dialect == "redis":
        return (yield from _on_redis(store, claim))
    spec = claim.lifecycle
    indexed = yield from _is_indexed(store, claim)
    asked = ClaimRequest(claim, 1, "", claim.lease, (), store.tenant, (), None, None, "", "")
    slots = claim_slots(asked, sql_of(store))
    spent = f"COALESCE(w.rp_attempts, 0) >= {claim.max_attempts:d}" if claim.max_attempts is not None else "FALSE"
    if store.dialect == "postgres" and claim.attempts:
        slots["attempts"] += "::bigint"
    slots |= {
        "status_text": status_text(store, spec.column),
        "not_before": f"t.{identifier(claim.not_before)}" if claim.not_before else "NULL",
        "key_columns": ", ".join(
            f"t.{identifier(column)} AS rp_key_{place}" for place, column in enumerate(spec.key_columns)
        ),
        "is_open": f"t.{identifier(spec.column)} IN ({slots['open']})" if indexed else "",
        "tenant_matches": tenant_matches(store, spec.tenant),
        "order": _order(claim) if indexed else newest(spec.key_columns),
        "spent": spent,
    }
    values = {"lease": claim.lease, "window": WINDOW, "limit": _MOST, "tenant": store.tenant}
    rows = yield statement(store, "web.open", slots, values)
    found = sorted((_held(claim, row) for row in rows), key=_oldest)
    note = f"the first {_MOST} are shown" if len(rows) == _MOST else ""
    if indexed:
        return Claims(found, note)
    keys = ", ".join(f"t.{identifier(column)}" for column in spec.key_columns)
    slots |= {"before": "", "newest": slots["order"], "t_keys": keys}
    ends = yield statement(store, "web.window_end", slots, {"window": WINDOW, "tenant": store.tenant})
    if not ends:
        return Claims(found, note)  # the window was all there is
    hint = "\n".join(claim_indexes(claim, sql_of(store).name).values())
    return Claims(found, f"no index for this claim: among the last {WINDOW:,} rows by key", hint)


def _is_indexed(store: AsyncStore, claim: Claimable[Any]) -> Program[bool]:
    """Whether the claim's own index, or one like it, leads to its open rows."""
    first = search_columns(claim)[0].removeprefix("-")
    found = yield from indexes(store, claim.lifecycle.table)
    return any(partial and columns[0] == first for columns, partial in found)


def _order(claim: Claimable[Any]) -> str:
    return ", ".join(
        f"t.{identifier(column.removeprefix('-'))}" + (" DESC" if column.startswith("-") else "")
        for column in dict.fromkeys(search_columns(claim))
    )


def _held(claim: Claimable[Any], row: Sequence[Any]) -> Held:
    until, stale, status, holder, fence, attempts, _, *parts = row
    tried = None if attempts is None else int(attempts)
    over = until is None or bool(stale)
    spent = over and claim.max_attempts is not None and (tried or 0) >= claim.max_attempts
    ends = None if until is None else moment(until)
    return Held(tuple(parts), str(status), holder, fence, tried, ends, bool(stale), spent)


def _oldest(one: Held) -> tuple[bool, float]:
    return (one.until is None, one.until.timestamp() if one.until else 0.0)


def _on_redis(store: AsyncStore, claim: Claimable[Any]) -> Program[Claims]:
    """The index of the claim knows its rows: those that wait, and those that are held, by when they become free."""
    spec, form = claim.lifecycle, claim.form
    (named,) = yield Statement("web.index", "ZRANGE", (index_key(claim), 0, _MOST - 1))
    members = [text_of(one) for one in named]
    fields = [
        spec.column,
        form.until if isinstance(form, ClaimColumns) else form.column,
        form.holder if isinstance(form, ClaimColumns) else spec.column,
        form.fence_column,
        claim.attempts or spec.column,
    ]
    rows = yield from redis_rows.fields_of(store, spec.table, members, fields)
    now = yield from redis_clock()
    found = []
    for member, (status, mark, holder, fence, attempts) in zip(members, rows, strict=True):
        parts = redis_rows.parts_of(store, spec, member)
        if parts is None or status not in claim.open:
            continue
        ends = _ends(claim, mark)
        tried = whole_number(attempts) if claim.attempts else None
        over = ends is None or ends <= now
        spent = over and claim.max_attempts is not None and (tried or 0) >= claim.max_attempts
        if ends is None and not spent:
            continue
        who = holder if isinstance(form, ClaimColumns) else None
        until = None if ends is None else moment(ends)
        found.append(Held(parts, status, who, fence, tried, until, ends is not None and over, spent))
    note = f"among the first {_MOST} rows of the claim's index" if len(members) == _MOST else ""
    return Claims(sorted(found, key=_oldest), note)


def _ends(claim: Claimable[Any], mark: str | None) -> float | None:
    """When the lease of a hash expires; None if it is not held."""
    if isinstance(claim.form, TextMarker):
        mark = mark.rpartition(":")[2] if mark and mark.startswith(claim.form.prefix) else None
    try:
        return None if not mark else float(mark) + (0.0 if isinstance(claim.form, ClaimColumns) else claim.lease)
    except ValueError:
        return None
