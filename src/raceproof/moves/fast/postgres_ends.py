"""The ends of many claims on PostgreSQL: those that hold their row in one fast statement, the others in the plain way.

The rule: a row that comes back has passed the guards of move.many, and one that does not is decided by move.many. Other
transactions rarely lock a row that is held, so nothing is locked beforehand. If a deadlock results anyway, nothing was
written, and the plain way follows, which locks in key order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Protocol

from raceproof.claims.answers import Claim
from raceproof.declare.spec import Move
from raceproof.kernel.dialect import Texts
from raceproof.kernel.postgres import PostgresDialect
from raceproof.kernel.quoting import identifier, literal
from raceproof.kernel.statement import (
    BEGIN,
    AcknowledgementLost,
    Conflicted,
    Prepared,
    Program,
    Row,
    Rows,
    Statement,
    transaction,
)
from raceproof.moves import slots
from raceproof.moves.answers import Answer, Moved
from raceproof.moves.request import MoveRequest, of_claims

_MANY = 100
"""Rows of one fence for which a statement of their own is worth while."""

Requests = Callable[[Sequence[int]], list[MoveRequest]]
"""The requests at these places; most are never needed."""


class Plain(Protocol):
    """The moves of the same connection."""

    dialect: PostgresDialect
    fast_texts: Texts

    def slots(
        self, request: MoveRequest, value: str = ..., fence: str = ..., revision: str = ...
    ) -> dict[str, str]: ...
    def wanted(self, request: MoveRequest, types: Mapping[str, str]) -> dict[str, str]: ...
    def waiting(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]: ...


class PostgresEnds:
    """Fast ends; whatever they do not reach has its answer from the plain moves."""

    def __init__(self, plain: Plain) -> None:
        self._plain = plain

    def of_requests(
        self, requests: Sequence[MoveRequest], arrays: dict[str, list[Any]]
    ) -> Program[list[Answer[Any, Any]]]:
        """The ends of claims that write something of their own."""
        keys = [request.key for request in requests]
        return (
            yield from self._joined(requests[0], keys, arrays, lambda places: [requests[place] for place in places])
        )

    def of_claims(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """The ends of claims that are all alike but for key and fence; None for one that moved, with nothing more to say."""
        move = first.move
        requests = partial(_requests, first, claims)
        if len(move.sources) == 1 and not move.lifecycle.revision and not first.returning:
            fences = {one.fence for one in claims}
            if len(fences) == 1:
                return (yield from self._by_fence(first, claims, [range(len(claims))], requests))
            if len(claims) >= _MANY * len(fences) and not self._plain.dialect.in_transaction():
                return (yield from self._by_fence(first, claims, _places_by_fence(claims), requests))
        keys = [one.key for one in claims]
        arrays = {"rp_wanted_0": keys, "rp_fence_wanted": [one.fence for one in claims]}
        return (yield from self._joined(first, keys, arrays, requests))

    def _by_fence(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]], groups: Sequence[Sequence[int]], requests: Requests
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """A statement for the claims of each fence, and all of them or none."""
        types = yield from self._plain.dialect.column_types(first.move.lifecycle)
        prepared = self.alike_text(first, types)
        statements = []
        for group in groups:
            own = {"rp_wanted_0": [claims[place].key for place in group], "fence": claims[group[0]].fence}
            plain = len(prepared.order) == len(own)
            statements.append(prepared.bind(own if plain else {**slots.values(first), **own}))
        counts, answers = yield from self._asked(_all_or_none(statements), requests, len(claims))
        if answers is not None:
            return answers
        found: list[Answer[Any, Any] | None] = [None] * len(claims)
        left: list[int] = []
        for group, ((moved,),) in zip(groups, counts, strict=True):
            if moved is not None:
                there = {place - 1 for place in moved}
                left += [place for number, place in enumerate(group) if number not in there]
        if left:
            yield from self._ask_again(found, left, requests)
        return found

    def _joined(
        self, first: MoveRequest, keys: Sequence[Any], arrays: dict[str, list[Any]], requests: Requests
    ) -> Program[list[Answer[Any, Any]]]:
        """Claims that have each something of their own."""
        move, places = first.move, range(len(keys))
        types = yield from self._plain.dialect.column_types(move.lifecycle)
        order = _in_order(arrays, len(first.parts))
        if order is None or (len(move.sources) > 1 and not self._plain.dialect.returns_old):
            return (yield from self._plain.waiting(requests(places)))
        prepared = self._many_text(first, types)
        if order != list(places):
            arrays = {name: [array[place] for place in order] for name, array in arrays.items()}
        given = arrays if prepared.order == tuple(arrays) else {**slots.values(first), **arrays}
        found, plain = yield from self._asked(_all_or_none([prepared.bind(given)]), requests, len(keys))
        if plain is not None:
            return plain
        (rows,) = found
        status_of = move.lifecycle.status_of
        answers: list[Any] = [None] * len(keys)
        for ordinal, before, revision, *returned in rows if first.returning else _unfolded(rows, move):
            place = order[ordinal - 1]
            answers[place] = Moved(keys[place], move, status_of.get(before, before), revision, returned or None)
        left = [place for place, answer in enumerate(answers) if answer is None]
        if left:
            yield from self._ask_again(answers, left, requests)
        return answers

    def _asked(
        self, program: Program[list[Rows]], requests: Requests, number: int
    ) -> Program[tuple[list[Rows], list[Answer[Any, Any]] | None]]:
        """What a program found; or, if it did not come to an end, the answers for all."""
        alone = not self._plain.dialect.in_transaction()
        try:
            return (yield from program), None
        except AcknowledgementLost as error:
            return [], [request.unknown(error) for request in requests(range(number))]
        except Conflicted as error:
            if alone:
                return [], (yield from self._plain.waiting(requests(range(number))))
            return [], [request.conflict(error) for request in requests(range(number))]

    def _ask_again(self, answers: list[Any], left: Sequence[int], requests: Requests) -> Program[None]:
        """What was not reached has its answer in the plain way."""
        plain = yield from self._plain.waiting(requests(left))
        for place, answer in zip(left, plain, strict=True):
            answers[place] = answer

    # Texts

    def alike_text(self, request: MoveRequest, types: Mapping[str, str]) -> Prepared:
        """For rows with one fence, and a key of one column."""
        (column,) = request.move.lifecycle.key_columns
        own = {"key": identifier(column), "key_type": types[column]}
        return self._plain.fast_texts.get(
            "move.fast_same", (request.shape, types[column]), lambda: {**self._plain.slots(request), **own}
        )

    def _many_text(self, request: MoveRequest, types: Mapping[str, str]) -> Prepared:
        """For rows that have each something of their own."""
        return self._plain.fast_texts.get(
            "move.fast_many", (request.shape, tuple(types.items())), lambda: self._many_slots(request, types)
        )

    def _many_slots(self, request: MoveRequest, types: Mapping[str, str]) -> Mapping[str, str]:
        spec, several = request.move.lifecycle, len(request.move.sources) > 1
        slots = {
            **self._plain.slots(request, "w.rp_set_{}", "w.rp_fence_wanted", "w.rp_revision_wanted"),
            **self._plain.wanted(request, types),
            "before": f"old.{identifier(spec.column)}::text" if several else literal(request.move.sources[0]),
            "own": ", w.rp_by, w.rp_reason, w.rp_call" if spec.history else "",
            "swift_note": "",
        }
        if request.returning:
            slots["answers"] = f"rp_ord, rp_before, rp_revision{slots['returned']}"
        else:
            varying = {"rp_ord": True, "rp_before": several, "rp_revision": spec.revision}
            slots["answers"] = ", ".join(f"array_agg({c})" if varies else "NULL" for c, varies in varying.items())
        if spec.history:
            slots["swift_note"] = "\n" + self._plain.fast_texts.fill("move.fast_note", slots)
        return slots


def _all_or_none(statements: Sequence[Statement]) -> Program[list[Rows]]:
    """What each of them has found; one alone needs no transaction around it."""
    if len(statements) == 1:
        return [(yield statements[0])]
    return (yield from transaction(BEGIN, _each(statements)))


def _each(statements: Sequence[Statement]) -> Program[list[Rows]]:
    found = []
    for statement in statements:
        found.append((yield statement))
    return found


def _requests(first: MoveRequest, claims: Sequence[Claim[Any, Any]], places: Sequence[int]) -> list[MoveRequest]:
    return of_claims(first, [claims[place] for place in places])


def _places_by_fence(claims: Sequence[Claim[Any, Any]]) -> list[list[int]]:
    """The places of the claims of each fence."""
    places: dict[Any, list[int]] = {}
    for place, one in enumerate(claims):
        places.setdefault(one.fence, []).append(place)
    return list(places.values())


def _in_order(arrays: dict[str, list[Any]], columns: int) -> list[int] | None:
    """The places of many rows in the order of their keys; None if these are of several types, which have no order here."""
    keys: Sequence[Any] = arrays["rp_wanted_0"]
    if columns > 1:
        keys = list(zip(*(arrays[f"rp_wanted_{i}"] for i in range(columns)), strict=True))
    try:
        return sorted(range(len(keys)), key=keys.__getitem__)
    except TypeError:
        return None


def _unfolded(rows: Rows, move: Move[Any]) -> Iterable[Row]:
    """The rows of a statement that answers with one row of arrays; what is the same for all rows is left out."""
    for ordinals, before, revisions in rows:
        yield from zip(ordinals or (), before or repeat(move.sources[0]), revisions or repeat(None), strict=False)
