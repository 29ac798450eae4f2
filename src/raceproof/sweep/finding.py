"""What a sweep looks for: rows out of attempts, overdue attempts, rows of a table of hashes; also for `raceproof stuck`."""

from datetime import datetime
from typing import Any

from raceproof.attempts import Attempts, start_request
from raceproof.claims import claim_request
from raceproof.claims import sql as claims_sql
from raceproof.claims.request import ClaimRequest
from raceproof.errors import CallError
from raceproof.look import moment
from raceproof.moves import RedisMoves
from raceproof.moves.redis_texts import key_of_member, parts_of_text, text_of
from raceproof.moves.request import KeyParts
from raceproof.moves.sqlite import bindable
from raceproof.moves.words import PostgresWords, SqliteWords
from raceproof.quoting import identifier, parameter
from raceproof.spec import Claimable, Spec
from raceproof.statement import Prepared, Program, Statement, templates
from raceproof.store import AsyncStore, Store
from raceproof.sweep.spent import SpentRow, SpentSearch

_KEYS_IN_ONE_SCAN = 500


def spent_rows(
    store: Store | AsyncStore, claim: Claimable[Any], limit: int = 100, now: datetime | None = None
) -> Program[list[SpentRow]]:
    """Rows that have had all their attempts and that nobody holds; on Redis every row is looked at."""
    if claim.cap is None:
        return []
    asked = claim_request(claim, limit=limit, tenant=store._tenant, now=now)
    spec, driver = claim.lifecycle, store._driver
    if driver.dialect == "redis":
        return (yield from _spent_on_redis(store, asked))
    words: Any = PostgresWords() if driver.dialect == "postgres" else SqliteWords()
    slots = claims_sql.slots(asked, words, now_text(driver.dialect, now))
    since = [slots["until"], *([f"t.{identifier(claim.after)}"] if claim.after else [])]
    slots |= {
        "since": f"COALESCE({', '.join(since)})" if len(since) > 1 else since[0],
        "spent": claims_sql.spent(claim),
        "t_keys": ", ".join(f"t.{identifier(column)}" for column in spec.key_columns),
    }
    rows = yield bound(driver, "claim.spent", slots, asked.values())
    found = []
    for ended, status, attempts, *parts in rows:
        own = tuple(parts)[1:] if spec.tenant else tuple(parts)
        key = own if len(own) > 1 else own[0]
        found.append(SpentRow(key, status, int(attempts), None if ended is None else moment(ended)))
    return found


def overdue(
    store: Store | AsyncStore, attempts: Attempts, limit: int = 100, now: datetime | None = None
) -> Program[list[KeyParts]]:
    """The key columns of open attempts whose time is over."""
    if attempts.ttl is None:
        return []
    spec = attempts.lifecycle
    anything = "-" if len(spec.key) == 1 else ("-",) * len(spec.key)
    owned = spec.tenant == attempts.owner
    one_owner = owned and store._tenant is not None  # P9: a store of one tenant sees its attempts alone
    owner = store._tenant if one_owner else "-"
    asked = start_request(attempts, owner, anything, tenant=owner if owned else store._tenant, now=now)
    rows = yield from store._driver.primitives.attempts.expired(asked, limit, one_owner)
    return [tuple(row) for row in rows]


def unsearchable(store: Store | AsyncStore, attempts: Attempts) -> str:
    """Why overdue attempts cannot be looked for in this store; empty if they can be, or end by themselves."""
    spec = attempts.lifecycle
    if store.dialect != "redis" or attempts.ttl is None or spec.expires is not None:
        return ""
    return (
        f"{attempts}: Redis cannot search hashes for attempts whose time is over; "
        f"with expires= for {spec} they would end by themselves"
    )


def scan(
    moves: RedisMoves, spec: Spec[Any], tenant: Any, cursor: str, beside: str = "", kind: str = "hash"
) -> Program[tuple[str, list[str]]]:
    """One bounded step through the keys of a table: the next cursor, and the rows found, as texts."""
    start = f"{spec.table}{beside}:"
    pattern = "".join(f"\\{one}" if one in "*?[]\\^" else one for one in start) + "*"
    given = (cursor, "MATCH", pattern, "COUNT", _KEYS_IN_ONE_SCAN, "TYPE", kind)
    ((following, names),) = yield Statement("sweep.scan", "SCAN", given)
    members = [text_of(name)[len(start) :] for name in names]
    return text_of(following), [
        member for member in members if key_of_member(spec, member, tenant) is not None
    ]


def _spent_on_redis(store: Store | AsyncStore, asked: ClaimRequest) -> Program[list[SpentRow]]:
    moves, claim = store._driver.moves, asked.claim
    spec = claim.lifecycle
    if not isinstance(moves, RedisMoves) or moves.cluster:
        raise CallError(f"{claim}: a cluster cannot be searched for rows")
    search = SpentSearch(moves, asked, (yield from clock(asked.now)))
    found: dict[Any, SpentRow] = {}
    cursor = "0"
    while len(found) < asked.limit:
        cursor, members = yield from scan(moves, spec, asked.tenant, cursor)
        rows = {}
        for member in members:
            rows[member] = (yield from moves.read(spec, parts_of_text(spec, member))) or {}
        found |= {row.key: row for row in (yield from search.among(rows))}
        if cursor == "0":
            break
    return list(found.values())[: asked.limit]


def clock(now: datetime | None) -> Program[float]:
    """The time of a Redis server in seconds, or the one to use."""
    if now is not None:
        return now.timestamp()
    ((seconds, micros),) = yield Statement("time", "TIME")
    return float(seconds) + float(micros) / 1e6


def now_text(dialect: str, now: datetime | None) -> str:
    if dialect == "postgres":
        return "statement_timestamp()" if now is None else parameter("now") + "::timestamptz"
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')" if now is None else parameter("now")


def bound(driver: Any, name: str, slots: dict[str, str], values: dict[str, Any]) -> Statement:
    """One of the statements beside the schema, for this driver."""
    text: Prepared = templates("raceproof.schema", f"{driver.dialect}.sql")[name].prepare(
        slots, driver.moves.style
    )
    if driver.dialect == "sqlite":
        values = dict(zip(values, bindable(tuple(values.values())), strict=True))
    return text.bind(values)
