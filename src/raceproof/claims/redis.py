"""Claims on Redis and Valkey: a declared claim has one script, and each call runs it once; see `redis.lua` beside this file.

Redis cannot search hashes, so rows that wait stand in an index: a sorted set at `<table>/<claim>`. `offer` puts them there;
a claim keeps it up to date from then on, and so does the move that ends it. With `serial`, the rows of one value stand in
a line of their own at `<table>/<claim>/line:<value>`, and only the first is in the index. On a cluster a row can be
claimed by its key alone.
"""

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from raceproof.claims import answer
from raceproof.claims.request import ClaimRequest
from raceproof.errors import CallError
from raceproof.forms import Columns, Marker
from raceproof.lua import script
from raceproof.moves.redis import GUARDS, RedisMoves, comparisons, key_of_member, text_of
from raceproof.moves.redis_index import LEAVE, index_key, places
from raceproof.moves.request import KeyParts, key_parts, key_text
from raceproof.outcome import Claim, Conflict, GivenBack, Missing, Renewal, SetAside, Taken, Unknown
from raceproof.spec import Claimable, Move
from raceproof.statement import AcknowledgementLost, Program, Rows, Statement, source

SCRIPT = source("raceproof.claims", "redis.lua")
_ROWS_IN_ONE_SCRIPT = 500
_PAGES = 20
_NAMES = {
    action: f"claim.{action}" for action in ("acquire", "set_aside", "one", "renew", "give_back", "offer")
}


class RedisClaims:
    """The programs of claims, with the scripts that they have rendered so far."""

    def __init__(self, moves: RedisMoves) -> None:
        self._moves = moves
        self._scripts: dict[tuple[Claimable[Any], str, bool], str] = {}

    def acquire(self, request: ClaimRequest) -> Program[list[Claim[Any, Any]]]:
        """Up to so many rows, in the order in which they became ready, each for this caller alone."""
        self._needs_an_index(request.claim)
        claims: list[Claim[Any, Any]] = []
        offset = 0
        while (left := min(request.limit - len(claims), _ROWS_IN_ONE_SCRIPT)) > 0:
            page = left + min(left, 16)
            started = time.monotonic()
            found: Any = yield self._search("acquire", request, left, page, offset)
            proposed, mine, kept, *rows = found
            claims += self._claimed(request, rows, started)
            offset += kept
            # a page of others is passed over; one that is mine in part is as much as a call looks for
            if proposed < page or 0 < mine < page:
                break
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
            (row,) = yield self._script("one", request, [key_text(parts)])
        except AcknowledgementLost as error:
            return Unknown(key, claim, None, error.__cause__ or error)
        match text_of(row[0]):
            case "claimed":
                return self._claimed(request, [row], started, key)[0]
            case "taken":
                return answer.taken(claim, key, text_of(row[1]), row[2], text_of(row[3]), request.where)
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
            found: Any = yield self._search("set_aside", request, left, _ROWS_IN_ONE_SCRIPT, offset)
            proposed, mine, kept, *rows = found
            for member, attempts in rows:
                key = key_of_member(claim.lifecycle, text_of(member), request.tenant)
                aside.append(answer.set_aside(claim, key, attempts))
            offset += kept
            pages += mine > 0
            if proposed < _ROWS_IN_ONE_SCRIPT:
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
        for start in range(0, len(members), _ROWS_IN_ONE_SCRIPT):
            some = members[start : start + _ROWS_IN_ONE_SCRIPT]
            request = _plain(claim, "", 0.0, None, "")
            yield self._script("offer", request, some)

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        """Who holds what: until, stale, status, holder, fence, attempts and the key's columns; a look, not a decision."""
        claim = request.claim
        spec = claim.lifecycle
        (clock,) = yield Statement("time", "TIME")
        now = request.now.timestamp() if request.now else float(clock[0]) + float(clock[1]) / 1e6
        (members,) = yield Statement("list", "ZRANGE", (index_key(claim), 0, request.limit - 1, "WITHSCORES"))
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
            members = [key_text(key_parts(spec, one.key, one.tenant)) for one in some]
            values = []
            for one, delay in zip(some, delays[start : start + size], strict=True):
                values += [str(one.fence), delay]
            request = _plain(claim, some[0].by, lease, now, token)
            try:
                rows = yield self._script(action, request, members, values, reason or "")
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

    def _search(self, action: str, request: ClaimRequest, limit: int, page: int, offset: int) -> Statement:
        """Look at so many rows that the index proposes; a tenant sees its own alone."""
        claim = request.claim
        values = [str(limit), str(page), str(offset)]
        if claim.lifecycle.tenant:
            values.append(key_text((request.tenant, "")))
        return self._statement(action, request, values, [index_key(claim)])

    def _script(
        self,
        action: str,
        request: ClaimRequest,
        members: Sequence[str],
        values: Sequence[str] = (),
        reason: str = "",
    ) -> Statement:
        """Decide these rows."""
        claim, moves = request.claim, self._moves
        spec = claim.lifecycle
        keys = [moves.row_of_text(spec, member) for member in members]
        if spec.history:
            keys += [moves.history_of_text(spec, member) for member in members]
        if not moves.cluster:
            keys.append(index_key(claim))
        return self._statement(action, request, values, keys, reason)

    def _statement(
        self, action: str, request: ClaimRequest, values: Sequence[str], keys: Sequence[str],
        reason: str = "",
    ) -> Statement:  # fmt: skip
        claim, where = request.claim, request.where
        kind = (claim, action, bool(where))
        made = self._scripts.get(kind)
        if made is None:
            made = self._scripts[kind] = script_of_claim(*kind, self._moves.cluster)
        arguments = [
            "" if request.now is None else f"{request.now.timestamp():.6f}",
            f"{request.lease:.6f}",
            request.by,
            reason or request.token,
            json.dumps(comparisons(claim, where)) if where else "",
            json.dumps(request.returning) if request.returning else "",
            *values,
        ]
        if where:
            keys = [*keys, *self._moves.leases(claim, where)]
        return Statement(_NAMES[action], made, arguments, keys)

    def _needs_no_line(self, claim: Claimable[Any]) -> None:
        if claim.serial is not None and self._moves.cluster:
            raise CallError(
                f"{claim}: a serial claim cannot live on a cluster, where lines and rows are apart"
            )

    def _needs_an_index(self, claim: Claimable[Any]) -> None:
        if self._moves.cluster:
            raise CallError(f"{claim}: a cluster cannot be searched for rows to claim; claim them by key")

    def _claimed(
        self, request: ClaimRequest, rows: Rows, started: float, key: Any = None
    ) -> list[Claim[Any, Any]]:
        """What the script says of rows that were claimed: key, fence, attempts, before, columns …"""
        claim, by, tenant, returning = request.claim, request.by, request.tenant, request.returning
        spec = claim.lifecycle
        known, number = spec.status_of, isinstance(claim.form, Columns)
        deadline = started + request.lease
        found: list[Claim[Any, Any]] = []
        for member, fence, attempts, status, *returned in rows:
            values: list[Any] | None = None
            if returning:
                named = zip(returning, returned, strict=True)
                values = [value if name in claim.raw else text_of(value) for name, value in named]
            before = text_of(status)
            found.append(
                Claim(
                    key_of_member(spec, text_of(member), tenant) if key is None else key,
                    claim,
                    int(fence) if number else text_of(fence),
                    by,
                    int(attempts),
                    known.get(before, before),
                    deadline,
                    values,
                    tenant,
                )
            )
        return found

    def _fence(self, claim: Claimable[Any], fence: Any) -> Any:
        if fence is None:
            return None
        return int(fence) if isinstance(claim.form, Columns) else text_of(fence)


def _is_held(claim: Claimable[Any], fields: dict[str, Any]) -> bool:
    found = fields.get(claim.form.cleared[-1])
    return found is not None and (not isinstance(claim.form, Marker) or str(found).startswith("PROCESSING:"))


def _plain(claim: Claimable[Any], by: str, lease: float, now: datetime | None, token: str) -> ClaimRequest:
    """A request without guards and columns, for rows that are named."""
    return ClaimRequest(claim, 1, by, lease, (), None, (), None, now, token, (claim, (), (), False))


def script_of_claim(claim: Claimable[Any], action: str, guarded: bool = False, cluster: bool = False) -> str:
    """`redis.lua` for one thing to do with a declared claim, with or without guards."""
    spec, form = claim.lifecycle, claim.form
    constants = {
        "lifecycle": spec.name,
        "name": claim.name,
        "column": spec.column,
        "open": dict.fromkeys(claim.open, True),
        "held": dict.fromkeys(claim.held, True),
        "history": spec.history is not None,
        "stream_prefix": f"{spec.table}/history:",
        "form": form.kind_of_form,
        "kind": form.kind if isinstance(form, Marker) else "",
        "until_column": form.until if isinstance(form, Columns) else form.column,
        "fence_column": form.fence_column,
        "holder_column": form.holder if isinstance(form, Columns) else "",
        "cleared": form.cleared,
        "revision_column": spec.revision or "",
        "attempts_column": claim.attempts or "",
        "after_column": claim.after or "",
        "cap": claim.cap,
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else None,
        **_move("start", claim.move),
        **_move("back", claim.back),
        **_move("exhausted", claim.exhausted),
        "more": bool(claim.after or claim.attempts or action not in ("acquire", "set_aside")),
        "indexed": not cluster,
        **places(claim),
    }
    wanted = {"guards": guarded, "history": spec.history, "serial": claim.serial}
    wanted |= {action: True, "leave": action in ("acquire", "set_aside")}
    files = (GUARDS, LEAVE, SCRIPT)
    return script(files, constants, [name for name, value in wanted.items() if value])


def _move(role: str, move: Move[Any] | None) -> dict[str, Any]:
    name, target, stamps = (move.name, move.target, move.stamp) if move else (None, None, None)
    return {f"{role}_name": name, f"{role}_target": target, f"{role}_stamps": stamps}
