"""Moves on SQL databases: what PostgreSQL and SQLite share. How each decides about one row is in the files beside this one.

Promise: one decision is one atomic write, history included; of many rows all are decided in one transaction, in key order,
so that two bulks cannot deadlock. Keeps P1, P2 and P4.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.kernel.dialect import SqlDialect, Texts
from raceproof.kernel.keys import user_key
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Program, Statement, transaction
from raceproof.moves import slots
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest, of_claims

Answers = list[Answer[Any, Any]]


class SqlMoves(ABC):
    """The programs of moves."""

    def __init__(self, dialect: Any) -> None:
        self.dialect: SqlDialect = dialect
        self.texts: Texts = dialect.texts("moves", "move.sql")

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """Move one row by its key."""
        try:
            return (yield from self._alone(request))
        except AcknowledgementLost as error:
            return request.unknown(error)
        except Conflicted as error:
            return request.conflict(error)

    def many(self, requests: Sequence[MoveRequest]) -> Program[Answers]:
        """Move many rows by their keys, all in one transaction."""
        order = sorted(range(len(requests)), key=lambda place: str(requests[place].parts))
        in_order = [requests[place] for place in order]
        answers = (yield from self.all_or_none(in_order, self._each(in_order))) if requests else []
        placed = dict(zip(order, answers, strict=True))
        return [placed[place] for place in range(len(requests))]

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        """The same for claims of one kind; `first` is the request of the first of them."""
        return (yield from self.many(of_claims(first, claims)))

    def matching(self, request: MoveRequest, limit: int | None) -> Program[Answers]:
        """Move all rows that match the request's guards and are at a source of its move."""
        return (yield from self.all_or_none([request], self._matching(request, limit)))

    def _matching(self, request: MoveRequest, limit: int | None) -> Program[Answers]:
        text = self.texts.get("move.matching", request.shape, lambda: self.slots(request))
        rows = yield text.bind(self.dialect.bound(slots.values(request)) | {"limit": slots.limit(limit)})
        spec = request.move.lifecycle
        found = [replace(request, key=user_key(spec, parts), parts=tuple(parts)) for parts in rows]
        return [answer for answer in (yield from self._each(found)) if answer.won]

    def _each(self, requests: Sequence[MoveRequest]) -> Program[Answers]:
        answers = []
        for request in requests:
            answers.append((yield from self.decide(request)))
        return answers

    def all_or_none(self, requests: Sequence[MoveRequest], program: Program[Answers]) -> Program[Answers]:
        """A program for all of these in one transaction."""
        try:
            return (yield from transaction(self.begin(requests[0]), program))
        except AcknowledgementLost as error:
            return [request.unknown(error) for request in requests]
        except Conflicted as error:
            return [request.conflict(error) for request in requests]

    @abstractmethod
    def _alone(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """A decision that is a transaction of its own."""

    @abstractmethod
    def decide(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        """A decision in the transaction that there is: move the row, or say why not."""

    @abstractmethod
    def begin(self, request: MoveRequest) -> Statement:
        """What begins a transaction."""

    @abstractmethod
    def slots(self, request: MoveRequest) -> dict[str, str]:
        """What the texts are filled with."""
