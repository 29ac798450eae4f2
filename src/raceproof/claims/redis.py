"""Claims on Redis and Valkey: a declared claim has one script, and each call runs it once; see `redis.lua` beside this file.

Redis cannot search hashes, so rows that wait stand in an index: a sorted set at `<table>/<claim>`. `offer` puts them there;
a claim keeps it up to date from then on, and so does the move that ends it. With `serial`, the rows of one value stand in
a line of their own at `<table>/<claim>/line:<value>`, and only the first is in the index. On a cluster a row can be
claimed by its key alone.

A row that cannot be decided, because a number in it is none or its history no stream, is left as it was: who names it gets
`ScriptFailed`, and a search passes it over for the time of a lease and says so in the log.
"""

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from raceproof.claims import answer
from raceproof.claims.redis_script import ROWS_IN_ONE_SCRIPT, script_of_claim
from raceproof.claims.request import ClaimRequest
from raceproof.errors import CallError, ScriptFailed, StoreUnavailable
from raceproof.forms import Columns
from raceproof.moves.redis import RedisMoves
from raceproof.moves.redis_script import comparisons
from raceproof.moves.redis_texts import (
    fence_of_text,
    key_of_member,
    status_of_reply,
    takes_no_writes,
    text_of,
)
from raceproof.moves.request import KeyParts, key_parts, key_text
from raceproof.outcome import Claim, Conflict, GivenBack, Missing, Renewal, SetAside, Taken, Unknown
from raceproof.shown import shown_key
from raceproof.spec import Claimable
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, log

_PAGES = 20
_NAMES = {
    action: f"claim.{action}"
    for action in ("acquire", "set_aside", "one", "renew", "give_back", "offer", "listed")
}


class RedisClaims:
    """The programs of claims, with the scripts that they have rendered so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._scripts: dict[tuple[Any, ...], str] = {}

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]:
        """Up to so many rows, in the order in which they became ready, each for this caller alone."""
        claim = request.claim
        self._needs_an_index(claim)
        claims: list[Claim[Any, Any]] = []
        offset = 0
        page = 0
        while (left := min(request.limit - len(claims), ROWS_IN_ONE_SCRIPT)) > 0:
            # some may not be claimable; where many are not, the pages grow
            page = max(left + min(left, 16), min(page * 4, ROWS_IN_ONE_SCRIPT))
            started = time.monotonic()
            told: Any = yield self._search("acquire", request, left, page, offset)
            proposed, stay, *found = told
            kept = stay if type(stay) is int else _passed_over(claim, stay)
            if found:
                claims += self._claimed(request, found, started)
            if proposed < page:
                break
            offset += kept
        return claims

    def one(
        self, request: ClaimRequest, key: Any
    ) -> Program[Claim[Any, Any] | Taken[Any] | Missing[Any] | Unknown[Any] | Conflict[Any]]:
        """One row by its key."""
        claim = request.claim
        self._needs_no_line(claim)
        parts = key_parts(claim.lifecycle, key, request.tenant)
        started = time.monotonic()
        try:
            (row,) = yield self._script("one", request, [key_text(parts)], {"by": request.by, "reason": ""})
        except AcknowledgementLost as error:
            return Unknown(key, claim, None, error.__cause__ or error)
        match text_of(row[0]):
            case "claimed":
                return self._claimed(request, [key, *row[1:]], started, named=True)[0]
            case "taken":
                return answer.taken(claim, key, text_of(row[1]), row[2], text_of(row[3]), request.where)
            case "error":
                raise _failed(claim, key, row[1])
        return Missing(key, claim)

    def set_aside(self, request: ClaimRequest) -> Program[list[SetAside[Any]]]:
        """Move rows out of the way that have had all their attempts."""
        claim = request.claim
        if claim.exhausted is None or claim.cap is None:
            return []
        self._needs_an_index(claim)
        aside: list[SetAside[Any]] = []
        offset = pages = 0
        while pages < _PAGES and (left := request.limit - len(aside)) > 0:
            told: Any = yield self._search("set_aside", request, left, ROWS_IN_ONE_SCRIPT, offset)
            proposed, stay, *found = told
            kept = stay if type(stay) is int else _passed_over(claim, stay)
            for member, attempts in zip(found[::2], found[1::2], strict=True):
                key = key_of_member(claim.lifecycle, text_of(member), request.tenant)
                aside.append(answer.set_aside(claim, key, attempts))
            offset += kept
            # the rows of other tenants are many, and passed over quickly
            pages += claim.lifecycle.tenant is None
            if proposed < ROWS_IN_ONE_SCRIPT:
                break
        return aside

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
        for start in range(0, len(members), ROWS_IN_ONE_SCRIPT):
            some = members[start : start + ROWS_IN_ONE_SCRIPT]
            yield self._script("offer", _plain(claim, 0.0, None, ""), some, {})

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns; a look, not a decision."""
        claim = request.claim
        spec = claim.lifecycle
        listed: list[list[Any]] = []
        offset = 0
        while True:
            told: Any = yield self._statement("listed", request, {"offset": offset}, (claim.topic,))
            proposed, *found, now = told
            for place in range(0, len(found), 6):
                member, score, status, holder, fence, attempts = map(text_of, found[place : place + 6])
                key = key_of_member(spec, member, request.tenant)
                if key is None:
                    continue
                parts = key if isinstance(key, tuple) else (key,)
                ends = datetime.fromtimestamp(float(score)).astimezone()
                stale = float(score) <= float(now)
                own = (request.tenant, *parts) if spec.tenant else parts
                listed.append([ends, stale, status, holder, fence, attempts, *own])
            offset += proposed
            if proposed < ROWS_IN_ONE_SCRIPT or len(listed) >= request.limit:
                return listed[: request.limit]

    # Scripts

    def _change(
        self, action: str, claims: Sequence[Claim[Any, Any]], delays: Sequence[str], lease: float,
        now: datetime | None, token: str, reason: str | None,
    ) -> Program[list[Any]]:  # fmt: skip
        found: list[Any] = []
        failed: list[ScriptFailed] = []
        size = 1 if self._moves.cluster else ROWS_IN_ONE_SCRIPT
        for start in range(0, len(claims), size):
            some = claims[start : start + size]
            claim = some[0].move
            spec = claim.lifecycle
            members = [key_text(key_parts(spec, one.key, one.tenant)) for one in some]
            values = []
            for one, delay in zip(some, delays[start : start + size], strict=True):
                values += [str(one.fence), delay, one.by]
            request = _plain(claim, lease, now, token)
            try:
                rows = yield self._script(action, request, members, {"reason": reason or ""}, values)
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
                    case "error":
                        failed.append(_failed(claim, one.key, row[1]))
                    case _:
                        found.append(tuple(row))
        if failed:
            raise failed[0]
        return found

    def _search(self, action: str, request: ClaimRequest, limit: int, page: int, offset: int) -> Statement:
        """Look at so many rows that the index proposes, from this place on; a tenant sees its own alone."""
        claim = request.claim
        given = {"by": request.by, "limit": limit, "page": page, "offset": offset}
        if claim.lifecycle.tenant:
            given["begin"] = key_text((request.tenant, ""))
        return self._statement(action, request, given, (claim.topic,))

    def _script(
        self,
        action: str,
        request: ClaimRequest,
        members: Sequence[str],
        given: dict[str, Any],
        values: Sequence[str] = (),
    ) -> Statement:
        """Decide these rows."""
        claim, moves = request.claim, self._moves
        spec = claim.lifecycle
        keys = [moves.row_of_text(spec, member) for member in members]
        if spec.history:
            keys += [moves.history_of_text(spec, member) for member in members]
        if not moves.cluster:
            keys.append(claim.topic)
        return self._statement(action, request, given, keys, values)

    def _statement(
        self,
        action: str,
        request: ClaimRequest,
        given: dict[str, Any],
        keys: Sequence[str],
        values: Sequence[str] = (),
    ) -> Statement:
        claim, where = request.claim, request.where
        if request.now is not None:
            given["given_now"] = f"{request.now.timestamp():.6f}"
        if request.lease != claim.lease:
            given["lease"] = f"{request.lease:.6f}"
        if request.token:
            given["token"] = request.token
        leases: Sequence[str] = ()
        if where:
            given["given_guards"] = json.dumps(comparisons(claim, where))
            leases = self._moves.leases(claim, where)
        kind = (claim, action, tuple(given), request.returning, len(leases))
        made = self._scripts.get(kind)
        if made is None:
            made = self._scripts[kind] = script_of_claim(*kind, self._moves.cluster)
        return Statement(_NAMES[action], made, [*given.values(), *values], [*keys, *leases])

    def _needs_no_line(self, claim: Claimable[Any]) -> None:
        if claim.serial is not None and self._moves.cluster:
            raise CallError(
                f"{claim}: a serial claim cannot live on a cluster, where lines and rows are apart"
            )

    def _needs_an_index(self, claim: Claimable[Any]) -> None:
        if self._moves.cluster:
            raise CallError(f"{claim}: a cluster cannot be searched for rows to claim; claim them by key")

    def _claimed(
        self, request: ClaimRequest, found: Sequence[Any], started: float, named: bool = False
    ) -> list[Claim[Any, Any]]:
        """What the script says of rows that were claimed, one after the other: key, fence, attempts, before, columns …"""
        claim, by, tenant, returning = request.claim, request.by, request.tenant, request.returning
        spec = claim.lifecycle
        number, plain = isinstance(claim.form, Columns), named or spec.plain_key
        deadline = started + request.lease
        claims: list[Claim[Any, Any]] = []
        values: list[Any] | None = None
        told = iter(found)
        for member in told:
            fence, attempts, status = next(told), next(told), next(told)
            if returning:
                values = [next(told) if name in claim.raw else text_of(next(told)) for name in returning]
            key = text_of(member) if plain else key_of_member(spec, text_of(member), tenant)
            before = status_of_reply(spec, status)
            token = int(fence) if number else text_of(fence)
            claims.append(Claim(key, claim, token, by, attempts, before, deadline, values, tenant))
        return claims

    def _fence(self, claim: Claimable[Any], fence: Any) -> Any:
        """A fence of the form that is declared; whatever else stands there is told as it is."""
        return fence_of_text(fence) if isinstance(claim.form, Columns) else text_of(fence)


def _passed_over(claim: Claimable[Any], told: Sequence[Any]) -> int:
    """Tell of rows that could not be decided; how many others stay where they are in the index."""
    kept, *rows = told
    for member, why in zip(rows[::2], rows[1::2], strict=True):
        log.warning("%s; it is passed over for now, repair the row", _failed(claim, text_of(member), why))
    return int(kept)


def _failed(claim: Claimable[Any], key: Any, why: Any) -> ScriptFailed:
    """An error of the row; one of the whole store is raised at once."""
    if hint := takes_no_writes(text_of(why)):
        raise StoreUnavailable(
            f"Redis takes no writes, so {claim} of {shown_key(key)} was not decided: {hint} ({text_of(why)})"
        )
    return ScriptFailed(f"Redis could not decide {claim} of {shown_key(key)}: {text_of(why)}")


def _plain(claim: Claimable[Any], lease: float, now: datetime | None, token: str) -> ClaimRequest:
    """A request without guards and columns, for rows that are named."""
    return ClaimRequest(claim, 1, "", lease, (), None, (), None, now, token, (claim, (), (), False))
