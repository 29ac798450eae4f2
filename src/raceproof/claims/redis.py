"""Claims on Redis and Valkey: a declared claim has a script for each kind of call; see `redis.lua` beside this file.

Redis cannot search hashes, so rows that wait stand in an index: a sorted set at `<table>/<claim>`. `offer` puts them there;
a claim keeps it up to date from then on, and so does the move that ends it. With an ordering key, the rows of one value
stand in a line of their own at `<table>/<claim>/line:<value>`, and only the first is in the index. On a cluster a row can
be claimed by its key alone.

A row that cannot be decided, because a number in it is not a number or its history is not a stream, is left as it was: who
names it gets `ScriptFailed`; a search passes it over for the time of a lease and says so in the log.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.claims.program import ClaimPrograms, Found
from raceproof.claims.reading import RedisClaimReading
from raceproof.claims.redis_script import ROWS_IN_ONE_SCRIPT, script_of_claim
from raceproof.claims.request import ClaimRequest
from raceproof.declare.claim_forms import ClaimColumns
from raceproof.declare.spec import Claimable
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import KeyParts, key_parts, key_text
from raceproof.kernel.redis import (
    RedisDialect,
    Scripts,
    fence_of_text,
    guards_text,
    parts_of_text,
    row_failed,
    seconds_of,
    text_of,
)
from raceproof.kernel.statement import Program, Row, Rows, Statement, log

_PAGES = 20
_SCRIPTS = Scripts(script_of_claim)
_ACTIONS = ("acquire", "dead_letter", "one", "renew", "give_back", "offer", "listed")
_NAMES = {action: f"claim.{action}" for action in _ACTIONS}


class RedisClaims(RedisClaimReading, ClaimPrograms):
    """The programs of claims."""

    def __init__(self, dialect: RedisDialect) -> None:
        self._dialect = dialect

    def _acquired(self, request: ClaimRequest) -> Program[Rows]:
        """In the order in which they became ready."""
        self._needs_an_index(request.claim)
        rows: list[Row] = []
        offset = page = 0
        while (left := min(request.limit - len(rows), ROWS_IN_ONE_SCRIPT)) > 0:
            # some may not be claimable; where many are not, the pages grow
            page = max(left + min(left, 16), min(page * 4, ROWS_IN_ONE_SCRIPT))
            reply: Any = yield self._search("acquire", request, left, page, offset)
            proposed, stay, *found = reply
            rows += self._rows(request, found)
            offset += _staying(request.claim, stay)
            if proposed < page:
                break
        return rows

    def _rows(self, request: ClaimRequest, found: Sequence[Any]) -> Iterator[Row]:
        """What the script says of rows that were claimed, one after the other: key, fence, attempts, before, columns …"""
        claim, returning = request.claim, request.returning
        spec, number = claim.lifecycle, isinstance(claim.form, ClaimColumns)
        fields = iter(found)
        for member in fields:
            fence, attempts, before = next(fields), next(fields), next(fields)
            token = int(fence) if number else text_of(fence)
            if not returning and spec.plain_key:
                yield (token, attempts, text_of(before), text_of(member))
            else:
                columns = [next(fields) if name in claim.raw else text_of(next(fields)) for name in returning]
                yield (token, attempts, text_of(before), *parts_of_text(spec, text_of(member)), *columns)

    def _claimed(self, request: ClaimRequest, parts: KeyParts) -> Program[Row | None]:
        claim = request.claim
        if claim.ordering_key is not None and self._dialect.cluster:
            raise CallError(f"{claim}: an ordering key cannot work on a cluster, where lines and rows are apart")
        given = {"by": request.by, "reason": ""}
        ((word, *row),) = yield self._named("one", request, [key_text(parts)], given)
        match text_of(word):
            case "claimed":
                ((fence, attempts, before, *columns),) = self._rows(request, [key_text(parts), *row])
                return (before, 0, None, fence, attempts, *columns[len(parts) :])
            case "taken":
                return (text_of(row[0]), row[1], text_of(row[2]), None, None)
            case "error":
                raise row_failed(claim, key_text(parts), text_of(row[0]))
        return None

    def _dead_lettered(self, request: ClaimRequest) -> Program[Rows]:
        claim, spec = request.claim, request.claim.lifecycle
        self._needs_an_index(claim)
        rows: list[Row] = []
        offset = pages = 0
        while pages < _PAGES and (left := request.limit - len(rows)) > 0:
            reply: Any = yield self._search("dead_letter", request, left, ROWS_IN_ONE_SCRIPT, offset)
            proposed, stay, *found = reply
            for member, attempts in zip(found[::2], found[1::2], strict=True):
                rows.append((attempts, *parts_of_text(spec, text_of(member))))
            offset += _staying(claim, stay)
            # the rows of other tenants are many, and passed over quickly
            pages += spec.tenant is None
            if proposed < ROWS_IN_ONE_SCRIPT:
                break
        return rows

    def _together(self, number: int) -> Iterator[slice]:
        size = 1 if self._dialect.cluster else ROWS_IN_ONE_SCRIPT
        for start in range(0, number, size):
            yield slice(start, start + size)

    def _changed(
        self, how: str, claims: Sequence[Claim[Any, Any]], values: dict[str, Any], delays: Sequence[float]
    ) -> Program[Sequence[Found | None]]:
        claim = claims[0].declared
        members = [key_text(key_parts(claim.lifecycle, one.key, one.tenant)) for one in claims]
        of_rows: list[str] = []
        for one, delay in zip(claims, delays, strict=True):
            of_rows += [str(one.fence), f"{delay:.6f}" if how == "back off" else "", one.by]
        request = _plain(claim, values["lease"], values["now"], values["token"])
        action, given = "renew" if how == "renew" else "give_back", {"reason": values["reason"] or ""}
        rows = yield self._named(action, request, members, given, of_rows)
        return [_found(one, row) for one, row in zip(claims, rows, strict=True)]

    def add(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        """Create rows that wait, unless they are there, and offer them."""
        self._needs_an_index(claim)
        for parts in keys:
            row = self._dialect.row_key(claim.lifecycle, parts)
            fields = {claim.lifecycle.column: claim.at[0], **dict(zip(claim.lifecycle.key_columns, parts, strict=True))}
            for name, value in fields.items():
                yield Statement("claim.add", "HSETNX", (row, name, str(value)))
        yield from self.offer(claim, keys)

    def offer(self, claim: Claimable[Any], keys: Sequence[KeyParts]) -> Program[None]:
        """Let rows be found by the next claim."""
        self._needs_an_index(claim)
        members = [key_text(parts) for parts in keys]
        for start in range(0, len(members), ROWS_IN_ONE_SCRIPT):
            some = members[start : start + ROWS_IN_ONE_SCRIPT]
            yield self._named("offer", _plain(claim, 0.0, None, ""), some, {})

    def listing(self, request: ClaimRequest, offset: int) -> Statement:
        return self._statement("listed", request, {"offset": offset}, (request.claim.topic,))

    # Scripts

    def _search(self, action: str, request: ClaimRequest, limit: int, page: int, offset: int) -> Statement:
        """Look at `page` rows that the index proposes, from this place on; a tenant sees only its own."""
        claim = request.claim
        given = {"by": request.by, "limit": limit, "page": page, "offset": offset}
        if claim.lifecycle.tenant:
            given["begin"] = key_text((request.tenant, ""))
        return self._statement(action, request, given, (claim.topic,))

    def _named(
        self,
        action: str,
        request: ClaimRequest,
        members: Sequence[str],
        given: dict[str, Any],
        of_rows: Sequence[str] = (),
    ) -> Statement:
        """Decide these rows."""
        claim, dialect = request.claim, self._dialect
        spec = claim.lifecycle
        keys = [dialect.row_of_text(spec, member) for member in members]
        if spec.history:
            keys += [dialect.history_of_text(spec, member) for member in members]
        if not dialect.cluster:
            keys.append(claim.topic)
        return self._statement(action, request, given, keys, of_rows)

    def _statement(
        self,
        action: str,
        request: ClaimRequest,
        given: dict[str, Any],
        keys: Sequence[str],
        of_rows: Sequence[str] = (),
    ) -> Statement:
        claim, where = request.claim, request.where
        if request.now is not None:
            given["given_now"] = seconds_of(request.now)
        if request.lease != claim.lease:
            given["lease"] = f"{request.lease:.6f}"
        if request.token:
            given["token"] = request.token
        leases: Sequence[str] = ()
        if where:
            given["given_guards"] = guards_text(claim, where)
            leases = self._dialect.lease_keys(claim, where)
        made = _SCRIPTS.get(claim, action, tuple(given), request.returning, len(leases), self._dialect.cluster)
        return Statement(_NAMES[action], made, [*given.values(), *of_rows], [*keys, *leases])

    def _needs_an_index(self, claim: Claimable[Any]) -> None:
        if self._dialect.cluster:
            raise CallError(f"{claim}: a cluster cannot be searched for rows to claim; claim them by key")


def _found(one: Claim[Any, Any], row: Any) -> Found | None:
    """What a script says of a claim."""
    word, *fields = map(text_of, row)
    if word == "missing":
        return None
    if word == "error":
        raise row_failed(one.declared, one.key, fields[0])
    if word == "lost":
        return (False, _fence(one.declared, fields[1]), fields[0], fields[2])
    return (True, _fence(one.declared, fields[0]) if fields else None, "", None)


def _fence(claim: Claimable[Any], fence: Any) -> Any:
    """A fence of the form that is declared; whatever else stands there is returned as it is."""
    return fence_of_text(fence) if isinstance(claim.form, ClaimColumns) else fence


def _staying(claim: Claimable[Any], stay: Any) -> int:
    """How many rows stay where they are in the index; rows that could not be decided are reported."""
    if type(stay) is int:
        return stay
    kept, *rows = stay
    for member, why in zip(rows[::2], rows[1::2], strict=True):
        failed = row_failed(claim, text_of(member), text_of(why))
        log.warning("%s; it is passed over for now, repair the row", failed)
    return int(kept)


def _plain(claim: Claimable[Any], lease: float, now: Any, token: str) -> ClaimRequest:
    """A request without guards and columns, for rows that are named."""
    return ClaimRequest(claim, 1, "", lease, (), None, (), None, now, token, (claim, (), (), False))
