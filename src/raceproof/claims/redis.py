"""Claims on Redis and Valkey: one script for each decision; see `redis.lua` beside this file.

Redis cannot search hashes, so rows that wait stand in an index: a sorted set at `<table>/<claim>`. `offer` puts them there;
a claim keeps it up to date from then on. With `serial`, the rows of one value stand in a line of their own at
`<table>/<claim>/line:<value>`, and only the first is in the index. On a cluster a row can be claimed by its key alone.
"""

import json
import time
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Any

from raceproof.claims import answer
from raceproof.claims.request import ClaimRequest
from raceproof.errors import CallError
from raceproof.forms import Columns, Marker, form_to_data
from raceproof.moves.redis import RedisMoves, comparisons, key_of_member, leases_of, text_of
from raceproof.moves.request import KeyParts, key_parts, key_text
from raceproof.outcome import Claim, Conflict, GivenBack, Missing, Renewal, SetAside, Taken, Unknown
from raceproof.spec import Claimable, Move
from raceproof.statement import AcknowledgementLost, Program, Row, Rows, Statement, source

SCRIPT = source("raceproof.claims", "redis.lua")
_ROWS_IN_ONE_SCRIPT = 500
_PAGES = 20


class RedisClaims:
    """The programs of claims, with the descriptions that they have encoded so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._described: dict[Hashable, str] = {}

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]:
        """Up to so many rows, in the order in which they became ready, each for this caller alone."""
        claim = request.claim
        self._needs_an_index(claim)
        claims: list[Claim[Any, Any]] = []
        offset = 0
        while (left := min(request.limit - len(claims), _ROWS_IN_ONE_SCRIPT)) > 0:
            page = left + min(left, 16)
            members = yield from self._due(request, page, offset)
            if not members:
                break
            started = time.monotonic()
            told = yield self._script("acquire", request, [(member, "", "") for member in members], left)
            gone = []
            for member, row in zip(members, told, strict=False):
                match text_of(row[0]):
                    case "claimed":
                        claims.append(self._claimed(request, member, row, started))
                    case "gone":
                        gone.append(member)
                    case "kept":
                        offset += 1
            if gone and claim.serial:
                yield from self._advance(claim, gone)
            if len(members) < page:
                break
        return claims

    def _due(self, request: ClaimRequest, page: int, offset: int) -> Program[list[str]]:
        """What the index proposes; a tenant sees its own rows alone."""
        spec = request.claim.lifecycle
        while True:
            rows = yield self._statement("due", request, [], [self._index(request.claim)], page, str(offset))
            members = [text_of(member) for member in rows]
            mine = [
                m for m in members if not spec.tenant or key_of_member(spec, m, request.tenant) is not None
            ]
            if mine or len(members) < page:
                return mine
            offset += page

    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]:
        """One row by its key."""
        claim = request.claim
        parts = key_parts(claim.lifecycle, key, request.tenant)
        started = time.monotonic()
        try:
            lines = yield from self._lines(claim, [key_text(parts)])
            (row,) = yield self._script("one", request, [(key_text(parts), "", "")], 1, lines)
        except AcknowledgementLost as error:
            return Unknown(key, claim, None, error.__cause__ or error)
        match text_of(row[0]):
            case "claimed":
                return self._claimed(request, key_text(parts), row, started, key)
            case "taken":
                return answer.taken(claim, key, text_of(row[1]), row[2], text_of(row[3]), request.where)
        return Missing(key, claim)

    def set_aside(self, request: ClaimRequest) -> Program[list[SetAside[Any]]]:
        """Move rows out of the way that have had all their attempts."""
        claim = request.claim
        if claim.exhausted is None or claim.cap is None:
            return []
        self._needs_an_index(claim)
        aside: list[tuple[str, Any]] = []
        offset = 0
        for _ in range(_PAGES):
            members = yield from self._due(request, _ROWS_IN_ONE_SCRIPT, offset)
            if not members or len(aside) >= request.limit:
                break
            left = request.limit - len(aside)
            told = yield self._script("set_aside", request, [(m, "", "") for m in members], left)
            found = [
                (m, row[1]) for m, row in zip(members, told, strict=False) if text_of(row[0]) == "set aside"
            ]
            aside += found
            offset += len(told) - len(found)
            if found and claim.serial:
                yield from self._advance(claim, [member for member, _ in found])
        return [
            answer.set_aside(claim, key_of_member(claim.lifecycle, member, request.tenant), attempts)
            for member, attempts in aside
        ]

    def renew(
        self, claims: Sequence[Claim[Any, Any]], lease: float, now: datetime | None, token: str
    ) -> Program[list[Renewal[Any, Any]]]:
        """Begin the lease anew, for those that still hold their row."""
        deadline = time.monotonic() + lease
        found = yield from self._change("renew", claims, [""] * len(claims), lease, now, token, None)
        return [
            answer.renewed(one, self._fence(one.move, result[1]), deadline)
            if isinstance(result, tuple)
            else result
            for one, result in zip(claims, found, strict=True)
        ]

    def give_back(
        self,
        claims: Sequence[Claim[Any, Any]],
        delays: Sequence[float],
        refund: bool,
        reason: str | None,
        now: Any,
    ) -> Program[list[GivenBack[Any]]]:
        """End the claims of those that still hold their row; it rests for its delay, or its attempt is refunded."""
        told = ["" if refund else f"{delay:.6f}" for delay in delays]
        found = yield from self._change("give_back", claims, told, 0.0, now, "", reason)
        return [
            answer.released(one, delay) if isinstance(result, tuple) else result
            for one, delay, result in zip(claims, delays, found, strict=True)
        ]

    def add(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        """Make rows that wait, unless they are there, and offer them."""
        self._needs_an_index(claim)
        for parts in keys:
            row = self._moves.row_key(claim.lifecycle, parts)
            yield Statement("claim.add", "HSETNX", (row, claim.lifecycle.column, str(claim.at[0])))
            for name, part in zip(claim.lifecycle.key_columns, parts, strict=True):
                yield Statement("claim.add", "HSETNX", (row, name, str(part)))
        yield from self.offer(claim, keys)

    def offer(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        """Let rows be found by the next claim."""
        self._needs_an_index(claim)
        members = [key_text(parts) for parts in keys]
        for start in range(0, len(members), _ROWS_IN_ONE_SCRIPT):
            some = members[start : start + _ROWS_IN_ONE_SCRIPT]
            lines = yield from self._lines(claim, some)
            yield self._plain("offer", claim, some, lines)

    def finished(self, claims: Sequence[Claim[Any, Any]]) -> Program[None]:
        """After moves have ended claims: take their rows out of the index, so that nobody looks at them again.

        If this is cut off, the row is found to be gone when its lease would be over.
        """
        if not claims or self._moves.cluster:
            return
        claim = claims[0].move
        try:
            yield from self._advance(
                claim, [key_text(key_parts(claim.lifecycle, one.key, one.tenant)) for one in claims]
            )
        except AcknowledgementLost:
            pass

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns; a look, not a decision."""
        claim = request.claim
        spec = claim.lifecycle
        (clock,) = yield Statement("time", "TIME")
        now = request.now.timestamp() if request.now else float(clock[0]) + float(clock[1]) / 1e6
        (members,) = yield Statement(
            "list", "ZRANGE", (self._index(claim), 0, request.limit - 1, "WITHSCORES")
        )
        flat = (
            [part for pair in members for part in pair]
            if members and isinstance(members[0], list | tuple)
            else members
        )
        found = []
        for member, score in zip(map(text_of, flat[::2]), flat[1::2], strict=True):
            key = key_of_member(spec, member, request.tenant)
            if key is None:
                continue
            fields = yield from self._moves.read(spec, key_parts(spec, key, request.tenant))
            if fields and _is_held(claim, fields):
                who = fields.get(claim.form.holder) if isinstance(claim.form, Columns) else None
                ends = datetime.fromtimestamp(float(score)).astimezone()
                attempts = fields.get(claim.attempts) if claim.attempts else None
                parts = key if isinstance(key, tuple) else (key,)
                fence = fields.get(claim.form.fence_column)
                if spec.tenant:
                    parts = (request.tenant, *parts)
                found.append(
                    [ends, float(score) <= now, fields.get(spec.column), who, fence, attempts, *parts]
                )
        return found

    # Scripts

    def _change(
        self, action: str, claims: Sequence[Claim[Any, Any]], delays: Sequence[str], lease: float,
        now: datetime | None, token: str, reason: str | None,
    ) -> Program[list[Any]]:  # fmt: skip
        found: list[Any] = []
        size = 1 if self._moves.cluster else _ROWS_IN_ONE_SCRIPT
        for start in range(0, len(claims), size):
            some = claims[start : start + size]
            claim = some[0].move
            spec = claim.lifecycle
            given = [
                (key_text(key_parts(spec, one.key, one.tenant)), str(one.fence), delay)
                for one, delay in zip(some, delays[start : start + size], strict=True)
            ]
            request = ClaimRequest(
                claim, len(some), some[0].by, lease, (), None, (), None, now, token, (claim, (), (), False)
            )
            try:
                rows = yield self._script(action, request, given, len(some), (), reason or "")
            except AcknowledgementLost as error:
                found += [answer.unknown(one, error.__cause__ or error) for one in some]
                continue
            for one, row in zip(some, rows, strict=True):
                match text_of(row[0]):
                    case "missing":
                        found.append(answer.missing(one))
                    case "lost":
                        fence = self._fence(claim, row[2])
                        found.append(answer.lost(one, text_of(row[1]), fence, text_of(row[3])))
                    case _:
                        found.append(tuple(row))
        return found

    def _advance(self, claim: Claimable[Any], members: Sequence[str]) -> Program[None]:
        for start in range(0, len(members), _ROWS_IN_ONE_SCRIPT):
            some = members[start : start + _ROWS_IN_ONE_SCRIPT]
            lines = yield from self._lines(claim, some)
            yield self._plain("advance", claim, some, lines)

    def _lines(self, claim: Claimable[Any], members: Sequence[str]) -> Program[list[str]]:
        """The keys of the lines in which these rows stand; none if the claim is not serial."""
        if claim.serial is None:
            return []
        if self._moves.cluster:
            raise CallError(
                f"{claim}: a serial claim cannot live on a cluster, where lines and rows are apart"
            )
        rows = yield self._plain("serial", claim, members, ())
        return [line_key(claim, text_of(row[0]), member) for row, member in zip(rows, members, strict=True)]

    def _plain(
        self, action: str, claim: Claimable[Any], members: Sequence[str], lines: Sequence[str]
    ) -> Statement:
        request = ClaimRequest(
            claim, len(members), "", 0.0, (), None, (), None, None, "", (claim, (), (), False)
        )
        return self._script(action, request, [(member, "", "") for member in members], len(members), lines)

    def _script(
        self,
        action: str,
        request: ClaimRequest,
        given: Sequence[tuple[str, str, str]],
        limit: int,
        lines: Sequence[str] = (),
        reason: str = "",
    ) -> Statement:
        spec = request.claim.lifecycle
        keys = [self._index(request.claim, given)]
        keys += [self._moves.row_of_text(spec, member) for member, _, _ in given]
        if spec.history:
            keys += [self._moves.history_of_text(spec, member) for member, _, _ in given]
        values = [value for row in given for value in row]
        leases = leases_of(request.where)
        return self._statement(action, request, values, [*keys, *lines, *leases], limit, reason=reason)

    def _statement(
        self, action: str, request: ClaimRequest, values: Sequence[str], keys: Sequence[str], limit: int,
        offset: str = "", reason: str = "",
    ) -> Statement:  # fmt: skip
        now = "" if request.now is None else f"{request.now.timestamp():.6f}"
        guards = json.dumps(comparisons(request.claim, request.where))
        described = self._described.get(request.shape)
        if described is None:
            described = self._described[request.shape] = _description(request, not self._moves.cluster)
        fixed = [
            action,
            described,
            now,
            f"{request.lease:.6f}",
            request.by,
            request.token,
            str(limit),
            guards,
            reason,
        ]
        return Statement(f"claim.{action}", SCRIPT, [*fixed, *values, *([offset] if offset else [])], keys)

    def _index(self, claim: Claimable[Any], given: Sequence[tuple[str, str, str]] = ()) -> str:
        """Where the rows of a claim wait. On a cluster there is no index; a row keeps a small one of its own."""
        if self._moves.cluster and given:
            return f"{index_key(claim)}:{{{given[0][0]}}}"
        return index_key(claim)

    def _needs_an_index(self, claim: Claimable[Any]) -> None:
        if self._moves.cluster:
            raise CallError(f"{claim}: a cluster cannot be searched for rows to claim; claim them by key")

    def _claimed(
        self, request: ClaimRequest, member: str, row: Row, started: float, key: Any = None
    ) -> Claim[Any, Any]:
        claim = request.claim
        _, fence, attempts, before, *returned = row
        key = key if key is not None else key_of_member(claim.lifecycle, member, request.tenant)
        values = None
        if request.returning:
            named = zip(request.returning, returned, strict=True)
            values = [value if name in claim.raw else text_of(value) for name, value in named]
        deadline = started + request.lease
        made = self._fence(claim, fence)
        return answer.claimed(
            claim, key, made, request.by, int(attempts), text_of(before), deadline, values, request.tenant
        )

    def _fence(self, claim: Claimable[Any], fence: Any) -> Any:
        if fence is None:
            return None
        return int(fence) if isinstance(claim.form, Columns) else text_of(fence)


def index_key(claim: Claimable[Any]) -> str:
    """The sorted set in which the rows of a claim wait."""
    return f"{claim.lifecycle.table}/{claim.name}"


def line_key(claim: Claimable[Any], value: str | None, member: str) -> str:
    """The line of rows with this value; a row without one has a line of its own."""
    return f"{index_key(claim)}/alone:{member}" if value is None else f"{index_key(claim)}/line:{value}"


def _is_held(claim: Claimable[Any], fields: dict[str, Any]) -> bool:
    found = fields.get(claim.form.cleared[-1])
    return found is not None and (not isinstance(claim.form, Marker) or str(found).startswith("PROCESSING:"))


def _description(request: ClaimRequest, indexed: bool) -> str:
    """The claim as the script knows it."""
    claim = request.claim
    spec = claim.lifecycle
    data = {
        "lifecycle": spec.name,
        "name": claim.name,
        "column": spec.column,
        "revision": spec.revision or False,
        "history": spec.history is not None,
        "form": form_to_data(claim.form),
        "fence": claim.form.fence_column,
        "cleared": list(claim.form.cleared),
        "open": [str(status) for status in claim.open],
        "held": [str(status) for status in claim.held],
        "move": _move(claim.move),
        "back": _move(claim.back),
        "exhausted": _move(claim.exhausted),
        "attempts": claim.attempts or False,
        "cap": claim.cap or False,
        "after": claim.after or False,
        "serial": claim.serial or False,
        "returning": list(request.returning),
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else False,
        "indexed": indexed,
    }
    return json.dumps(data)


def _move(move: Move[Any] | None) -> Any:
    if move is None:
        return False
    return {"name": move.name, "target": str(move.target), "stamp": list(move.stamp)}
