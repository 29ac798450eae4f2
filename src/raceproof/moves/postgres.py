"""Moves on PostgreSQL, as programs over the statements in `postgres.sql`.

Promise: one statement is one decision, history included. Only a repeated call (`call=`) takes two statements in one
transaction, because it must see what was committed while it waited for the row.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from raceproof.errors import CallError
from raceproof.lifecycle import Spec
from raceproof.moves import sql
from raceproof.moves.answer import again, conflict, missing, moved, not_moved, unknown
from raceproof.moves.request import KeyParts, MoveRequest, key_text
from raceproof.outcome import Answer
from raceproof.quoting import identifier, literal, parameter, qualified
from raceproof.statement import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Row,
    Rows,
    Statement,
    Style,
    lines,
    templates,
)

_TEMPLATES = templates("raceproof.moves", "postgres.sql")
_RETURNS_OLD = 18
_RENDERED: "dict[tuple[Style, bool], tuple[dict[Hashable, Prepared], dict[Hashable, _Plan]]]" = {}
_NO_ROW: Row = (None,) * 7
_SKIP_LOCKED = " SKIP LOCKED"
_OWN = (parameter("by"), parameter("reason"), parameter("call"))


class _Plan(NamedTuple):
    """The statements for one shape of call."""

    full: Callable[[Sequence[Any]], Statement]
    swift: Callable[[Sequence[Any]], Statement] | None


class PostgresMoves:
    """The programs of moves on one database; texts are rendered once for a style of placeholder and shared by all."""

    def __init__(self, style: Style, version: int) -> None:
        self.style: Style = style
        self.version = version
        """The server's major version."""
        self._texts, self._plans = _RENDERED.setdefault((style, version >= _RETURNS_OLD), ({}, {}))
        self._types: dict[Spec[Any], dict[str, str]] = {}

    # One row

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        try:
            if request.repeat:
                return (yield from self._repeated(request))
            shape = request.shape
            plan = self._plans.get(shape)
            if plan is None:
                plan = self._plans[shape] = self._plan(request)
            values = sql.flat(request)
            if plan.swift is not None:
                rows = yield plan.swift(values)
                if rows:
                    before, revision, *returned = rows[0]
                    return moved(request, before, revision, request.row(returned) if returned else None)
            return (yield from self._decide(request, plan, values))
        except AcknowledgementLost as lost:
            return unknown(request, lost.__cause__ or lost)
        except Conflicted as lost:
            return conflict(request, lost.__cause__ or lost)

    def _decide(
        self, request: MoveRequest, plan: "_Plan", values: Sequence[Any]
    ) -> Program[Answer[Any, Any]]:
        rows = yield plan.full(values)
        if not rows:
            return missing(request)
        before, revision, fence, unmet, key, won, new_revision, *returned = rows[0]
        if won:
            return moved(request, before, new_revision, request.row(returned))
        by = None
        if request.move.lifecycle.history:
            by = (yield from self._winners(request.move.lifecycle, {key: (before, revision)})).get(key)
        return not_moved(request, before, revision, fence, unmet, by)

    def _plan(self, request: MoveRequest) -> "_Plan":
        layout = sql.layout(request)
        swift = self.text_of_swift(request)
        return _Plan(self.text_of_one(request).picking(layout), swift.picking(layout) if swift else None)

    def _repeated(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """A call that may have been made before: look for it under the row's lock, then decide."""
        spec = request.move.lifecycle
        yield BEGIN
        try:
            values = sql.values(request)
            rows = yield self._render("move.lock", spec).bind(values)
            earlier = None
            if rows:
                seen = yield self._render("move.replay", spec).bind({**values, "key": rows[0][0]})
                if seen:
                    earlier = moved(request, seen[0][0], seen[0][1], None, replayed=True)
            answer = earlier
            if answer is None:
                answer = yield from self._decide(request, self._plan(request), sql.flat(request))
        except BaseException:
            yield ROLLBACK
            raise
        yield COMMIT
        return answer

    # Many rows

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Move many rows of one shape by their keys; waits for rows that others hold, in key order."""
        if not requests:
            return []
        answers = yield from self._bulk(requests, skip_locked=False)
        return [
            missing(request) if answer is None else answer
            for request, answer in zip(requests, answers, strict=True)
        ]

    def many_unlocked(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | None]]:
        """The same without ever waiting: a row that another transaction holds, or that is missing, is answered with None."""
        return (yield from self._bulk(requests, skip_locked=True))

    def _bulk(
        self, requests: Sequence[MoveRequest], skip_locked: bool
    ) -> Program[list[Answer[Any, Any] | None]]:
        first = requests[0]
        spec = first.move.lifecycle
        types = self._types.get(spec) or (yield from self._column_types(spec))
        shape = (first.shape, skip_locked, types["*"])
        prepared = self._texts.get(shape)
        if prepared is None:
            prepared = self._texts[shape] = self.text_of_many(first, types, skip_locked)
        distinct: dict[Any, int] = {}
        places = [distinct.setdefault(request.parts, len(distinct)) for request in requests]
        asked = (
            [requests[places.index(place)] for place in range(len(distinct))]
            if len(distinct) < len(requests)
            else requests
        )
        try:
            rows = yield prepared.bind({**sql.values(first), **_arrays(asked)})
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        except Conflicted as lost:
            return [conflict(request, lost.__cause__ or lost) for request in requests]
        found: list[Row] = [_NO_ROW] * len(asked)
        losers: dict[str, tuple[str, Any]] = {}
        for ordinal, *row in rows:
            found[ordinal - 1] = row
            if not row[5]:
                losers[row[4]] = (row[0], row[1])
        winners = (yield from self._winners(spec, losers)) if spec.history and losers else {}
        answers = [_answer(request, row, winners) for request, row in zip(asked, found, strict=True)]
        if len(asked) == len(requests):
            return answers
        taken: set[int] = set()
        result: list[Answer[Any, Any] | None] = []
        for request, place in zip(requests, places, strict=True):
            answer = answers[place]
            result.append(again(request, answer) if place in taken and answer is not None else answer)
            taken.add(place)
        return result

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        """Move all rows that match the request's guards and are at a source of its move."""
        spec = request.move.lifecycle
        try:
            rows = yield self._text_of_matching(request).bind({**sql.values(request), "limit": limit})
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost)]
        except Conflicted as lost:
            return [conflict(request, lost.__cause__ or lost)]
        answers = []
        for before, revision, *rest in rows:
            key = tuple(rest[1 if spec.tenant else 0 : len(spec.key_columns)])
            one = replace(request, key=key if len(key) > 1 else key[0])
            answers.append(moved(one, before, revision, request.row(rest[len(spec.key_columns) :])))
        return answers

    # Who won

    def _winners(self, spec: Spec[Any], losers: dict[str, tuple[str, Any]]) -> Program[dict[str, str | None]]:
        """Who moved these rows to where they were found; left out where the row has moved on since."""
        rows = yield self._render("move.who", spec).bind({"keys": list(losers)})
        return {key: actor for key, after, revision, actor in rows if losers[key] == (after, revision)}

    # Looking

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        """The row with all its columns, or None."""
        names = [str(name) for name, _ in (yield self._render("move.types", spec).bind({}))]
        slots = {**sql.declared(spec), "columns": ", ".join(f"t.{identifier(name)}" for name in names)}
        statement = _TEMPLATES["move.read"].prepare(slots, self.style)
        rows = yield statement.bind({f"key_{i}": part for i, part in enumerate(parts)})
        return dict(zip(names, rows[0], strict=True)) if rows else None

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        """The newest rows of the history of one row, newest first."""
        return (yield self._render("move.history", spec).bind({"key": key_text(parts), "limit": limit}))

    # Texts

    def text_of_swift(self, request: MoveRequest) -> Prepared | None:
        """The guarded UPDATE alone, where its RETURNING can tell what the row was before."""
        spec, move = request.move.lifecycle, request.move
        if len(move.sources) == 1:
            before = literal(move.sources[0])
        elif self.version >= _RETURNS_OLD:
            before = f"old.{identifier(spec.column)}::text"
        else:
            return None
        guards = sql.guards(request)
        slots = {
            **self._slots(request, guards, parameter("set_{}")),
            "before": before,
            "guards": lines((text for _, text in guards), " AND"),
            "move": literal(move.name),
            "target": literal(move.target),
            "now": _now(request),
        }
        return _TEMPLATES["move.swift" if spec.history else "move.swift without history"].prepare(
            slots, self.style
        )

    def text_of_one(self, request: MoveRequest) -> Prepared:
        slots = {
            **self._slots(request, sql.guards(request), parameter("set_{}")),
            **self._note(request, _OWN, "TRUE"),
        }
        return _TEMPLATES["move.one"].prepare(slots, self.style)

    def text_of_many(self, request: MoveRequest, types: dict[str, str], skip_locked: bool) -> Prepared:
        spec = request.move.lifecycle
        guards = sql.guards(request, "w.rp_fence_wanted", "w.rp_revision_wanted")
        columns = {f"rp_wanted_{i}": types[column] for i, column in enumerate(spec.key_columns)}
        columns |= {f"rp_set_{i}": types[column] for i, column in enumerate(request.set)}
        columns |= {"rp_fence_wanted": "bigint"} if request.fence is not None else {}
        columns |= {"rp_revision_wanted": "bigint"} if request.revision is not None else {}
        columns |= {"rp_by": "text", "rp_reason": "text", "rp_call": "text"} if spec.history else {}
        wanted = [f"t.{identifier(c)} = w.rp_wanted_{i}" for i, c in enumerate(spec.key_columns)]
        slots = {
            **self._slots(request, guards, "cur.rp_set_{}"),
            **self._note(
                request, ("cur.rp_by", "cur.rp_reason", "cur.rp_call"), "changed.rp_ord = cur.rp_ord"
            ),
            "arrays": lines((f"{parameter(name)}::{type_}[]" for name, type_ in columns.items()), ","),
            "wanted": ", ".join(columns),
            "t_is_wanted": " AND ".join(wanted),
            "skip_locked": _SKIP_LOCKED if skip_locked else "",
        }
        return _TEMPLATES["move.many"].prepare(slots, self.style)

    def _text_of_matching(self, request: MoveRequest) -> Prepared:
        spec = request.move.lifecycle
        guards = sql.guards(request)
        keys = range(len(spec.key_columns))
        same_row = " AND ".join(f"changed.rp_key_{i} = cur.rp_key_{i}" for i in keys)
        slots = {
            **self._slots(request, guards, parameter("set_{}")),
            **self._note(request, _OWN, same_row, losers=False),
            "guards": lines((text for _, text in guards), " AND"),
            "t_keys_as": ", ".join(
                f"t.{identifier(c)} AS rp_key_{i}" for i, c in enumerate(spec.key_columns)
            ),
            "changed_keys": ", ".join(f"changed.rp_key_{i}" for i in keys),
            "cur_is_changed": same_row,
        }
        return _TEMPLATES["move.matching"].prepare(slots, self.style)

    def _slots(self, request: MoveRequest, guards: list[tuple[int, str]], value: str) -> dict[str, str]:
        spec = request.move.lifecycle
        columns = [identifier(column) for column in spec.key_columns]
        return {
            **sql.declared(spec),
            "keys": ", ".join(f"t.{column} AS rp_key_{i}" for i, column in enumerate(columns)),
            "t_keys": ", ".join(f"t.{column}" for column in columns),
            "t_is_cur": " AND ".join(f"t.{column} = cur.rp_key_{i}" for i, column in enumerate(columns)),
            "revision": f"t.{identifier(spec.revision)}" if spec.revision else "NULL::bigint",
            "fence": f"t.{identifier(spec.fence)}" if spec.fence else "NULL::bigint",
            "key_text": sql.key_text(spec, "{}::text") if spec.history else "NULL::text",
            "unmet": sql.unmet(guards),
            "assignments": sql.assignments(request, _now(request), value),
            "sources": sql.sources(request),
            "returning": sql.column_list(request.returning, "t."),
            "returned": sql.column_list(request.returning, "changed."),
        }

    def _note(
        self, request: MoveRequest, who: tuple[str, str, str], joined: str, losers: bool = True
    ) -> dict[str, str]:
        """The history's part of a text: winners alone, or every decision where losers are recorded too."""
        spec = request.move.lifecycle
        if spec.history is None:
            return {"noted": ""}
        target = literal(request.move.target)
        if losers and spec.history.losers:
            join, revision = "LEFT JOIN", "COALESCE(changed.rp_revision, cur.rp_revision)"
            outcome = (
                "CASE WHEN changed.rp_won THEN 'moved' WHEN cur.rp_unmet & 1 = 1 THEN 'lost'"
                f" WHEN cur.rp_before = {target} THEN 'already' ELSE 'refused' END"
            )
        else:
            join, revision, outcome = "JOIN", "changed.rp_revision", "'moved'"
        slots = {
            **sql.declared(spec),
            "move": literal(request.move.name),
            "outcome": outcome,
            "target": target,
            "noted_revision": revision,
            "actor": who[0],
            "reason": who[1],
            "call": who[2],
            "now": _now(request),
            "noted_join": f"{join} changed ON {joined}",
        }
        return {"noted": _TEMPLATES["move.note"].fill(slots)}

    def _render(self, name: str, spec: Spec[Any]) -> Prepared:
        key = (name, spec)
        prepared = self._texts.get(key)
        if prepared is None:
            slots = {
                **sql.declared(spec),
                "key_text": sql.key_text(spec, "{}::text"),
                "regclass": literal(qualified(spec.table)),
            }
            prepared = self._texts[key] = _TEMPLATES[name].prepare(slots, self.style)
        return prepared

    def _column_types(self, spec: Spec[Any]) -> Program[dict[str, str]]:
        """The types of the columns that bulk moves pass as arrays; under "*" all of them, to know two databases apart."""
        rows = yield self._render("move.types", spec).bind({})
        found = {str(name): str(type_) for name, type_ in rows}
        types = {}
        for column in (*spec.key_columns, *(c for one in spec.moves.values() for c in one.sets)):
            if column not in found:
                raise CallError(
                    f"{spec}: table {spec.table} has no column {column!r}; `raceproof verify` shows what differs"
                )
            types[column] = found[column]
        types["*"] = repr(sorted(types.items()))
        self._types[spec] = types
        return types


def _answer(request: MoveRequest, row: Row, winners: dict[str, str | None]) -> Answer[Any, Any] | None:
    before, revision, fence, unmet, key, won, new_revision, *returned = row
    if before is None:
        return None
    if won:
        return moved(request, before, new_revision, request.row(returned))
    return not_moved(request, before, revision, fence, unmet, winners.get(key))


def _arrays(requests: Sequence[MoveRequest]) -> dict[str, list[Any]]:
    first = requests[0]
    arrays: dict[str, list[Any]] = {
        f"rp_wanted_{i}": [request.parts[i] for request in requests] for i in range(len(first.parts))
    }
    for i, column in enumerate(first.set):
        arrays[f"rp_set_{i}"] = [request.set[column] for request in requests]
    if first.fence is not None:
        arrays["rp_fence_wanted"] = [request.fence for request in requests]
    if first.revision is not None:
        arrays["rp_revision_wanted"] = [request.revision for request in requests]
    if first.move.lifecycle.history:
        arrays["rp_by"] = [request.by for request in requests]
        arrays["rp_reason"] = [request.reason for request in requests]
        arrays["rp_call"] = [request.call for request in requests]
    return arrays


def _now(request: MoveRequest) -> str:
    return "clock_timestamp()" if request.now is None else parameter("now") + "::timestamptz"
