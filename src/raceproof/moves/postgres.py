"""Moves on PostgreSQL, as programs over the statements in `postgres.sql`.

Promise: one statement is one decision, history included. Only a repeated call (`call=`) takes two statements in one
transaction, because it must see what was committed while it waited for the row.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from raceproof.errors import CallError
from raceproof.events import log
from raceproof.moves import sql
from raceproof.moves.answer import again, conflict, missing, moved, moved_with, not_moved, unknown
from raceproof.moves.postgres_ends import PostgresEnds
from raceproof.moves.postgres_texts import Plan, postgres_texts
from raceproof.moves.request import KeyParts, MoveRequest, key_text, of_claims
from raceproof.outcome import Answer, Claim
from raceproof.spec import Spec
from raceproof.statement import (
    BEGIN,
    AcknowledgementLost,
    Conflicted,
    Program,
    Row,
    Rows,
    Style,
    reading,
    transaction,
)

_NO_ROW: Row = (None,) * 7
_SMALL_FOR = 60.0
"""Seconds after which a table without statistics is looked at again."""


class Table(NamedTuple):
    """What PostgreSQL knows of a table."""

    partitioned: bool
    """Its rows are in several tables, or it is none."""
    grown: bool
    """It has statistics, and of more than a few rows: a plan that is made once is made for a big table."""


class Catalogue:
    """What PostgreSQL said about the tables of one database: asked once, shared by all stores on it."""

    __slots__ = ("__weakref__", "tables", "types")

    def __init__(self) -> None:
        self.types: dict[Spec[Any], dict[str, str]] = {}
        self.tables: dict[Spec[Any], tuple[Table, float]] = {}
        """With the time of asking: a table may grow."""


class PostgresMoves:
    """The programs of moves on one database."""

    def __init__(self, style: Style, version: int, catalogue: Catalogue | None = None) -> None:
        self.style: Style = style
        self.version = version
        """The server's major version; 0 if it is not known yet."""
        self.in_transaction: Callable[[], bool] = lambda: False
        """Whether the connection is in a transaction of the caller's; a driver that can be says so."""
        self.by_index = False
        """Whether rows are found by an index on this connection, whatever the statistics say: then a plan can be kept."""
        self.texts = postgres_texts(style, version)
        self._catalogue = Catalogue() if catalogue is None else catalogue
        self._ends = PostgresEnds(self)

    # One row

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        try:
            if request.repeat:
                return (yield from transaction(BEGIN, self._repeated(request)))
            plan = self.texts.plans.get(request.shape) or self.texts.plan(request)
            values = sql.flat(request)
            if plan.swift is not None:
                rows = yield plan.swift(values)
                if rows:
                    before, revision, *returned = rows[0]
                    return moved_with(request, before, revision, returned)
            return (yield from self._decide(request, plan, values))
        except AcknowledgementLost as lost:
            return unknown(request, lost.__cause__ or lost)
        except Conflicted as lost:
            return conflict(request, lost.__cause__ or lost)

    def _decide(self, request: MoveRequest, plan: Plan, values: Sequence[Any]) -> Program[Answer[Any, Any]]:
        rows = yield plan.full(values)
        if not rows:
            return missing(request)
        before, revision, fence, unmet, key, won, new_revision, *returned = rows[0]
        if won:
            return moved_with(request, before, new_revision, returned)
        by = None
        if request.move.lifecycle.history:
            by = (yield from self._winners(request.move.lifecycle, {key: (before, revision)})).get(key)
        return not_moved(request, before, revision, fence, unmet, by)

    def _repeated(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """A call that may have been made before: look for it under the row's lock, then decide."""
        spec = request.move.lifecycle
        values = sql.values(request)
        rows = yield self.texts.plain("move.lock", spec).bind(values)
        if rows:
            seen = yield self.texts.plain("move.replay", spec).bind(
                {"key": rows[0][0], "call": request.call, "move": request.move.name}
            )
            if seen:
                return moved(request, seen[0][0], seen[0][1], None, replayed=True)
        return (yield from self._decide(request, self.texts.plan(request), sql.flat(request)))

    # Many rows

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Move many rows of one shape by their keys; waits for rows that others hold, in key order."""
        if not requests:
            return []
        if (yield from self._sets_arrays(requests[0])):
            return (yield from self._one_by_one(requests))
        if requests[0].clears and not requests[0].ended:
            return (yield from self._ends.of_requests(requests, _arrays(requests)))
        return (yield from self.waiting(requests))

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """The same for claims, of which `first` is the request of the first: most need none of their own."""
        spec = first.move.lifecycle
        usual = first.ended or first.set or first.revision is not None
        if not first.clears or not spec.plain_key or spec.history or usual:
            return (yield from self.many(of_claims(first, claims)))
        return (yield from self._ends.of_claims(first, claims))

    def waiting(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Many rows, however long somebody holds them."""
        answers = yield from self._bulk(requests, skip_locked=False)
        if unseen := [place for place, answer in enumerate(answers) if answer is None]:
            # missing, or named twice in different spellings: after the first has moved, the second is not seen
            repeated = yield from self._bulk([requests[place] for place in unseen], skip_locked=False)
            for place, answer in zip(unseen, repeated, strict=True):
                answers[place] = answer
        return [
            missing(request) if answer is None else answer
            for request, answer in zip(requests, answers, strict=True)
        ]

    def many_unlocked(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any] | None]]:
        """The same without waiting: a row that another transaction holds is answered with None."""
        if (yield from self._sets_arrays(requests[0])):
            return [None] * len(requests)
        try:
            answers = yield from self._bulk(requests, skip_locked=True)
        except Conflicted:
            return [None] * len(requests)
        if unseen := [place for place, answer in enumerate(answers) if answer is None]:
            there = yield from self._present([requests[place] for place in unseen])
            for place, present in zip(unseen, there, strict=True):
                answers[place] = None if present else missing(requests[place])
        return answers

    def _sets_arrays(self, request: MoveRequest) -> Program[bool]:
        """An array of arrays would come apart in the statement for many."""
        if not request.set:
            return False
        spec = request.move.lifecycle
        types = yield from self.column_types(spec)
        return any(types[column].endswith("[]") for column in request.set)

    def _one_by_one(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        """Many rows in one transaction, in key order."""

        def each() -> Program[dict[int, Answer[Any, Any]]]:
            answers = {}
            for place in sorted(range(len(requests)), key=lambda place: str(requests[place].parts)):
                request = requests[place]
                answers[place] = yield from self._decide(request, self.texts.plan(request), sql.flat(request))
            return answers

        try:
            answers = yield from transaction(BEGIN, each())
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        except Conflicted as lost:
            return [conflict(request, lost.__cause__ or lost) for request in requests]
        return [answers[place] for place in range(len(requests))]

    def _present(self, requests: Sequence[MoveRequest]) -> Program[list[bool]]:
        """Which of these rows are there, whoever holds them; if that cannot be told, they are asked for alone.

        The others of the statement are committed by now, so no error may take their answers away.
        """
        first = requests[0]
        prepared = self.texts.present(first, self._catalogue.types[first.move.lifecycle])
        try:
            rows = yield prepared.bind(_arrays(requests))
        except Exception as error:
            log.warning(
                "%s: could not be asked which rows are there: %s", first.move, error.__cause__ or error
            )
            return [True] * len(requests)
        there = {ordinal for (ordinal,) in rows}
        return [place in there for place in range(1, len(requests) + 1)]

    def _bulk(
        self, requests: Sequence[MoveRequest], skip_locked: bool
    ) -> Program[list[Answer[Any, Any] | None]]:
        first = requests[0]
        spec = first.move.lifecycle
        types = yield from self.column_types(spec)
        prepared = self.texts.for_many(first, types, skip_locked)
        distinct: dict[Any, int] = {}
        places = [distinct.setdefault(request.parts, len(distinct)) for request in requests]
        asked = requests
        if len(distinct) < len(requests):
            firsts: dict[int, MoveRequest] = {}
            for request, place in zip(requests, places, strict=True):
                firsts.setdefault(place, request)
            asked = list(firsts.values())
        try:
            rows = yield prepared.bind({**sql.values(first), **_arrays(asked)})
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost) for request in requests]
        except Conflicted as lost:
            if skip_locked:
                raise
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
            # None: asked for again, after the first
            result.append(again(request, answer) if place in taken and answer is not None else answer)
            taken.add(place)
        return result

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        """Move all rows that match the request's guards and are at a source of its move."""
        spec = request.move.lifecycle
        try:
            rows = yield self.texts.matching(request).bind({**sql.values(request), "limit": limit})
        except AcknowledgementLost as lost:
            return [unknown(request, lost.__cause__ or lost)]
        except Conflicted as lost:
            return [conflict(request, lost.__cause__ or lost)]
        answers = []
        for before, revision, *rest in rows:
            key = tuple(rest[1 if spec.tenant else 0 : len(spec.key_columns)])
            one = replace(request, key=key if len(key) > 1 else key[0])
            answers.append(moved_with(one, before, revision, rest[len(spec.key_columns) :]))
        return answers

    # Who won

    def _winners(self, spec: Spec[Any], losers: dict[str, tuple[str, Any]]) -> Program[dict[str, str | None]]:
        """Who moved these rows to where they were found; left out where the row has moved on since.

        The decision is made and may be committed already: that this cannot be told must not become an error of the move.
        """
        inside = self.in_transaction()
        try:
            rows = yield self.texts.plain("move.who", spec).bind({"keys": list(losers)})
        except Exception as error:
            if inside:
                raise  # it has ended the caller's transaction, so nothing was kept
            log.warning("%s: the history could not be asked who won: %s", spec, error.__cause__ or error)
            return {}
        return {key: actor for key, after, revision, actor in rows if losers[key] == (after, revision)}

    # Looking

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        """The row with all its columns, or None."""
        names = yield from self.columns(spec)
        statement = self.texts.read(spec, names)
        rows = yield statement.bind({f"key_{i}": part for i, part in enumerate(parts)})
        return dict(zip(names, rows[0], strict=True)) if rows else None

    def columns(self, spec: Spec[Any]) -> Program[list[str]]:
        """The names of the table's columns, in order."""
        return [str(name) for name, _ in (yield self.texts.plain("move.types", spec).bind({}))]

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        """The newest rows of the history of one row, newest first."""
        return (yield self.texts.plain("move.history", spec).bind({"key": key_text(parts), "limit": limit}))

    def table(self, spec: Spec[Any]) -> Program[Table]:
        """What kind of table the rows are in; asked again every minute while it is small."""
        known, asked = self._catalogue.tables.get(spec, (None, 0.0))
        now = time.monotonic()
        if known is not None and (known.grown or now - asked < _SMALL_FOR):
            return known
        rows = yield from reading(self._ask("move.table", spec))
        found = Table(*map(bool, rows[0])) if rows else Table(partitioned=True, grown=False)
        self._catalogue.tables[spec] = found, now
        return found

    def _ask(self, name: str, spec: Spec[Any]) -> Program[Rows]:
        return (yield self.texts.plain(name, spec).bind({}))

    def column_types(self, spec: Spec[Any]) -> Program[dict[str, str]]:
        """The types of the columns that bulk moves and claims pass as arrays."""
        if known := self._catalogue.types.get(spec):
            return known
        rows = yield from reading(self._ask("move.types", spec))
        found = {str(name): str(type_) for name, type_ in rows}
        types = {}
        for column in (*spec.key_columns, *(c for one in spec.moves.values() for c in one.sets)):
            if column not in found:
                raise CallError(
                    f"{spec}: table {spec.table} has no column {column!r}; `raceproof verify` shows what differs"
                )
            types[column] = found[column]
        types |= {c: found[c] for c in (one.form.fence_column for one in spec.claims.values()) if c in found}
        self._catalogue.types[spec] = types
        return types


def _answer(request: MoveRequest, row: Row, winners: dict[str, str | None]) -> Answer[Any, Any] | None:
    before, revision, fence, unmet, key, won, new_revision, *returned = row
    if before is None:
        return None
    if won:
        return moved_with(request, before, new_revision, returned)
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
