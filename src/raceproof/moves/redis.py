"""Moves on Redis and Valkey: one script for one decision, or for many; see `redis.lua` beside this file.

Promise: a declared move has one script, made of its declaration alone, and every key that it touches is in KEYS. A row is
a hash at `<table>:<key>`; its history is a stream at `<table>/history:<key>`. With `cluster=True` the key's text is the
hash tag of both.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.errors import CallError, ScriptFailed
from raceproof.moves.answer import missing, moved, not_moved, unknown
from raceproof.moves.request import KeyParts, MoveRequest, key_text
from raceproof.outcome import Answer, Moved, Unknown
from raceproof.predicate import Comparison, EpochGuard, Predicate
from raceproof.quoting import lua_literal
from raceproof.spec import Claimable, Move, Spec
from raceproof.statement import AcknowledgementLost, Program, Row, Rows, Statement, Style, source

SCRIPT = source("raceproof.moves", "redis.lua")

# A script holds up the whole server while it runs: a bulk is cut into pieces of this many rows.
_ROWS_IN_ONE_SCRIPT = 500

_SCRIPTS: dict[tuple[Move[Any], str | None], str] = {}

_HISTORY = ("move", "outcome", "before", "after", "revision", "actor", "reason", "call", "at")


class RedisMoves:
    """The programs of moves; their scripts are rendered once and shared by all connections."""

    style: Style = "dollar"

    def __init__(self, cluster: bool = False) -> None:
        self.cluster = cluster

    def row_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.row_of_text(spec, key_text(parts))

    def history_key(self, spec: Spec[Any], parts: KeyParts) -> str:
        return self.history_of_text(spec, key_text(parts))

    def row_of_text(self, spec: Spec[Any], text: str) -> str:
        return f"{spec.table}:{self._tagged(spec, text)}"

    def history_of_text(self, spec: Spec[Any], text: str) -> str:
        return f"{spec.table}/history:{self._tagged(spec, text)}"

    def _tagged(self, spec: Spec[Any], text: str) -> str:
        """On a cluster the key is the hash tag, or, where there is one, the tenant: all its rows are in one slot."""
        if not self.cluster:
            return text
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
                "move", script_of(request), _arguments([request]), keys + self._leases(request)
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

    def _leases(self, request: MoveRequest) -> list[str]:
        if not request.where or not (leases := leases_of(request.where)):
            return []
        if self.cluster:
            raise CallError(
                f"{request.move}: on a cluster a lease and a row are apart, and cannot be looked at together"
            )
        return leases

    def _script(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | ScriptFailed]]:
        first = requests[0]
        spec = first.move.lifecycle
        keys = [self.row_key(spec, request.parts) for request in requests]
        if spec.history:
            keys += [self.history_key(spec, request.parts) for request in requests]
        try:
            rows = yield Statement("move", script_of(first), _arguments(requests), keys + self._leases(first))
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        return [_answer(request, row) for request, row in zip(requests, rows, strict=True)]


def script_of(request: MoveRequest) -> str:
    """The script of a declared move; a claim may have a fence of its own."""
    key = (request.move, request.fence_column)
    script = _SCRIPTS.get(key)
    if script is None:
        script = _SCRIPTS[key] = script_of_move(request.move, request.fence_column or "")
    return script


def script_of_move(move: Move[Any], fence_column: str) -> str:
    return _constants(move, fence_column) + SCRIPT


def _constants(move: Move[Any], fence_column: str) -> str:
    """What `redis.lua` wants to know of the declaration."""
    spec = move.lifecycle
    history = "" if spec.history is None else "losers" if spec.history.losers else "winners"
    expires = ""
    if spec.expires and str(move.target) in spec.ended:
        expires = f"{spec.expires.ended * 1000:.0f}"
    elif spec.expires and spec.ended.intersection(map(str, move.sources)):
        expires = "never"
    constants = {
        "column": lua_literal(spec.column),
        "target": lua_literal(move.target),
        "revision_column": lua_literal(spec.revision or ""),
        "fence_column": lua_literal(fence_column),
        "sources": "{" + ", ".join(f"[{lua_literal(source)}] = true" for source in move.sources) + "}",
        "stamps": "{" + ", ".join(lua_literal(stamp) for stamp in move.stamp) + "}",
        "history": lua_literal(history),
        "lifecycle": lua_literal(spec.name),
        "move": lua_literal(move.name),
        "expires": lua_literal(expires),
    }
    return "".join(f"local {name} = {value}\n" for name, value in constants.items())


def _arguments(requests: Sequence[MoveRequest]) -> Sequence[str]:
    """ARGV: the letters of the values that are given, and the values; see `redis.lua`."""
    first = requests[0]
    letters, values = "", []

    def give(letter: str, given: list[str]) -> None:
        nonlocal letters
        same = given.count(given[0]) == len(given)
        letters += letter if same else letter.upper()
        values.extend(given[:1] if same else given)

    if first.shape is not first.move:
        if leases := len(leases_of(first.where)):
            give("k", [str(leases)])
        if first.now is not None:
            give("n", [f"{first.now.timestamp():.6f}"])
        if first.where:
            give("g", [json.dumps(comparisons(first.move, first.where))])
        if first.returning:
            give("o", [json.dumps(first.returning)])
        if first.fence is not None:
            give("f", [str(request.fence) for request in requests])
        if first.revision is not None:
            give("v", [str(request.revision) for request in requests])
        if first.set or first.clears:
            give("s", [_change(request) for request in requests])
    if first.move.lifecycle.history:
        give("b", [request.by or "" for request in requests])
        give("r", [request.reason or "" for request in requests])
        give("c", [request.call or "" for request in requests])
        if first.repeat:
            give("a", ["1"])
    return (letters, *values) if letters else ()


def comparisons(asked: Move[Any] | Claimable[Any], where: Iterable[Predicate]) -> list[list[Any]]:
    """Guards as Redis can decide them; that of an epoch names the place of its lease among the last of KEYS."""
    guards: list[list[Any]] = []
    leases = 0
    for predicate in where:
        if isinstance(predicate, EpochGuard):
            leases += 1
            guards.append([leases, "epoch", str(predicate.epoch)])
        elif isinstance(predicate, Comparison):
            guards.append([predicate.column, predicate.operator, predicate.value])
        else:
            raise CallError(
                f"{asked}: sql({str(predicate)!r}) cannot be decided by Redis; write it with column(…)"
            )
    return guards


def leases_of(where: Iterable[Predicate]) -> list[str]:
    """The keys of the leases that guards look at."""
    return [f"{one.table}:{one.name}" for one in where if isinstance(one, EpochGuard)]


def _change(request: MoveRequest) -> str:
    values = {name: field_text(name, value) for name, value in request.set.items() if value is not None}
    cleared = [*request.clears, *(name for name, value in request.set.items() if value is None)]
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
        before, after, *returned = row
        return moved(request, text_of(before), _number(after), [text_of(value) for value in returned] or None)
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
    found = parts_of_text(spec, text)
    if len(found) != len(spec.key_columns) or (spec.tenant and found[0] != str(tenant)):
        return None
    own = found[1:] if spec.tenant else found
    return own if len(own) > 1 else own[0]


def parts_of_text(spec: Spec[Any], text: str) -> KeyParts:
    return tuple(_unescape(part) for part in text.split(":")) if len(spec.key_columns) > 1 else (text,)


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")
