"""Moves on SQLite, as programs over the statements in `sqlite.sql`.

Promise: the guards stand in the WHERE of the write. Where a call takes several statements, the write lock is taken before
the first, so none of them can meet a stale snapshot, and all are one transaction, or one savepoint in the caller's.
"""

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from raceproof.moves import sql
from raceproof.moves.answer import conflict, missing, moved, not_moved, unknown
from raceproof.moves.request import KeyParts, MoveRequest, key_text, of_claims
from raceproof.moves.sqlite_keys import found_otherwise
from raceproof.moves.words import SqliteWords
from raceproof.outcome import Answer, Claim
from raceproof.quoting import identifier, literal, parameter, split_qualified
from raceproof.spec import Spec
from raceproof.statement import (
    BEGIN,
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Rows,
    Statement,
    Style,
    lines,
    templates,
    transaction,
)

_TEMPLATES = templates("raceproof.moves", "sqlite.sql")
_WORDS = SqliteWords()
_TEXTS: "dict[Style, dict[Hashable, _Texts]]" = {}


class _SpelledOtherwise(Exception):
    """The column gives a key back in another spelling, so it is not known whose it is."""


class SqliteMoves:
    """The programs of moves; texts are rendered once for a style of placeholder and shared by all connections."""

    def __init__(self, style: Style, prefers: bool = True) -> None:
        self.style: Style = style
        self._prefers = prefers
        self._texts = _TEXTS.setdefault(style, {})

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        texts = self._texts.get(request.shape) or self._texts_of(request)
        try:
            if texts.note is None and not request.ended:
                plain = request.shape is request.move
                values = bindable(request.parts if plain else sql.flat(request))
                for place, (before, write) in enumerate(texts.writes):
                    rows = yield write(values)
                    if rows:
                        if place and self._prefers:
                            texts.prefer(place)
                        row = None if plain else rows[0][2:] or None
                        return moved(request, before, rows[0][0], row)
            return (yield from transaction(texts.begin, self._decide(request, texts)))
        except AcknowledgementLost as lost:
            return unknown(request, lost.__cause__ or lost)
        except Conflicted as lost:
            return conflict(request, lost.__cause__ or lost)

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Move many rows by their keys, all in one transaction."""
        if not requests:
            return []
        try:
            texts = self._texts_of(requests[0])
            if _alike(requests):
                try:
                    return (yield from transaction(texts.begin, self._all_at_once(requests, texts)))
                except _SpelledOtherwise:
                    pass  # nothing was kept
            return (yield from transaction(texts.begin, self._each(requests)))
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        except Conflicted as lost:
            return [conflict(request, lost.__cause__ or lost) for request in requests]

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[list[Answer[Any, Any]]]:
        """The same for claims of one kind; `first` is the request of the first of them."""
        return self.many(of_claims(first, claims))

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        """Move all rows that match the request's guards and are at a source of its move."""
        try:
            return (yield from transaction(self._texts_of(request).begin, self._matching(request, limit)))
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost)]
        except Conflicted as lost:
            return [conflict(request, lost.__cause__ or lost)]

    def _all_at_once(
        self, requests: Sequence[MoveRequest], texts: "_Texts"
    ) -> Program[list[Answer[Any, Any]]]:
        """Under the write lock: one statement for each source; then those that did not move, one by one."""
        first = requests[0]
        keys = [convert(request.parts[0]) for request in requests]
        values = {
            **dict(zip(sql.layout(first), bindable(sql.flat(first)), strict=True)),
            "keys": json.dumps(
                keys
                if first.fence is None
                else [[key, convert(request.fence)] for key, request in zip(keys, requests, strict=True)]
            ),
        }
        won: dict[str, tuple[str, Any, Sequence[Any]]] = {}
        for source, write in texts.writes_many:
            found = {str(row[0]): row for row in (yield write.bind(values))}
            won |= {key: (source, revision, returned) for key, (_, revision, _, *returned) in found.items()}
            if texts.note_many and found:
                calls = {str(key): request.call for key, request in zip(keys, requests, strict=True)}
                noted = [[found[key][2], found[key][1], call] for key, call in calls.items() if key in found]
                yield texts.note_many.bind({**values, "before": source, "rows": json.dumps(noted)})
        answers = []
        for key, request in zip(keys, requests, strict=True):
            mine = won.pop(str(key), None)
            if mine is None:
                answers.append((yield from self._decide(request, texts)))
            else:
                before, revision, returned = mine
                answers.append(moved(request, before, revision, returned or None))
        if won:
            raise _SpelledOtherwise
        return answers

    def _each(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        answers = []
        for request in requests:
            answers.append((yield from self._decide(request, self._texts_of(request))))
        return answers

    def _matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        spec = request.move.lifecycle
        values = dict(zip(sql.layout(request), bindable(sql.flat(request)), strict=True))
        values["limit"] = -1 if limit is None else limit
        rows = yield self._texts_of(request).matching.bind(values)
        found = []
        for parts in rows:
            own = tuple(parts)[1:] if spec.tenant else tuple(parts)
            found.append(replace(request, key=own if len(own) > 1 else own[0], parts=tuple(parts)))
        return (yield from self._each(found))

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        """The row with all its columns, or None."""
        names = yield from self.columns(spec)
        slots = {**sql.declared(spec), "columns": ", ".join(f"t.{identifier(name)}" for name in names) or "1"}
        statement = _TEMPLATES["move.read"].prepare(slots, self.style)
        rows = yield statement.bind({f"key_{i}": part for i, part in enumerate(bindable(parts))})
        if not rows:
            yield from found_otherwise(spec, spec.table, spec.key_columns, parts, self.style)
            return None
        return dict(zip(names, rows[0], strict=True))

    def columns(self, spec: Spec[Any]) -> Program[list[str]]:
        """The names of the table's columns, in order."""
        *schema, table = split_qualified(spec.table)
        named = {"table_name": literal(table), "schema_name": literal(schema[-1]) if schema else "NULL"}
        columns = _TEMPLATES["move.columns"].prepare(named, self.style)
        return [str(name) for name, _ in (yield columns.bind({}))]

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        """The newest rows of the history of one row, newest first."""
        statement = _TEMPLATES["move.history"].prepare(sql.declared(spec), self.style)
        return (yield statement.bind({"key": key_text(parts), "limit": limit}))

    def _decide(self, request: MoveRequest, texts: "_Texts") -> Program[Answer[Any, Any]]:
        """Under the write lock: what a call with this id did before, else move the row, else say why not."""
        values = bindable(sql.flat(request))
        if request.repeat:
            found = yield texts.look(values)
            if found:
                asked = {"key": found[0][4], "call": request.call, "move": request.move.name}
                seen = yield texts.replay.bind(asked)
                if seen:
                    return moved(request, seen[0][0], seen[0][1], None, replayed=True)
        fenced_off = None
        if request.ended:
            # RETURNING cannot tell what a column was before
            held = yield texts.held(values)
            fenced_off = held[0][0] if held else None
        for place, (source, write) in enumerate(texts.writes):
            rows = yield write(values)
            if rows:
                if place and self._prefers:
                    texts.prefer(place)
                revision, key, *returned = rows[0]
                if texts.note:
                    yield texts.note((*values, key, "moved", source, revision))
                return moved(request, source, revision, returned or None, fenced_off=fenced_off)
        found = yield texts.look(values)
        if not found:
            spec = request.move.lifecycle
            yield from found_otherwise(request.move, spec.table, spec.key_columns, request.parts, self.style)
            return missing(request)
        before, revision, fence, unmet, key = found[0]
        if texts.note is None:
            return not_moved(request, before, revision, fence, unmet)
        last = yield texts.who.bind({"key": key})
        by = last[0][3] if last and (last[0][1], last[0][2]) == (before, revision) else None
        answer = not_moved(request, before, revision, fence, unmet, by)
        if texts.losers:
            yield texts.note((*values, key, answer.outcome, before, revision))
        return answer

    def _texts_of(self, request: MoveRequest) -> "_Texts":
        shape = request.shape
        texts = self._texts.get(shape)
        if texts is None:
            texts = self._texts[shape] = _Texts(request, self.style)
        return texts


class _Texts:
    """The finished texts for one shape of call."""

    def __init__(self, request: MoveRequest, style: Style) -> None:
        spec = request.move.lifecycle
        guards = sql.guards(request, _WORDS)
        revision = f"t.{identifier(spec.revision)}" if spec.revision else "NULL"
        now = "strftime('%Y-%m-%d %H:%M:%f', 'now')" if request.now is None else parameter("now")
        slots = {
            **sql.declared(spec),
            "keys": ", ".join(f"t.{identifier(column)}" for column in spec.key_columns),
            "revision": revision,
            "fence": f"t.{identifier(request.fence_column)}" if request.fence_column else "NULL",
            "key_text": sql.key_text(spec, "CAST({} AS TEXT)"),
            "unmet": sql.unmet(guards),
            "guards": lines((text for _, text in guards), " AND"),
            "assignments": sql.assignments(request, _WORDS, now, parameter("set_{}")),
            "fenced_off": sql.fenced_off(request) if request.ended else "NULL",
            "sources": sql.sources(request),
            # RETURNING knows only the bare names of the row as written
            "returning_revision": identifier(spec.revision, "`") if spec.revision else "NULL",
            "returning_key": sql.key_text(spec, "CAST({} AS TEXT)", row="") if spec.history else "NULL",
            "returning": "".join(", " + identifier(name, "`") for name in request.returning),
            "move": literal(request.move.name),
            "target": literal(request.move.target),
            "now": now,
        }

        def prepared(name: str) -> Prepared:
            return _TEMPLATES[name].prepare(slots, style)

        layout = sql.layout(request)
        # BEGIN carries the statement that takes the write lock in a transaction of the caller's
        self.begin = BEGIN._replace(params=(prepared("move.lock").text,))
        self.look = prepared("move.look").picking(layout)
        self.held = prepared("move.held").picking(layout)
        self.matching = prepared("move.matching")
        self.writes = []
        for source in request.move.sources:
            write = _TEMPLATES["move.write"].prepare({**slots, "source": literal(source)}, style)
            self.writes.append((source, write.picking(layout)))
        self.writes_many = []
        if len(spec.key_columns) == 1:
            slots["key"] = identifier(spec.key_columns[0])
            name = "move.write_many"
            if request.fence is not None:
                name = "move.write_fenced"
                fenced = sql.guards(request, _WORDS, "json_extract(w.value, '$[1]')")
                slots["guards_of_many"] = lines((text for _, text in fenced), " AND")
            for source in request.move.sources:
                many = _TEMPLATES[name].prepare({**slots, "source": literal(source)}, style)
                self.writes_many.append((source, many))
        self.note_many = prepared("move.note_many") if spec.history else None
        self.losers = spec.history is not None and spec.history.losers
        self.note: Callable[[Sequence[Any]], Statement] | None = None
        if spec.history:
            self.note = prepared("move.note").picking((*layout, "key", "outcome", "before", "found_revision"))
            self.replay = prepared("move.replay")
            self.who = prepared("move.who")

    def prefer(self, place: int) -> None:
        """Try the source that has just won first from now on: rows tend to come in herds."""
        writes = self.writes  # read once: threads share the texts, and none may lose a source
        self.writes = [writes[place], *writes[:place], *writes[place + 1 :]]


def _alike(requests: Sequence[MoveRequest]) -> bool:
    """Whether all rows are found by one key column and set the same values, so that one statement can serve them."""
    first = requests[0]
    if len(first.parts) > 1 or first.ended or (first.fence is not None and first.revision is not None):
        return False
    if any(request.set is not first.set for request in requests):
        return False
    # a text like '01' finds the row 1 of a column of numbers, and comes back as 1; and beside the number 1, '1' is unclear
    texts = [request.parts[0] for request in requests if type(request.parts[0]) is str]
    return not any(map(_like_a_number, texts)) or (
        len(texts) == len(requests) and not any(map(_spelled_otherwise, texts))
    )


def _spelled_otherwise(text: str) -> bool:
    """Whether a column of numbers would give a text back in another spelling."""
    if text.isdecimal() and text.isascii() and text[0] != "0" and len(text) < 19:
        return False
    return _like_a_number(text)


def _like_a_number(text: str) -> bool:
    if text[:1] not in "+-.0123456789 \t\n":
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def bindable(values: Sequence[Any]) -> Sequence[Any]:
    """SQLite has neither UUIDs nor timestamps: the first are texts, the second texts in UTC."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [convert(value) for value in values]


_PLAIN = frozenset((str, int, float, bytes, type(None)))


def convert(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return timestamp(value) if isinstance(value, datetime) else value


def timestamp(moment: datetime) -> str:
    """A moment in the form that stamps have: UTC, milliseconds, sorts as text."""
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
