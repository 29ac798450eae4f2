"""Deliveries: what is under way or uncertain, and how the last ones ended."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.deliveries import Delivery, DeliveryState
from raceproof.deliveries import sql as deliveries_sql
from raceproof.doctor.redis import delivered_parts
from raceproof.look import moment
from raceproof.moves.tenants import is_of_tenant
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.statement import Program
from raceproof.store import AsyncStore
from raceproof.sweep.finding import now_text
from raceproof.web.looking import redis_rows
from raceproof.web.looking.texts import indexes, newest, order_columns, statement, tenant_matches

WINDOW = 1_000
_MOST = 200
_UNFINISHED = (DeliveryState.SENDING, DeliveryState.RESERVED, DeliveryState.UNCERTAIN)


@dataclass(frozen=True, slots=True)
class Sent:
    """One row of a delivery."""

    parts: tuple[Any, ...]
    state: str
    holder: str | None
    since: datetime | None
    attempts: int | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What is not finished, and the ends of the last rows: how many of each state, and who sent them."""

    unfinished: Sequence[Sent]
    states: dict[str, int]
    senders: dict[str, int]
    note: str = ""
    hint: str = ""

    @property
    def uncertain(self) -> list[Sent]:
        return [one for one in self.unfinished if one.state == DeliveryState.UNCERTAIN]


def deliveries(store: AsyncStore, delivery: Delivery) -> Program[Deliveries]:
    """Look at the unfinished ones by their index, and at the last rows by key."""
    if store.dialect == "redis":
        return (yield from _on_redis(store, delivery))
    words: Any = PostgresWords() if store.dialect == "postgres" else SqliteWords()
    slots = deliveries_sql.slots(delivery, words, now_text(store.dialect, None))
    ordered = yield from order_columns(store, delivery.table, delivery.tenant, delivery.key_columns)
    slots |= {
        "newest": newest(ordered),
        "tenant_matches": tenant_matches(store, delivery.tenant),
    }
    values = {"stale": delivery.stale, "limit": _MOST, "window": WINDOW, "tenant": store._tenant}
    last = [_sent(row) for row in (yield statement(store, "web.deliveries", slots, values))]
    found = yield from indexes(store, delivery.table)
    indexed = any(columns[0] == delivery.delivering for columns, _ in found)
    if indexed:
        unfinished = [_sent(row) for row in (yield statement(store, "web.sending", slots, values))]
        return _told(delivery, unfinished, last)
    note, hint = "", ""
    if len(last) == WINDOW:
        note = f"no index on {delivery.delivering}: among the last {WINDOW:,} rows by key"
        name = "" if store.dialect == "postgres" else f"{delivery.name}_under_way "
        hint = (
            f'CREATE INDEX {name}ON {slots["table"]} ("{delivery.delivering}") '
            f'WHERE "{delivery.delivering}" IS NOT NULL;'
        )
    return _told(delivery, [one for one in last if one.state in _UNFINISHED], last, note, hint)


def _on_redis(store: AsyncStore, delivery: Delivery) -> Program[Deliveries]:
    told = [
        delivery.delivering,
        delivery.delivered,
        delivery.state,
        delivery.holder,
        delivery.error,
        delivery.attempts,
    ]
    fields = [column or delivery.delivering for column in told]
    looked = yield from redis_rows.look(store, delivery.table, fields)
    now = yield from redis_rows.clock()
    last = []
    for text, (since, delivered, state, holder, error, attempts) in looked.rows:
        parts = delivered_parts(delivery, text)
        if not is_of_tenant(delivery.tenant, parts, store._tenant):
            continue
        last.append(
            Sent(
                parts,
                state_of(delivery, since, delivered, state if delivery.state else None, now),
                holder if delivery.holder else None,
                moment(since) if since else None,
                int(attempts) if delivery.attempts and attempts else None,
                error if delivery.error else None,
            )
        )
    return _told(delivery, [one for one in last if one.state in _UNFINISHED][:_MOST], last, looked.note)


def state_of(delivery: Delivery, since: Any, delivered: Any, state: str | None, now: float) -> str:
    """The state of a row in words, from its columns as they were read."""
    if delivered:
        return DeliveryState.DELIVERED
    stale = bool(since) and moment(since).timestamp() + delivery.stale <= now
    if state in (DeliveryState.UNCERTAIN, DeliveryState.FAILED):
        return state
    if not since:
        return state or DeliveryState.READY
    if state == DeliveryState.RESERVED:
        return state
    return DeliveryState.UNCERTAIN if stale else DeliveryState.SENDING


def _told(
    delivery: Delivery, unfinished: Sequence[Sent], last: Sequence[Sent], note: str = "", hint: str = ""
) -> Deliveries:
    done = [one for one in last if one.state == DeliveryState.DELIVERED]
    senders = Counter(one.holder or "" for one in done) if delivery.holder else Counter[str]()
    return Deliveries(
        unfinished, dict(Counter(one.state for one in last)), dict(senders.most_common(12)), note, hint
    )


def _sent(row: Sequence[Any]) -> Sent:
    state, holder, since, attempts, error, *parts = row
    return Sent(
        tuple(parts), str(state), holder, None if since is None else moment(since),
        None if attempts is None else int(attempts), error,
    )  # fmt: skip
