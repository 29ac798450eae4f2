"""Moves on Redis and Valkey: one script for one decision, or for many; see `redis.lua` beside this file.

Promise: a declared move has one script, made of its declaration alone (and one more for each claim that its caller may
hold), and every key that it touches is in KEYS, but for the index of a claim that ends. A row is a hash at
`<table>:<key>`; its history is a stream at `<table>/history:<key>`. With `cluster=True` the key's text is the hash tag of
both, and there is no index.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.errors import CallError, ScriptFailed
from raceproof.lua import script
from raceproof.moves.answer import missing, moved, not_moved, unknown
from raceproof.moves.redis_index import LEAVE, places
from raceproof.moves.request import KeyParts, MoveRequest, key_text, of_claims
from raceproof.outcome import Answer, Claim, Moved, Unknown
from raceproof.predicate import Comparison, EpochGuard, Predicate
from raceproof.spec import Claimable, Move, Spec
from raceproof.statement import AcknowledgementLost, Program, Row, Rows, Statement, Style, source

GUARDS = source("raceproof.moves", "guards.lua")
SCRIPT = source("raceproof.moves", "redis.lua")

# A script holds up the whole server while it runs: a bulk is cut into pieces of this many rows.
_ROWS_IN_ONE_SCRIPT = 500

_SCRIPTS: dict[tuple[Move[Any], Claimable[Any] | None, bool, bool], str] = {}

_HISTORY = ("move", "outcome", "before", "after", "revision", "actor", "reason", "call", "at")


class RedisMoves:
    """The programs of moves; their scripts are rendered once and shared by all connections."""

    style: Style = "dollar"

    def __init__(self, cluster: bool = False) -> None:
        self.cluster = cluster

    def row_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.row_of_text(spec, str(parts[0]) if spec.plain_key else key_text(parts))

    def history_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.history_of_text(spec, key_text(parts))

    def row_of_text(self, spec: Spec[Any], text: str) -> str:
        return f"{spec.table}:{self._tagged(spec, text) if self.cluster else text}"

    def history_of_text(self, spec: Spec[Any], text: str) -> str:
        return f"{spec.table}/history:{self._tagged(spec, text) if self.cluster else text}"

    def _tagged(self, spec: Spec[Any], text: str) -> str:
        """On a cluster the key is the hash tag, or, where there is one, the tenant: all its rows are in one slot."""
        if spec.tenant:
            tenant, _, rest = text.partition(":")
            return f"{{{tenant}}}:{rest}"
        return f"{{{text}}}"

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        spec = request.move.lifecycle
        keys = [self.row_key(spec, request.parts)]
        if spec.history:
            keys.append(self.history_key(spec, request.parts))
        try:
            rows = yield Statement(
                "move", self._script_of(request), _arguments([request]), keys + self._leases(request)
            )
        except AcknowledgementLost as lost:
            return unknown(request, lost.__cause__ or lost)
        answer = _answer(request, rows[0])
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
            answers += yield from self._script(requests[start : start + size])
        return answers

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[list[Answer[Any, Any]]]:
        """The same for claims of one kind; `first` is the request of the first of them."""
        return self.many(of_claims(first, claims))

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

    def _leases(self, request: MoveRequest) -> list[str]:
        return self.leases(request.move, request.where) if request.where else []

    def _script_of(self, request: MoveRequest) -> str:
        """The script of a declared move, for a caller who holds this claim."""
        key = (request.move, request.claim, bool(request.where), self.cluster)
        made = _SCRIPTS.get(key)
        if made is None:
            made = _SCRIPTS[key] = script_of_move(*key)
        return made

    def _script(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | ScriptFailed]]:
        first = requests[0]
        spec = first.move.lifecycle
        keys = [self.row_key(spec, request.parts) for request in requests]
        if spec.history:
            keys += [self.history_key(spec, request.parts) for request in requests]
        try:
            rows = yield Statement(
                "move", self._script_of(first), _arguments(requests), keys + self._leases(first)
            )
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        return [_answer(request, row) for request, row in zip(requests, rows, strict=True)]


def script_of_move(
    move: Move[Any], claim: Claimable[Any] | None = None, guarded: bool = False, cluster: bool = False
) -> str:
    """`redis.lua` for a declared move, with or without guards, and for a caller who holds this claim."""
    spec = move.lifecycle
    history = "" if spec.history is None else "losers" if spec.history.losers else "winners"
    expires = ""
    if spec.expires and str(move.target) in spec.ended:
        expires = f"{spec.expires.ended * 1000:.0f}"
    elif spec.expires and spec.ended.intersection(map(str, move.sources)):
        expires = "never"
    ends = claim is not None and move.target not in claim.held
    leaves = claim is not None and ends and not cluster and move.target not in claim.open
    constants = {
        "column": spec.column,
        "target": move.target,
        "revision_column": spec.revision or "",
        "fence_column": claim.form.fence_column if claim else spec.fence or "",
        "sources": dict.fromkeys(move.sources, True),
        "stamps": move.stamp,
        "clears": claim.form.cleared if claim and ends else (),
        "history": history,
        "lifecycle": spec.name,
        "move": move.name,
        "expires": expires,
        "leaves": leaves,
        **(places(claim) if claim else {}),
    }
    wanted = {"guards": guarded, "history": history, "revision": spec.revision, "leave": leaves}
    wanted["serial"] = claim and leaves and claim.serial
    return script((GUARDS, LEAVE, SCRIPT), constants, [name for name, value in wanted.items() if value])


def _arguments(requests: Sequence[MoveRequest]) -> Sequence[str]:
    """ARGV: the letters of the values that are given, and the values; see `redis.lua`."""
    first = requests[0]
    given: list[tuple[str, list[str]]] = []
    if first.shape is not first.move:
        if first.where and (leases := epochs(first.where)):
            given.append(("k", [str(leases)]))
        if first.now is not None:
            given.append(("n", [f"{first.now.timestamp():.6f}"]))
        if first.where:
            given.append(("g", [json.dumps(comparisons(first.move, first.where))]))
        if first.returning:
            given.append(("o", [json.dumps(first.returning)]))
        if first.fence is not None:
            given.append(("f", [str(request.fence) for request in requests]))
        if first.revision is not None:
            given.append(("v", [str(request.revision) for request in requests]))
        if first.set:
            given.append(("s", [_change(request) for request in requests]))
    if first.move.lifecycle.history:
        given.append(("b", [request.by or "" for request in requests]))
        given.append(("r", [request.reason or "" for request in requests]))
        given.append(("c", [request.call or "" for request in requests]))
        if first.repeat:
            given.append(("a", ["1"]))
    if not given:
        return ()
    letters, values = "", [""]
    for letter, of_rows in given:
        same = of_rows.count(of_rows[0]) == len(of_rows)
        letters += letter if same else letter.upper()
        values += of_rows[:1] if same else of_rows
    values[0] = letters
    return values


def comparisons(asked: Move[Any] | Claimable[Any], where: Sequence[Predicate]) -> list[list[Any]]:
    """Guards as Redis can decide them; that of an epoch says how many of KEYS come after its lease."""
    guards: list[list[Any]] = []
    leases = epochs(where)
    for predicate in where:
        if isinstance(predicate, EpochGuard):
            leases -= 1
            guards.append([leases, "epoch", str(predicate.epoch)])
        elif isinstance(predicate, Comparison):
            guards.append([predicate.column, predicate.operator, predicate.value])
        else:
            raise CallError(
                f"{asked}: sql({str(predicate)!r}) cannot be decided by Redis; write it with column(…)"
            )
    return guards


def epochs(where: Iterable[Predicate]) -> int:
    """How many guards look at a lease."""
    return sum(isinstance(one, EpochGuard) for one in where)


def _change(request: MoveRequest) -> str:
    values = {name: field_text(name, value) for name, value in request.set.items() if value is not None}
    cleared = [name for name, value in request.set.items() if value is None]
    return json.dumps({"set": values, "clear": cleared})


def field_text(column: str, value: Any) -> str:
    """A value as a hash field: Redis keeps texts."""
    if isinstance(value, bytes | bytearray | list | dict | tuple | set):
        raise CallError(
            f"column {column!r}: a hash field of Redis keeps text and numbers, not {type(value).__name__}"
        )
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        value.encode()  # half a character would be escaped in JSON, and come out as something else
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _answer(request: MoveRequest, row: Row) -> Answer[Any, Any] | ScriptFailed:
    if not row:
        return missing(request)
    if row[0] is not None:
        returned = [text_of(value) for value in row[2:]] if request.returning else None
        return moved(request, text_of(row[0]), _number(row[1]), returned)
    kind, *found = map(text_of, row[1:])
    if kind == "error":
        return ScriptFailed(f"Redis could not decide {request.move} of {request.key!r}: {found[0]}")
    if kind == "replayed":
        return moved(request, found[0], _number(found[1]), None, replayed=True)
    before, revision, fence, unmet, by = found
    return not_moved(request, before, _number(revision), _fence(fence), unmet, by)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _fence(value: Any) -> Any:
    """A fence is a number, or the text of a claim's form."""
    text = text_of(value)
    return int(text) if isinstance(text, str) and text.isdigit() else text


def _fields(found: Any) -> dict[str, Any]:
    """A hash as Redis returns it: a mapping, or names and values in turn."""
    pairs = found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    return {text_of(name): text_of(value) for name, value in pairs}


def text_of(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _glob(text: str) -> str:
    return "".join(f"\\{character}" if character in "*?[]\\^" else character for character in text)


def _keys(spec: Spec[Any], parts: KeyParts, names: Sequence[Any]) -> Iterator[tuple[Any, KeyParts]]:
    """The keys of rows among names of Redis keys; with a tenant, of its rows alone."""
    for name in names:
        text = text_of(name)[len(spec.table) + 1 :]
        key = key_of_member(spec, text, parts[0] if spec.tenant else None)
        if key is not None:
            yield key, parts_of_text(spec, text)


def key_of_member(spec: Spec[Any], text: str, tenant: Any) -> Any:
    """The key that a text stands for, as the caller writes it; None if it is not one, or of another tenant."""
    if spec.plain_key:
        return text
    found = parts_of_text(spec, text)
    if len(found) != len(spec.key_columns) or (spec.tenant and found[0] != str(tenant)):
        return None
    own = found[1:] if spec.tenant else found
    return own if len(own) > 1 else own[0]


def parts_of_text(spec: Spec[Any], text: str) -> KeyParts:
    return tuple(_unescape(part) for part in text.split(":")) if len(spec.key_columns) > 1 else (text,)


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")
