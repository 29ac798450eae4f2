"""Moves on Redis and Valkey: one script for one decision, or for many; see `redis.lua` beside this file.

Promise: each kind of call of a declared move has one script (`redis_script.py`), and every key that it touches is in KEYS,
except the index of a claim that ends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.declare.spec import Spec
from raceproof.kernel.errors import CallError, ScriptFailed, StoreUnavailable
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.redis import (
    RedisDialect,
    Scripts,
    fence_of_text,
    key_of_member,
    parts_of_text,
    row_failed,
    status_of_reply,
    text_of,
)
from raceproof.kernel.statement import AcknowledgementLost, Program, Row, Statement
from raceproof.moves.answers import Answer, Moved
from raceproof.moves.redis_script import given_to, script_of_move
from raceproof.moves.request import MoveRequest, of_claims

ROWS_IN_ONE_SCRIPT = 500
"""A script holds up the whole server while it runs: a bulk is cut into pieces of this many rows."""
_SCRIPTS = Scripts(script_of_move)
_OF_A_SCRIPT = "user_script"
"""Servers say so in the message of an error inside of a script."""

Decided = list[Answer[Any, Any] | ScriptFailed]


class RedisMoves:
    """The programs of moves."""

    def __init__(self, dialect: RedisDialect) -> None:
        self.dialect = dialect

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        try:
            row: Any = yield self._statement(request, [request], several=False)
        except AcknowledgementLost as error:
            return request.unknown(error)
        except Exception as error:
            if _OF_A_SCRIPT in str(error) and not isinstance(error, StoreUnavailable):
                raise row_failed(request.move, request.key, error) from error
            raise
        return checked([_answer(request, row)])[0]

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Move many rows of one shape by their keys; each row is a decision of its own."""
        return checked((yield from self._all(requests)))

    def many_claimed(self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]) -> Program[list[Answer[Any, Any]]]:
        """The same for claims of one kind; `first` is the request of the first of them."""
        return (yield from self.many(of_claims(first, claims)))

    def many_unlocked(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | None]]:
        """The same for callers who know nothing of each other: a row that fails is answered with None."""
        answers = yield from self._all(requests)
        return [None if isinstance(answer, ScriptFailed) else answer for answer in answers]

    def _all(self, requests: Sequence[MoveRequest]) -> Program[Decided]:
        answers: Decided = []
        size = 1 if self.dialect.cluster else ROWS_IN_ONE_SCRIPT
        for start in range(0, len(requests), size):
            some = requests[start : start + size]
            answers += yield from self.some(some[0], some, lambda request: request)
        return answers

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        """Move all rows that match the guards. Redis has no index over hashes: this walks all keys of the table."""
        spec = request.move.lifecycle
        if self.dialect.cluster:
            raise CallError(f"{request.move}: a predicate cannot be searched for on a cluster; pass the keys")
        answers: list[Answer[Any, Any]] = []
        seen: set[KeyParts] = set()
        cursor: Any = "0"
        while limit is None or len(answers) < limit:
            scan = (cursor, "MATCH", f"{_glob(spec.table)}:*", "COUNT", 1000)
            ((cursor, names),) = yield Statement("scan", "SCAN", scan)
            # SCAN may name a key twice
            keys = [(key, parts) for key, parts in _keys(spec, request.parts, names) if parts not in seen]
            seen.update(parts for _, parts in keys)
            found = [replace(request, key=key, parts=parts) for key, parts in keys]
            while found and (limit is None or len(answers) < limit):
                size = min(ROWS_IN_ONE_SCRIPT, len(found) if limit is None else limit - len(answers))
                rows, found = found[:size], found[size:]
                decided = yield from self.many(rows)
                answers += [answer for answer in decided if isinstance(answer, Moved) or answer.outcome == "unknown"]
            if text_of(cursor) == "0":
                break
        return answers

    def some(
        self, first: MoveRequest, of_rows: Sequence[Any], requested: Callable[[Any], MoveRequest]
    ) -> Program[Decided]:
        """As many rows as a script decides: requests, or claims, which become one if more than that is to be said."""
        try:
            rows = yield self._statement(first, of_rows)
        except AcknowledgementLost as error:
            return [requested(one).unknown(error) for one in of_rows]
        move = first.move
        answers: Decided = []
        last = before = None
        for one, row in zip(of_rows, rows, strict=True):
            if type(row) is bytes:
                if row != last:
                    last, before = row, status_of_reply(move.lifecycle, row)
                answers.append(Moved(one.key, move, before, None, None))
            else:
                answers.append(_answer(requested(one), row))
        return answers

    def _statement(self, first: MoveRequest, of_rows: Sequence[Any], several: bool = True) -> Statement:
        """The script of a declared move, for rows of one shape: requests, or claims of plain keys."""
        move, dialect = first.move, self.dialect
        spec = move.lifecycle
        if spec.plain_key and not dialect.cluster:
            keys = [f"{spec.table}:{one.key}" for one in of_rows]
        else:
            keys = [dialect.row_key(spec, one.parts) for one in of_rows]
        if spec.history:
            keys += [dialect.history_key(spec, one.parts) for one in of_rows]
        leases: Sequence[str] = ()
        if first.where:
            leases = dialect.lease_keys(move, first.where)
            keys += leases
        names, values = given_to(first, of_rows)
        made = _SCRIPTS.get(
            move, first.claim, names, first.returning, len(leases), first.repeat, dialect.cluster, several
        )
        return Statement("move", made, values, keys)


def checked(answers: Decided) -> list[Answer[Any, Any]]:
    """The answers, if every row could be decided."""
    for answer in answers:
        if isinstance(answer, ScriptFailed):
            raise answer
    return answers  # type: ignore[return-value]


def _answer(request: MoveRequest, row: Row) -> Answer[Any, Any] | ScriptFailed:
    if isinstance(row, bytes | str):
        return Moved(request.key, request.move, status_of_reply(request.move.lifecycle, row), None, None)
    if not row:
        return request.missing()
    if row[0] is not None:
        return request.moved_row(text_of(row[0]), _number(row[1]), [text_of(value) for value in row[2:]])
    kind, *found = map(text_of, row[1:])
    if kind == "error":
        return row_failed(request.move, request.key, found[0])
    if kind == "replayed":
        return request.moved(found[0], _number(found[1]), None, replayed=True)
    before, revision, fence, unmet, by = found
    return request.not_moved(before, _number(revision), fence_of_text(fence), unmet, by)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _glob(text: str) -> str:
    return "".join(f"\\{character}" if character in "*?[]\\^" else character for character in text)


def _keys(spec: Spec[Any], parts: KeyParts, names: Sequence[Any]) -> Iterator[tuple[Any, KeyParts]]:
    """The keys of rows among names of Redis keys; with a tenant, of its rows alone."""
    for name in names:
        text = text_of(name)[len(spec.table) + 1 :]
        key = key_of_member(spec, text, parts[0] if spec.tenant else None)
        if key is not None:
            yield key, parts_of_text(spec, text)
