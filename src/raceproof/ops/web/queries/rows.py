"""Rows of a lifecycle: how many at each status, and one page of them. Counts stop at a bound and say so."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.exceptions import HTTPException

from raceproof.declare.spec import Spec
from raceproof.kernel.quoting import identifier
from raceproof.kernel.statement import Program
from raceproof.ops.inspect import sql_of
from raceproof.ops.web.queries import redis_rows
from raceproof.ops.web.queries.statements import (
    before,
    indexes,
    names,
    newest,
    order_columns,
    statement,
    status_text,
    tenant_matches,
    typed,
)
from raceproof.store import AsyncStore

MOST = 10_000
PAGE = 50
WINDOW = 5_000
_FEW = 1_000
_STAMPS = 3


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows: exact, a lower bound (`more`), or the server's guess."""

    number: int
    more: bool = False
    guessed: bool = False

    def __str__(self) -> str:
        return f"{'≈ ' if self.guessed else ''}{self.number:,}{'+' if self.more else ''}"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows are at each status; `note` says what they are counted from."""

    at: Mapping[str, Count]
    note: str = ""
    hint: str = ""
    """SQL that would make them exact."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One row of a list."""

    parts: tuple[Any, ...]
    status: str
    revision: Any
    stamps: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and the key after which the next ones come; `looked`: so many were looked at for them."""

    rows: Sequence[Listed]
    next: tuple[Any, ...] | None
    note: str = ""


def stamps_of(spec: Spec[Any]) -> tuple[str, ...]:
    """The first few columns that moves stamp."""
    return tuple(dict.fromkeys(stamp for move in spec.moves.values() for stamp in move.stamp))[:_STAMPS]


def counts(store: AsyncStore, spec: Spec[Any]) -> Program[Counts]:
    """How many rows are at each status: exact if they are few, by an index up to a bound, or guessed."""
    if store.dialect == "redis":
        return (yield from _counts_on_redis(store, spec))
    ordered = yield from order_columns(store, spec.table, spec.tenant, spec.key_columns)
    slots = _slots(store, spec, ordered)
    whole = store.tenant is None
    guessed = (yield from _guess(store, spec)) if whole and store.dialect == "postgres" else {}
    found: dict[str, int] = {}
    if sum(guess.number for guess in guessed.values()) <= 2 * MOST:
        rows = yield statement(store, "web.sample", slots, {"limit": MOST + 1, "tenant": store.tenant})
        found = {str(status): int(number) for status, number in rows}
        if sum(found.values()) <= MOST:
            return Counts({status: Count(number) for status, number in found.items()})
    if whole and (yield from _is_indexed(store, spec)):
        statuses = dict.fromkeys((*map(str, spec.statuses), *found, *guessed))
        return Counts((yield from _by_index(store, slots, statuses)))
    table, column = slots["table"], slots["status"]
    if guessed:
        note = "more than 10,000 rows and no index on the status: the server's guess"
        return Counts(guessed, note, f"CREATE INDEX ON {table} ({column});")
    return Counts(
        {status: Count(number, more=True) for status, number in found.items()},
        "more than 10,000 rows and no index on the status: of the last 10,000 by key",
        f"CREATE INDEX {'' if store.dialect == 'postgres' else 'by_status '}ON {table} ({column});",
    )


def _is_indexed(store: AsyncStore, spec: Spec[Any]) -> Program[bool]:
    """Whether an index leads to the rows of a status."""
    found = yield from indexes(store, spec.table)
    return any(columns[0] == spec.column and not partial for columns, partial in found)


def _by_index(store: AsyncStore, slots: Mapping[str, str], statuses: Iterable[str]) -> Program[dict[str, Count]]:
    counted = {}
    for status in statuses:
        ((number,),) = yield statement(store, "web.at_status", slots, {"limit": MOST + 1, "value": status})
        counted[status] = Count(min(int(number), MOST), more=int(number) > MOST)
    return counted


def _guess(store: AsyncStore, spec: Spec[Any]) -> Program[dict[str, Count]]:
    rows = yield statement(store, "web.guess", {}, {**names(spec.table), "column": spec.column})
    if not rows or not rows[0][1] or rows[0][0] <= 0:
        return {}
    total, values, frequencies = rows[0]
    return {
        str(value): Count(round(total * frequency), guessed=True)
        for value, frequency in zip(values, frequencies, strict=True)
    }


def _counts_on_redis(store: AsyncStore, spec: Spec[Any]) -> Program[Counts]:
    looked = yield from redis_rows.look(store, spec.table, [spec.column])
    found: dict[str, int] = {}
    for text, (status,) in looked.rows:
        if status is not None and redis_rows.parts_of(store, spec, text) is not None:
            found[status] = found.get(status, 0) + 1
    at = {status: Count(number, more=not looked.complete) for status, number in found.items()}
    return Counts(at, looked.note)


def page(store: AsyncStore, spec: Spec[Any], status: str | None, after: Sequence[str] | None) -> Program[Page]:
    """Up to a page of rows, the last key first; with a status, those among a window of keys, or all if they are few."""
    if store.dialect == "redis":
        return (yield from _page_on_redis(store, spec, status))
    ordered = yield from order_columns(store, spec.table, spec.tenant, spec.key_columns)
    slots = _slots(store, spec, ordered)
    values: dict[str, Any] = {"limit": PAGE + 1, "window": WINDOW, "tenant": store.tenant}
    if after:
        try:
            last = yield from typed(store, spec.table, spec.key_columns, after)
        except ValueError as error:
            raise HTTPException(400, f"before= is not a key of {spec}: go on from one of its pages") from error
        slots["before"] = before(ordered)
        values |= {f"before_{place}": part for place, part in enumerate(last[-len(ordered) :])}
    if status is None:
        rows = yield statement(store, "web.rows", slots, values)
        return _page(spec, rows)
    values["value"] = status
    if not after and (yield from _has_few(store, spec, slots, status)):
        rows = yield statement(store, "web.few", slots, {**values, "limit": _FEW})
        sorted_rows = sorted(rows, key=lambda row: tuple(map(_sortable, row[: len(spec.key_columns)])), reverse=True)
        return Page([_listed(spec, row) for row in sorted_rows], None)
    rows = yield statement(store, "web.rows_at", slots, values)
    if len(rows) > PAGE:
        return _page(spec, rows)
    ends = yield statement(store, "web.window_end", slots, {**values, "window": WINDOW - 1})
    note = f"looked at {WINDOW:,} rows for these" if ends else ""
    return Page([_listed(spec, row) for row in rows], tuple(ends[0]) if ends else None, note)


def _has_few(store: AsyncStore, spec: Spec[Any], slots: Mapping[str, str], status: str) -> Program[bool]:
    """Whether an index leads to the rows of this status, and they are few."""
    if not (yield from _is_indexed(store, spec)):
        return False
    ((number,),) = yield statement(store, "web.at_status", slots, {"limit": _FEW + 1, "value": status})
    return int(number) <= _FEW


def _sortable(value: Any) -> Any:
    return value if isinstance(value, int | float) else str(value)


def _page_on_redis(store: AsyncStore, spec: Spec[Any], status: str | None) -> Program[Page]:
    fields = [spec.column, spec.revision or spec.column, *stamps_of(spec)]
    looked = yield from redis_rows.look(store, spec.table, fields)
    found = []
    for text, (at, revision, *stamps) in looked.rows:
        parts = redis_rows.parts_of(store, spec, text)
        if parts is None or at is None or (status is not None and at != status):
            continue
        found.append(Listed(parts, at, revision if spec.revision else None, tuple(stamps)))
    found.sort(key=lambda one: tuple(map(str, one.parts)), reverse=True)
    note = looked.note
    if len(found) > 4 * PAGE:
        note = f"{note}; the first {4 * PAGE} of {len(found):,}".removeprefix("; ")
    return Page(found[: 4 * PAGE], None, note)


def _page(spec: Spec[Any], rows: Sequence[Sequence[Any]]) -> Page:
    listed = [_listed(spec, row) for row in rows[:PAGE]]
    return Page(listed, listed[-1].parts if len(rows) > PAGE else None)


def _listed(spec: Spec[Any], row: Sequence[Any]) -> Listed:
    width = len(spec.key_columns)
    status, revision, *stamps = row[width:]
    return Listed(tuple(row[:width]), str(status), revision, tuple(stamps))


def _slots(store: AsyncStore, spec: Spec[Any], ordered: Sequence[str]) -> dict[str, str]:
    columns = [f"t.{identifier(column)} AS rp_key_{place}" for place, column in enumerate(spec.key_columns)]
    columns.append(f"{status_text(store, spec.column)} AS rp_status")
    columns.append((f"t.{identifier(spec.revision)}" if spec.revision else "NULL") + " AS rp_revision")
    columns += [f"t.{identifier(stamp)} AS rp_stamp_{place}" for place, stamp in enumerate(stamps_of(spec))]
    return {
        **sql_of(store).row(spec),
        "columns": ", ".join(columns),
        "window_columns": "w.*",
        "t_keys": ", ".join(f"t.{identifier(column)}" for column in spec.key_columns),
        "status_text": status_text(store, spec.column),
        "newest": newest(ordered),
        "tenant_matches": tenant_matches(store, spec.tenant),
        "before": "",
    }
