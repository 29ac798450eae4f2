"""What a sweep looks for: rows out of attempts, overdue attempts, rows of a table of hashes; also for `raceproof stuck`."""

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.attempts import Attempts, start_request
from raceproof.claims import claim_request
from raceproof.claims import sql as claims_sql
from raceproof.claims.postgres import PostgresWords
from raceproof.claims.request import ClaimRequest
from raceproof.claims.sqlite import SqliteWords
from raceproof.errors import CallError
from raceproof.forms import Columns, Marker
from raceproof.look import moment
from raceproof.lua import script
from raceproof.moves import RedisMoves
from raceproof.moves.redis import GUARDS, comparisons, key_of_member, parts_of_text, text_of
from raceproof.moves.redis_index import index_key, line_key
from raceproof.moves.request import KeyParts
from raceproof.moves.sqlite import bindable
from raceproof.quoting import identifier, parameter
from raceproof.spec import Claimable, Spec
from raceproof.statement import Prepared, Program, Statement, source, templates
from raceproof.store import AsyncStore, Store

UNMET = source("raceproof.sweep", "unmet.lua")
_KEYS_IN_ONE_SCAN = 500
_MARKER = re.compile(r"PROCESSING:[^:]+:[^:]+:([0-9]+\.?[0-9]*)")


@dataclass(frozen=True, slots=True)
class SpentRow:
    """A row that has had all its attempts, and that nobody holds."""

    key: Any
    status: str
    attempts: int
    since: datetime | None


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
    asked = start_request(attempts, "-", anything, tenant="-" if owned else store._tenant, now=now)
    rows = yield from store._driver.primitives.attempts.expired(asked, limit)
    return [tuple(row) for row in rows]


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


class SpentSearch:
    """Which rows of Redis are out of attempts: those that a sweep would set aside, as `claims/redis.lua` decides it.

    Nobody holds them and they meet the guards; the index proposes them by now, or, where they are not in it, would as soon
    as they are offered: so they do not rest, and of a line it is the first.
    """

    def __init__(self, moves: RedisMoves, asked: ClaimRequest, now: float) -> None:
        self._moves = moves
        self._asked = asked
        self._claim = asked.claim
        self._now = now
        self._met: dict[str, str] = {}
        """Of each line the open row that was met first: it is the first to be offered if nobody stands there."""

    def among(self, rows: Mapping[str, Mapping[str, Any]]) -> Program[list[SpentRow]]:
        """Those of these rows, by the texts of their keys, with the columns that the claim names."""
        claim, spec = self._claim, self._claim.lifecycle
        lines = {}
        spent = []
        for member, row in rows.items():
            if row.get(spec.column) not in claim.open:
                continue
            if claim.serial:
                lines[member] = line_key(claim, row.get(claim.serial), member)
                self._met.setdefault(lines[member], member)
            ends = _ends(claim, row)
            if _attempts(claim, row) >= (claim.cap or 0) and (ends is None or ends <= self._now):
                spent.append(member)
        spent = yield from self._proposed(spent)
        spent = yield from self._meeting_the_guards(spent)
        found = []
        for member in spent:
            if member not in lines or (yield from self._is_first(lines[member], member)):
                found.append(self._told(member, rows[member]))
        return found

    def _proposed(self, members: Sequence[str]) -> Program[list[str]]:
        if not members:
            return []
        (scores,) = yield Statement("sweep.indexed", "ZMSCORE", (index_key(self._claim), *members))
        return [
            member
            for member, score in zip(members, scores, strict=True)
            if score is None or float(score) <= self._now
        ]

    def _meeting_the_guards(self, members: list[str]) -> Program[list[str]]:
        claim, where = self._claim, self._asked.where
        if not members or not where:
            return members
        leases = self._moves.leases(claim, where)
        text = script((GUARDS, UNMET), {"leases": len(leases)}, ["guards"])
        rows = [self._moves.row_of_text(claim.lifecycle, member) for member in members]
        unmet = yield Statement(
            "sweep.unmet", text, [json.dumps(comparisons(claim, where))], [*rows, *leases]
        )
        return [member for member, bits in zip(members, unmet, strict=True) if not bits]

    def _is_first(self, line: str, member: str) -> Program[bool]:
        """Whether nobody stands before it; rows that are gone, or have ended, hold nobody up."""
        spec = self._claim.lifecycle
        for place in itertools.count():
            (standing,) = yield Statement("sweep.line", "ZRANGE", (line, place, place))
            if not standing:
                return self._met[line] == member
            other = text_of(standing[0])
            if other == member:
                return True
            row = self._moves.row_of_text(spec, other)
            (status,) = yield Statement("sweep.first", "HGET", (row, spec.column))
            if text_of(status) in self._claim.open:
                return False
        raise AssertionError("a line has an end")

    def _told(self, member: str, row: Mapping[str, Any]) -> SpentRow:
        claim, ends = self._claim, _ends(self._claim, row)
        since = ends if ends is not None else row.get(claim.after or "")
        key = key_of_member(claim.lifecycle, member, self._asked.tenant)
        status = row[claim.lifecycle.column]
        return SpentRow(key, status, int(_attempts(claim, row)), moment(since) if since else None)


def _attempts(claim: Claimable[Any], row: Mapping[str, Any]) -> float:
    """How many there were; a text that is no number counts for nothing, as in the scripts."""
    try:
        found = float(row.get(claim.attempts or "") or 0)
    except ValueError:
        return 0
    return found if math.isfinite(found) else 0


def _ends(claim: Claimable[Any], row: Mapping[str, Any]) -> float | None:
    """When the lease of a hash is over; None if nobody holds it."""
    form = claim.form
    if isinstance(form, Columns):
        found, lease = row.get(form.until), 0.0
    else:
        found, lease = row.get(form.column), claim.lease
    if isinstance(form, Marker):
        marked = _MARKER.fullmatch(found or "")
        found = marked and marked[1]
    try:
        return float(found) + lease if found else None
    except ValueError:
        return None


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
