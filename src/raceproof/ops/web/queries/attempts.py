"""The attempts of owners: the last ones, which of them is active, and which one ended which."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.attempts import Attempts
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import identifier, qualified
from raceproof.kernel.statement import Program
from raceproof.ops.web.queries import redis_rows
from raceproof.ops.web.queries.statements import indexes, newest, statement, status_text, tenant_matches
from raceproof.store import AsyncStore

_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Attempt:
    parts: tuple[Any, ...]
    owner: Any
    status: str
    started: datetime | None
    successor: str | None
    open: bool
    overdue: bool


@dataclass(frozen=True, slots=True)
class AttemptsView:
    attempts: Sequence[Attempt]
    note: str = ""

    @property
    def more(self) -> bool:
        """There may be attempts that are not among these."""
        return len(self.attempts) >= _SHOWN or bool(self.note)


def attempts(store: AsyncStore, asked: Attempts, now: float) -> Program[AttemptsView]:
    """The last attempts: by when they began if an index knows that, else by key."""
    spec = asked.lifecycle
    if store.dialect == "redis":
        return (yield from _on_redis(store, asked, now))
    by_start = False
    if asked.started:
        found = yield from indexes(store, spec.table)
        by_start = any(columns[0] == asked.started and not partial for columns, partial in found)
    order = (asked.started,) if by_start and asked.started else spec.key_columns
    columns = [status_text(store, spec.column), f"t.{identifier(asked.owner)}"]
    columns += [f"t.{identifier(one)}" if one else "NULL" for one in (asked.started, asked.link)]
    columns += [f"t.{identifier(column)}" for column in spec.key_columns]
    slots = {
        "table": qualified(spec.table),
        "columns": ", ".join(columns),
        "before": "",
        "tenant_matches": tenant_matches(store, spec.tenant),
        "newest": newest(order),
    }
    rows = yield statement(store, "web.rows", slots, {"limit": _SHOWN, "tenant": store.tenant})
    listed = [_attempt(asked, now, status, owner, began, link, parts) for status, owner, began, link, *parts in rows]
    note = (
        ""
        if by_start or len(rows) < _SHOWN
        else f"the last {_SHOWN} by key; an index on when they began would order them"
    )
    return AttemptsView(listed, note)


def _on_redis(store: AsyncStore, asked: Attempts, now: float) -> Program[AttemptsView]:
    spec = asked.lifecycle
    fields = [spec.column, asked.owner, asked.started or spec.column, asked.link or spec.column]
    looked = yield from redis_rows.look(store, spec.table, fields)
    found = []
    for text, (status, owner, began, link) in looked.rows:
        parts = redis_rows.parts_of(store, spec, text)
        if parts is not None and status is not None:
            began = began if asked.started else None
            found.append(_attempt(asked, now, status, owner, began, link if asked.link else None, parts))
    found.sort(key=lambda one: one.started.timestamp() if one.started else 0.0, reverse=True)
    return AttemptsView(found[:_SHOWN], looked.note)


def _attempt(
    asked: Attempts, now: float, status: Any, owner: Any, began: Any, link: Any, parts: Sequence[Any]
) -> Attempt:
    started = None if began is None else moment(began)
    is_open = str(status) in map(str, asked.open)
    overdue = bool(is_open and started and asked.ttl is not None and started.timestamp() + asked.ttl <= now)
    return Attempt(tuple(parts), owner, str(status), started, None if link is None else str(link), is_open, overdue)
