"""Moves on Redis and Valkey: one script for one decision, or for many; see `redis.lua` beside this file.

Promise: the script is static and every key that it touches is in KEYS. A row is a hash at `<table>:<key>`; its history is
a stream at `<table>/history:<key>`. With `cluster=True` the key's text is the hash tag of both.
"""

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.errors import CallError, ScriptFailed
from raceproof.moves.answer import missing, moved, not_moved, unknown
from raceproof.moves.request import KeyParts, MoveRequest, key_text
from raceproof.outcome import Answer, Moved, Unknown
from raceproof.predicate import Comparison, Predicate
from raceproof.spec import Claimable, Move, Spec
from raceproof.statement import AcknowledgementLost, Program, Row, Rows, Statement, Style, source

SCRIPT = source("raceproof.moves", "redis.lua")

# A script holds up the whole server while it runs: a bulk is cut into pieces of this many rows.
_ROWS_IN_ONE_SCRIPT = 500

# Where a description says how many values each row has of its own; see redis.lua.
_VALUES = 12

_HISTORY = ("move", "outcome", "before", "after", "revision", "actor", "reason", "call", "at")


class RedisMoves:
    """The programs of moves, with the descriptions of moves that they have encoded so far."""

    style: Style = "dollar"

    def __init__(self, cluster: bool = False) -> None:
        self.cluster = cluster
        self._encoded: dict[Hashable, list[str]] = {}

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
            rows = yield Statement("move", SCRIPT, self._arguments([request]), keys)
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

    def _script(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | ScriptFailed]]:
        first = requests[0]
        spec = first.move.lifecycle
        keys = [self.row_key(spec, request.parts) for request in requests]
        if spec.history:
            keys += [self.history_key(spec, request.parts) for request in requests]
        params = self._arguments(requests)
        try:
            rows = yield Statement("move", SCRIPT, params, keys)
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        return [_answer(request, row) for request, row in zip(requests, rows, strict=True)]

    def _arguments(self, requests: Sequence[MoveRequest]) -> list[str]:
        """ARGV: the move, which is encoded once where it does not depend on the call, and what each row has of its own."""
        first = requests[0]
        described = self._encoded.get(first.shape)
        if described is None:
            described = _description(first)
            if first.now is None and first.where is first.move.where:
                self._encoded[first.shape] = described
        if described[_VALUES] == "0":
            return described
        arguments = described.copy()
        for request in requests:
            arguments += _own_values(request)
        return arguments


def _description(request: MoveRequest) -> list[str]:
    move = request.move
    spec = move.lifecycle
    guards = comparisons(move, request.where)
    history = "" if spec.history is None else "losers" if spec.history.losers else "winners"
    own = bool(history or request.set or request.fence is not None or request.revision is not None)
    return [
        spec.column,
        str(move.target),
        spec.revision or "",
        request.fence_column or "",
        "" if request.now is None else f"{request.now.timestamp():.6f}",
        json.dumps(guards) if guards else "",
        history,
        spec.name,
        move.name,
        str(len(move.sources)),
        str(len(move.stamp)),
        str(len(request.returning)),
        "7" if own else "0",
        ""
        if spec.expires is None or move.target not in spec.terminal
        else f"{spec.expires.ended * 1000:.0f}",
        *(str(source) for source in move.sources),
        *move.stamp,
        *request.returning,
    ]


def comparisons(asked: Move[Any] | Claimable[Any], where: Iterable[Predicate]) -> list[list[Any]]:
    """Guards as Redis can decide them."""
    guards: list[list[Any]] = []
    for predicate in where:
        if not isinstance(predicate, Comparison):
            raise CallError(
                f"{asked}: sql({str(predicate)!r}) cannot be decided by Redis; write it with column(…)"
            )
        guards.append([predicate.column, predicate.operator, predicate.value])
    return guards


def _own_values(request: MoveRequest) -> tuple[str, ...]:
    """What is particular to one row."""
    change = ""
    if request.set or request.clears:
        values = {name: field_text(name, value) for name, value in request.set.items() if value is not None}
        cleared = [*request.clears, *(name for name, value in request.set.items() if value is None)]
        change = json.dumps({"set": values, "clear": cleared})
    return (
        "" if request.fence is None else str(request.fence),
        "" if request.revision is None else str(request.revision),
        request.by or "",
        request.reason or "",
        request.call or "",
        "1" if request.repeat else "",
        change,
    )


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
    if len(row) == 2:
        return ScriptFailed(f"Redis could not decide {request.move} of {request.key!r}: {text_of(row[1])}")
    before, revision, fence, unmet, won, after, by, replayed, *returned = row
    if won:
        values = None if replayed or not request.returning else [text_of(value) for value in returned]
        return moved(request, text_of(before), _number(after), values, bool(replayed))
    return not_moved(request, text_of(before), _number(revision), _fence(fence), unmet, text_of(by))


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
