"""Moves on Redis and Valkey: one script for one decision, or for many; see `redis.lua` beside this file.

Promise: each kind of call of a declared move has one script (`redis_script.py`), and every key that it touches is in KEYS,
but for the index of a claim that ends. A row is a hash at
`<table>:<key>`; its history is a stream at `<table>/history:<key>`. With `cluster=True` the key's text is the hash tag of
both, and there is no index.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from raceproof.errors import CallError, ScriptFailed, StoreUnavailable
from raceproof.moves.answer import missing, moved, moved_with, not_moved, unknown
from raceproof.moves.redis_script import given_to, script_of_move
from raceproof.moves.redis_texts import (
    fence_of_text,
    key_of_member,
    parts_of_text,
    status_of_reply,
    takes_no_writes,
    text_of,
)
from raceproof.moves.request import KeyParts, MoveRequest, key_text, of_claims
from raceproof.outcome import Answer, Claim, Moved, Unknown
from raceproof.predicate import EpochGuard, Predicate
from raceproof.shown import shown_key
from raceproof.spec import Claimable, Move, Spec
from raceproof.statement import AcknowledgementLost, Program, Row, Rows, Statement, Style

# A script holds up the whole server while it runs: a bulk is cut into pieces of this many rows.
_ROWS_IN_ONE_SCRIPT = 500

_SCRIPTS: dict[tuple[Any, ...], str] = {}

_OF_A_SCRIPT = "user_script"
"""Servers say so in what they tell of an error inside of a script."""

_HISTORY = ("move", "outcome", "before", "after", "revision", "actor", "reason", "call", "at")


class OfTenants(Protocol):
    """What has rows: a lifecycle, or a delivery."""

    @property
    def table(self) -> str: ...
    @property
    def tenant(self) -> str | None: ...


class RedisMoves:
    """The programs of moves; their scripts are rendered once and shared by all connections."""

    style: Style = "dollar"

    def __init__(self, cluster: bool = False) -> None:
        self.cluster = cluster

    def row_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.row_of_text(spec, str(parts[0]) if spec.plain_key else key_text(parts))

    def history_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.history_of_text(spec, key_text(parts))

    def row_of_text(self, rows: OfTenants, text: str) -> str:
        return f"{rows.table}:{_tagged(rows, text) if self.cluster else text}"

    def history_of_text(self, spec: Spec[Any], text: str) -> str:
        if self.cluster and _hash_tag(spec, text)[:1] in ("", "}"):
            raise CallError(
                f"{spec}: on a cluster {'the tenant' if spec.tenant else 'the key'} is the hash tag that keeps a row and "
                f"its history in one slot, and it cannot be empty or begin with }}, as in {text!r}"
            )
        return f"{spec.table}/history:{_tagged(spec, text) if self.cluster else text}"

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        try:
            row: Any = yield self._statement(request, [request], several=False)
        except AcknowledgementLost as lost:
            return unknown(request, lost.__cause__ or lost)
        except Exception as error:
            if _OF_A_SCRIPT in str(error) and not isinstance(error, StoreUnavailable):
                raise _failed(request, error) from error
            raise
        answer = _answer(request, row)
        if isinstance(answer, ScriptFailed):
            raise answer
        return answer

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Move many rows of one shape by their keys; each row is a decision of its own."""
        answers = []
        for answer in (yield from self._all(requests)):
            if isinstance(answer, ScriptFailed):
                raise answer
            answers.append(answer)
        return answers

    def many_told(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | None]]:
        """The same for callers who know nothing of each other: a row that fails is answered with None."""
        answers = yield from self._all(requests)
        return [None if isinstance(answer, ScriptFailed) else answer for answer in answers]

    def _all(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | ScriptFailed]]:
        answers: list[Answer[Any, Any] | ScriptFailed] = []
        size = 1 if self.cluster else _ROWS_IN_ONE_SCRIPT
        for start in range(0, len(requests), size):
            some = requests[start : start + size]
            answers += yield from self._some(some[0], some, lambda request: request)
        return answers

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[list[Answer[Any, Any]]]:
        """The same for claims of one kind; `first` is the request of the first of them."""
        spec = first.move.lifecycle
        if spec.history or first.set or first.revision is not None or not spec.plain_key or self.cluster:
            return (yield from self.many(of_claims(first, claims)))
        answers: list[Answer[Any, Any]] = []
        for start in range(0, len(claims), _ROWS_IN_ONE_SCRIPT):
            some = claims[start : start + _ROWS_IN_ONE_SCRIPT]
            for answer in (yield from self._some(first, some, lambda one: first.of_claim(one, (one.key,)))):
                if isinstance(answer, ScriptFailed):
                    raise answer
                answers.append(answer)
        return answers

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        """Move all rows that match the guards. Redis has no index over hashes: this walks all keys of the table."""
        spec = request.move.lifecycle
        if self.cluster:
            raise CallError(f"{request.move}: a predicate cannot be searched for on a cluster; pass the keys")
        answers: list[Answer[Any, Any]] = []
        seen: set[KeyParts] = set()
        cursor: Any = "0"
        while True:
            ((cursor, names),) = yield Statement(
                "scan", "SCAN", (cursor, "MATCH", f"{_glob(spec.table)}:*", "COUNT", 1000)
            )
            # SCAN may name a key twice
            keys = [(key, parts) for key, parts in _keys(spec, request.parts, names) if parts not in seen]
            seen.update(parts for _, parts in keys)
            found = [replace(request, key=key, parts=parts) for key, parts in keys]
            while found:
                size = (
                    _ROWS_IN_ONE_SCRIPT if limit is None else min(_ROWS_IN_ONE_SCRIPT, limit - len(answers))
                )
                if size <= 0:
                    return answers
                rows, found = found[:size], found[size:]
                told = yield from self.many(rows)
                answers += [answer for answer in told if isinstance(answer, Moved | Unknown)]
            if text_of(cursor) == "0":
                return answers

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        """The hash with all its fields, or None."""
        (found,) = yield Statement("read", "HGETALL", (self.row_key(spec, parts),))
        return _fields(found) or None

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        """The newest entries of the row's stream, newest first."""
        (entries,) = yield Statement(
            "history", "XREVRANGE", (self.history_key(spec, parts), "+", "-", "COUNT", limit)
        )
        return [[_fields(fields).get(name) for name in _HISTORY] for _, fields in entries]

    def leases(self, asked: Move[Any] | Claimable[Any], where: Iterable[Predicate]) -> list[str]:
        """The keys of the leases that guards look at."""
        found = [f"{one.table}:{one.name}" for one in where if isinstance(one, EpochGuard)]
        if found and self.cluster:
            raise CallError(
                f"{asked}: on a cluster a lease and a row are apart, and cannot be looked at together"
            )
        return found

    def _some(
        self, first: MoveRequest, of_rows: Sequence[Any], requested: Callable[[Any], MoveRequest]
    ) -> Program[list[Answer[Any, Any] | ScriptFailed]]:
        """As many rows as a script decides: requests, or claims, which become one where more than that is to be told."""
        try:
            rows = yield self._statement(first, of_rows)
        except AcknowledgementLost as lost:
            return [unknown(requested(one), lost.__cause__ or lost) for one in of_rows]
        move = first.move
        answers: list[Answer[Any, Any] | ScriptFailed] = []
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
        move = first.move
        spec = move.lifecycle
        if spec.plain_key and not self.cluster:
            keys = [f"{spec.table}:{one.key}" for one in of_rows]
        else:
            keys = [self.row_key(spec, one.parts) for one in of_rows]
        if spec.history:
            keys += [self.history_key(spec, one.parts) for one in of_rows]
        leases: Sequence[str] = ()
        if first.where:
            leases = self.leases(move, first.where)
            keys += leases
        names, values = given_to(first, of_rows)
        kind = (move, first.claim, names, first.returning, len(leases), first.repeat, self.cluster, several)
        made = _SCRIPTS.get(kind)
        if made is None:
            made = _SCRIPTS[kind] = script_of_move(*kind)
        return Statement("move", made, values, keys)


def _hash_tag(rows: OfTenants, text: str) -> str:
    """On a cluster the key is the hash tag, or, where there is one, the tenant: all its rows are in one slot."""
    return text.partition(":")[0] if rows.tenant else text


def _tagged(rows: OfTenants, text: str) -> str:
    tag = _hash_tag(rows, text)
    return f"{{{tag}}}{text[len(tag) :]}"


def _answer(request: MoveRequest, row: Row) -> Answer[Any, Any] | ScriptFailed:
    if isinstance(row, bytes | str):
        return Moved(request.key, request.move, status_of_reply(request.move.lifecycle, row), None, None)
    if not row:
        return missing(request)
    if row[0] is not None:
        return moved_with(request, text_of(row[0]), _number(row[1]), [text_of(value) for value in row[2:]])
    kind, *found = map(text_of, row[1:])
    if kind == "error":
        return _failed(request, found[0])
    if kind == "replayed":
        return moved(request, found[0], _number(found[1]), None, replayed=True)
    before, revision, fence, unmet, by = found
    return not_moved(request, before, _number(revision), fence_of_text(fence), unmet, by)


def _failed(request: MoveRequest, why: object) -> ScriptFailed:
    """An error of the row; one of the whole store is raised at once."""
    if hint := takes_no_writes(why):
        raise StoreUnavailable(
            f"Redis takes no writes, so {request.move} of {shown_key(request.key)} was not decided: {hint} ({why})"
        )
    return ScriptFailed(f"Redis could not decide {request.move} of {shown_key(request.key)}: {why}")


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _fields(found: Any) -> dict[str, Any]:
    """A hash as Redis returns it: a mapping, or names and values in turn."""
    pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    return {text_of(name): text_of(value) for name, value in pairs}


def _glob(text: str) -> str:
    return "".join(f"\\{character}" if character in "*?[]\\^" else character for character in text)


def _keys(spec: Spec[Any], parts: KeyParts, names: Sequence[Any]) -> Iterator[tuple[Any, KeyParts]]:
    """The keys of rows among names of Redis keys; with a tenant, of its rows alone."""
    for name in names:
        text = text_of(name)[len(spec.table) + 1 :]
        key = key_of_member(spec, text, parts[0] if spec.tenant else None)
        if key is not None:
            yield key, parts_of_text(spec, text)
