"""Moves on Redis and Valkey: one script for one decision, or for many; see `redis.lua` beside this file.

Promise: a declared move has one script, made of its declaration alone (and one more for each claim that its caller may
hold), and every key that it touches is in KEYS, but for the index of a claim that ends. A row is a hash at
`<table>:<key>`; its history is a stream at `<table>/history:<key>`. With `cluster=True` the key's text is the hash tag of
both, and there is no index.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from raceproof.errors import CallError, ScriptFailed
from raceproof.lua import Expression, in_turn, script
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

_SCRIPTS: dict[tuple[Any, ...], str] = {}

_OF_A_SCRIPT = "user_script"
"""Servers say so in what they tell of an error inside of a script."""

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
        try:
            row: Any = yield self._statement(request, [request], several=False)
        except AcknowledgementLost as lost:
            return unknown(request, lost.__cause__ or lost)
        except Exception as error:
            if _OF_A_SCRIPT in str(error):
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
        names, values = _arguments(first, of_rows)
        kind = (move, first.claim, names, first.returning, len(leases), first.repeat, self.cluster, several)
        made = _SCRIPTS.get(kind)
        if made is None:
            made = _SCRIPTS[kind] = script_of_move(*kind)
        return Statement("move", made, values, keys)


def script_of_move(
    move: Move[Any],
    claim: Claimable[Any] | None = None,
    given: Sequence[str] = (),
    returning: Sequence[str] = (),
    leases: int = 0,
    repeats: bool = False,
    cluster: bool = False,
    several: bool = True,
) -> str:
    """`redis.lua` for a declared move, for callers who hold this claim and give these values; see `_arguments`."""
    spec = move.lifecycle
    ends = claim is not None and move.target not in claim.held
    leaves = claim is not None and ends and not cluster and move.target not in claim.open
    moment, after = Expression("moment"), Expression("after")
    fields = [spec.column, move.target, *((spec.revision, after) if spec.revision else ())]
    fields += [part for stamp in move.stamp for part in (stamp, moment)]
    fence_column = claim.form.fence_column if claim else spec.fence
    looked_at = [spec.column, *filter(None, (fence_column, spec.revision))]
    constants = {
        **dict.fromkeys(("given_by", "given_reason", "given_call"), ""),
        **_places_of(given),
        "lifecycle": spec.name,
        "move_name": move.name,
        "target": move.target,
        "sources": dict.fromkeys(move.sources, True),
        "revision_column": spec.revision,
        "looked_at": in_turn(looked_at),
        "seen_fence": Expression("found[2]") if fence_column else None,
        "seen_revision": Expression(f"found[{len(looked_at)}] or '0'") if spec.revision else None,
        "move_fields": in_turn(fields),
        "cleared": in_turn(claim.form.cleared if claim else ()),
        "expires": f"{spec.expires.ended * 1000:.0f}" if spec.expires else None,
        "keys_of_a_row": 2 if spec.history else 1,
        "stream_key": Expression("KEYS[rows + i]" if spec.history else "nil"),
        "leases": leases,
        "returned": in_turn(returning),
        **(places(claim) if claim else {}),
    }
    over = spec.expires and str(move.target) in spec.ended
    wanted = {
        "several": several,
        "guards": "given_guards" in given,
        "history": spec.history,
        "losers": spec.history and spec.history.losers,
        "timed": spec.history or move.stamp,
        "revision": spec.revision,
        "repeats": repeats,
        "clears": ends,
        "expires": over,
        "lives_again": spec.expires and not over and spec.ended.intersection(map(str, move.sources)),
        "leave": leaves,
        "serial": claim and leaves and claim.serial,
        "returning": returning,
        **{name.removesuffix(_EACH): True for name in given},
    }
    return script((GUARDS, LEAVE, SCRIPT), constants, [name for name, value in wanted.items() if value])


_EACH = "*"
"""Ends the name of a value that each row has for itself."""


def _arguments(first: MoveRequest, of_rows: Sequence[Any]) -> tuple[tuple[str, ...], Sequence[str]]:
    """What is given to a script, by name, and ARGV: those that are the same for all rows once, others for each row."""
    given: dict[str, list[str]] = {}
    if first.shape is not first.move:
        if first.now is not None:
            given["given_now"] = [f"{first.now.timestamp():.6f}"]
        if first.where:
            given["given_guards"] = [json.dumps(comparisons(first.move, first.where))]
        if first.fence is not None:
            given["given_fence"] = [str(one.fence) for one in of_rows]
        if first.revision is not None:
            given["given_revision"] = [str(one.revision) for one in of_rows]
        if first.set:
            given["given_change"] = [_change(one) for one in of_rows]
    if first.move.lifecycle.history:
        given["given_by"] = [one.by or "" for one in of_rows]
        given["given_reason"] = [one.reason or "" for one in of_rows]
        given["given_call"] = [one.call or "" for one in of_rows]
    if not given:
        return (), ()
    names, values = [], []
    for name, of_rows in given.items():
        if len(of_rows) == 1 or of_rows.count(of_rows[0]) == len(of_rows):
            names.append(name)
            values.append(of_rows[0])
        else:
            names.append(name + _EACH)
            values += of_rows
    return tuple(names), values


def _places_of(given: Sequence[str]) -> dict[str, Expression]:
    """Where these values are in ARGV, for row i of so many rows."""
    places, once, each = {}, 0, 0
    for name in given:
        if name.endswith(_EACH):
            places[name.removesuffix(_EACH)] = Expression(f"ARGV[{once} + {each} * rows + i]")
            each += 1
        else:
            once += 1
            places[name] = Expression(f"ARGV[{once} + {each} * rows]" if each else f"ARGV[{once}]")
    return places


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
    if isinstance(row, bytes | str):
        return Moved(request.key, request.move, status_of_reply(request.move.lifecycle, row), None, None)
    if not row:
        return missing(request)
    if row[0] is not None:
        returned = [text_of(value) for value in row[2:]] if request.returning else None
        return moved(request, text_of(row[0]), _number(row[1]), returned)
    kind, *found = map(text_of, row[1:])
    if kind == "error":
        return _failed(request, found[0])
    if kind == "replayed":
        return moved(request, found[0], _number(found[1]), None, replayed=True)
    before, revision, fence, unmet, by = found
    return not_moved(request, before, _number(revision), _fence(fence), unmet, by)


def _failed(request: MoveRequest, why: object) -> ScriptFailed:
    return ScriptFailed(f"Redis could not decide {request.move} of {request.key!r}: {why}")


def status_of_reply(spec: Spec[Any], reply: Any) -> Any:
    """A status as the declaration knows it, or, if it does not, its text."""
    if isinstance(reply, bytes) and (known := spec.status_of_bytes.get(reply)) is not None:
        return known
    text = text_of(reply)
    return spec.status_of.get(text, text)


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
