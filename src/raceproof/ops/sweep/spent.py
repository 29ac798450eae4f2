"""Rows that are out of attempts, and how to find them on Redis, which has no query for it."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from raceproof.claims.redis_index import index_key, line_key
from raceproof.claims.request import ClaimRequest
from raceproof.declare.claim_forms import ClaimColumns, TextMarker
from raceproof.declare.spec import Claimable
from raceproof.kernel.lua import script
from raceproof.kernel.moment import moment
from raceproof.kernel.redis import RedisDialect, guards_text, key_of_member, text_of
from raceproof.kernel.statement import Program, Statement

FILES = (("raceproof.kernel", "guards.lua"), ("raceproof.ops.sweep", "unmet.lua"))
_MARKER = re.compile(r"PROCESSING:[^:]+:[^:]+:([0-9]{1,12}(?:\.[0-9]{1,9})?)")


@dataclass(frozen=True, slots=True)
class SpentRow:
    """An unheld row that is out of attempts."""

    key: Any
    status: str
    attempts: int
    since: datetime | None


class SpentSearch:
    """The rows of Redis that are out of attempts: those that a sweep would dead-letter, as `claims/redis.lua` decides.

    They are unheld and meet the guards; the index proposes them now, or would once they are offered: so they do not back
    off, and are the first of their ordering key.
    """

    def __init__(self, redis: RedisDialect, asked: ClaimRequest, now: float) -> None:
        self._redis = redis
        self._asked = asked
        self._claim = asked.claim
        self._now = now
        self._met: dict[str, str] = {}
        """For each ordering key the first open row that was read: it is offered first if the index has none."""

    def among(self, rows: Mapping[str, Mapping[str, Any]]) -> Program[list[SpentRow]]:
        """Those of these rows, by the texts of their keys, with the columns that the claim names."""
        claim, spec = self._claim, self._claim.lifecycle
        lines = {}
        spent = []
        for member, row in rows.items():
            if row.get(spec.column) not in claim.open:
                continue
            if claim.ordering_key:
                lines[member] = line_key(claim, row.get(claim.ordering_key), member)
                self._met.setdefault(lines[member], member)
            ends = _ends(claim, row)
            if _attempts(claim, row) >= (claim.max_attempts or 0) and (ends is None or ends <= self._now):
                spent.append(member)
        spent = yield from self._proposed(spent)
        spent = yield from self._meeting_the_guards(spent)
        found = []
        for member in spent:
            if member not in lines or (yield from self._is_first(lines[member], member)):
                found.append(self._row(member, rows[member]))
        return found

    def _proposed(self, members: Sequence[str]) -> Program[list[str]]:
        if not members:
            return []
        (scores,) = yield Statement("sweep.indexed", "ZMSCORE", (index_key(self._claim), *members))
        return [
            member for member, score in zip(members, scores, strict=True) if score is None or float(score) <= self._now
        ]

    def _meeting_the_guards(self, members: list[str]) -> Program[list[str]]:
        claim, where = self._claim, self._asked.where
        if not members or not where:
            return members
        leases = self._redis.lease_keys(claim, where)
        text = script(FILES, "unmet", {"leases": len(leases)})
        rows = [self._redis.row_of_text(claim.lifecycle, member) for member in members]
        unmet = yield Statement("sweep.unmet", text, [guards_text(claim, where)], [*rows, *leases])
        return [member for member, bits in zip(members, unmet, strict=True) if not bits]

    def _is_first(self, line: str, member: str) -> Program[bool]:
        """Whether no open row of the same ordering key comes before it."""
        spec = self._claim.lifecycle
        for place in itertools.count():
            (standing,) = yield Statement("sweep.line", "ZRANGE", (line, place, place))
            if not standing:
                return self._met[line] == member
            other = text_of(standing[0])
            if other == member:
                return True
            row = self._redis.row_of_text(spec, other)
            (status,) = yield Statement("sweep.first", "HGET", (row, spec.column))
            if text_of(status) in self._claim.open:
                return False
        raise AssertionError("a sorted set is finite")

    def _row(self, member: str, row: Mapping[str, Any]) -> SpentRow:
        claim, ends = self._claim, _ends(self._claim, row)
        since = ends if ends is not None else row.get(claim.not_before or "")
        key = key_of_member(claim.lifecycle, member, self._asked.tenant)
        status = row[claim.lifecycle.column]
        return SpentRow(key, status, int(_attempts(claim, row)), moment(since) if since else None)


def _attempts(claim: Claimable[Any], row: Mapping[str, Any]) -> float:
    """The number of attempts; a text that is not a number counts as 0, as in the scripts."""
    try:
        found = float(row.get(claim.attempts or "") or 0)
    except ValueError:
        return 0
    return found if math.isfinite(found) else 0


def _ends(claim: Claimable[Any], row: Mapping[str, Any]) -> float | None:
    """When the lease of a hash expires; None if it is not held."""
    form = claim.form
    if isinstance(form, ClaimColumns):
        found, lease = row.get(form.until), 0.0
    else:
        found, lease = row.get(form.column), claim.lease
    if isinstance(form, TextMarker):
        marked = _MARKER.fullmatch(found or "")
        found = marked and marked[1]
    try:
        return float(found) + lease if found else None
    except ValueError:
        return None
