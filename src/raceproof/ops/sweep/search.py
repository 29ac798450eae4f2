"""What a sweep searches for: rows out of attempts and overdue attempts; also for `raceproof stuck`."""

from datetime import datetime
from typing import Any

from raceproof.attempts import Attempts
from raceproof.attempts.request import start_request
from raceproof.claims.request import ClaimRequest, claim_request
from raceproof.claims.slots import of_request as claim_slots
from raceproof.declare.spec import Claimable
from raceproof.kernel.dialect import Texts
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.moment import moment
from raceproof.kernel.quoting import identifier
from raceproof.kernel.redis import parts_of_text
from raceproof.kernel.statement import Program
from raceproof.ops.inspect import programs_of, redis_clock, scan, searchable, sql_of, statement
from raceproof.ops.sweep.spent import SpentRow, SpentSearch
from raceproof.store import AsyncStore, Store


def spent_rows(
    store: Store | AsyncStore, claim: Claimable[Any], limit: int = 100, now: datetime | None = None
) -> Program[list[SpentRow]]:
    """Unheld rows that are out of attempts; on Redis this reads every row."""
    if claim.max_attempts is None:
        return []
    asked = claim_request(claim, limit=limit, tenant=store.tenant, now=now)
    spec = claim.lifecycle
    if store.dialect == "redis":
        return (yield from _spent_on_redis(store, asked))
    dialect = sql_of(store)
    slots = claim_slots(asked, dialect)
    since = [slots["until"], *([f"t.{identifier(claim.not_before)}"] if claim.not_before else [])]
    slots["since"] = f"COALESCE({', '.join(since)})" if len(since) > 1 else since[0]
    slots["status_text"] = dialect.status_text(spec)
    rows = yield statement(store, sweep_texts(store), "claim.spent", slots, asked.values())
    found = []
    for ended, status, attempts, *parts in rows:
        own = tuple(parts)[1:] if spec.tenant else tuple(parts)
        key = own if len(own) > 1 else own[0]
        found.append(SpentRow(key, status, int(attempts), None if ended is None else moment(ended)))
    return found


def overdue(
    store: Store | AsyncStore, attempts: Attempts, limit: int = 100, now: datetime | None = None
) -> Program[list[KeyParts]]:
    """The key columns of overdue open attempts."""
    if attempts.ttl is None:
        return []
    spec = attempts.lifecycle
    anything = "-" if len(spec.key) == 1 else ("-",) * len(spec.key)
    owned = spec.tenant == attempts.owner
    one_owner = owned and store.tenant is not None  # P9: a store of one tenant sees its attempts alone
    owner = store.tenant if one_owner else "-"
    asked = start_request(attempts, owner, anything, tenant=owner if owned else store.tenant, now=now)
    rows = yield from programs_of(store).attempts.expired(asked, limit, one_owner)
    return [tuple(row) for row in rows]


def unsearchable(store: Store | AsyncStore, attempts: Attempts) -> str:
    """Why overdue attempts cannot be found in this store; empty if they can, or expire by themselves."""
    spec = attempts.lifecycle
    if store.dialect != "redis" or attempts.ttl is None or spec.expires is not None:
        return ""
    return (
        f"{attempts}: Redis cannot search hashes for overdue attempts; "
        f"declare expires= for {spec}, and they expire by themselves"
    )


def sweep_texts(store: Store | AsyncStore) -> Texts:
    """The statements of a sweep."""
    return sql_of(store).texts("ops.sweep", "sweep.sql", own=False)


def _spent_on_redis(store: Store | AsyncStore, asked: ClaimRequest) -> Program[list[SpentRow]]:
    claim, spec = asked.claim, asked.claim.lifecycle
    search = SpentSearch(searchable(store, claim), asked, (yield from redis_clock(asked.now)))
    found: dict[Any, SpentRow] = {}
    cursor = "0"
    while len(found) < asked.limit:
        cursor, members = yield from scan(spec, asked.tenant, cursor)
        rows = {}
        for member in members:
            read = programs_of(store).reading.read(spec, parts_of_text(spec, member))
            rows[member] = (yield from read) or {}
        found |= {row.key: row for row in (yield from search.among(rows))}
        if cursor == "0":
            break
    return list(found.values())[: asked.limit]
