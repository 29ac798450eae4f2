"""The ends of many claims on PostgreSQL: those that hold their row in one quick statement, the others as usual.

Hardly anybody else locks a row that is held, so nothing is locked beforehand. If a deadlock comes of it nevertheless,
nothing was written, and the usual way follows, which locks in key order.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Protocol

from raceproof.moves import sql
from raceproof.moves.answer import conflict, unknown
from raceproof.moves.postgres_texts import PostgresTexts
from raceproof.moves.request import MoveRequest, of_claims
from raceproof.outcome import Answer, Claim, Moved
from raceproof.spec import Move, Spec
from raceproof.statement import (
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

_MANY = 100
"""Rows of one fence for which a statement of their own is worth while."""

Requests = Callable[[Sequence[int]], list[MoveRequest]]
"""The requests at these places; most are never needed."""


class Usual(Protocol):
    """The moves of the same connection."""

    texts: PostgresTexts
    in_transaction: Callable[[], bool]

    def column_types(self, spec: Spec[Any]) -> Program[dict[str, str]]: ...
    def waiting(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]: ...


class PostgresEnds:
    """Quick ends; whatever they do not reach has its answer from the usual moves."""

    def __init__(self, usual: Usual) -> None:
        self._usual = usual
        self._alike: dict[Hashable, Prepared] = {}

    def of_requests(
        self, requests: Sequence[MoveRequest], arrays: dict[str, list[Any]]
    ) -> Program[list[Answer[Any, Any]]]:
        """The ends of claims that write something of their own."""
        keys = [request.key for request in requests]
        return (
            yield from self._joined(
                requests[0], keys, arrays, lambda places: [requests[place] for place in places]
            )
        )

    def of_claims(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """The ends of claims that are all alike but for key and fence; None for one that moved, with no more to tell."""
        move = first.move
        requests = partial(_requests, first, claims)
        if len(move.sources) == 1 and not move.lifecycle.revision and not first.returning:
            fences = {one.fence for one in claims}
            if len(fences) == 1:
                return (yield from self._by_fence(first, claims, [range(len(claims))], requests))
            if len(claims) >= _MANY * len(fences) and not self._usual.in_transaction():
                return (yield from self._by_fence(first, claims, _places_by_fence(claims), requests))
        keys = [one.key for one in claims]
        arrays = {"rp_wanted_0": keys, "rp_fence_wanted": [one.fence for one in claims]}
        return (yield from self._joined(first, keys, arrays, requests))

    def _by_fence(
        self,
        first: MoveRequest,
        claims: Sequence[Claim[Any, Any]],
        groups: Sequence[Sequence[int]],
        requests: Requests,
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """A statement for the claims of each fence, and all of them or none."""
        prepared = self._alike.get(first.shape)
        if prepared is None:
            types = yield from self._usual.column_types(first.move.lifecycle)
            prepared = self._alike[first.shape] = self._usual.texts.swift_alike(first, types)
        statements = []
        for group in groups:
            own = {"rp_wanted_0": [claims[place].key for place in group], "fence": claims[group[0]].fence}
            plain = len(prepared.order) == len(own)
            statements.append(prepared.bind(own if plain else {**sql.values(first), **own}))
        told, answers = yield from self._asked(_all_or_none(statements), requests, len(claims))
        if answers is not None:
            return answers
        found: list[Answer[Any, Any] | None] = [None] * len(claims)
        left: list[int] = []
        for group, ((moved,),) in zip(groups, told, strict=True):
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
        types = yield from self._usual.column_types(move.lifecycle)
        prepared = self._usual.texts.swift_many(first, types)
        order = _in_order(arrays, len(first.parts))
        if prepared is None or order is None:
            return (yield from self._usual.waiting(requests(places)))
        if order != list(places):
            arrays = {name: [array[place] for place in order] for name, array in arrays.items()}
        given = arrays if prepared.order == tuple(arrays) else {**sql.values(first), **arrays}
        found, told = yield from self._asked(_all_or_none([prepared.bind(given)]), requests, len(keys))
        if told is not None:
            return told
        (rows,) = found
        status_of = move.lifecycle.status_of
        answers: list[Any] = [None] * len(keys)
        for ordinal, before, revision, *returned in rows if first.returning else _unfolded(rows, move):
            place = order[ordinal - 1]
            answers[place] = Moved(
                keys[place], move, status_of.get(before, before), revision, returned or None
            )
        left = [place for place, answer in enumerate(answers) if answer is None]
        if left:
            yield from self._ask_again(answers, left, requests)
        return answers

    def _asked(
        self, program: Program[list[Rows]], requests: Requests, number: int
    ) -> Program[tuple[list[Rows], list[Answer[Any, Any]] | None]]:
        """What a program found; or, if it did not come to an end, the answers for all."""
        alone = not self._usual.in_transaction()
        try:
            return (yield from program), None
        except AcknowledgementLost as lost:
            return [], [unknown(request, lost.__cause__ or lost) for request in requests(range(number))]
        except Conflicted as lost:
            if alone:
                return [], (yield from self._usual.waiting(requests(range(number))))
            return [], [conflict(request, lost.__cause__ or lost) for request in requests(range(number))]

    def _ask_again(self, answers: list[Any], left: Sequence[int], requests: Requests) -> Program[None]:
        """What was not reached has its answer in the usual way."""
        told = yield from self._usual.waiting(requests(left))
        for place, answer in zip(left, told, strict=True):
            answers[place] = answer


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


def _requests(
    first: MoveRequest, claims: Sequence[Claim[Any, Any]], places: Sequence[int]
) -> list[MoveRequest]:
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
    """The rows that a statement has told as one row of arrays; what is the same for all was not told."""
    for ordinals, before, revisions in rows:
        yield from zip(
            ordinals or (), before or repeat(move.sources[0]), revisions or repeat(None), strict=False
        )
