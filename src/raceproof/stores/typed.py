"""Programs on tables that an ORM maps: values go in and come out as the ORM's own column types spell them.

Promise: a key, a set column, a guard's value and a returned column pass through the types of the mapped class or model, so
a row that the ORM wrote is found, and a value that we write reads the same there. A table that the ORM does not map is
left as it is. Answers carry the caller's own keys.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from raceproof.claims import ClaimRequest
from raceproof.deliveries import Turn
from raceproof.driver import Moves
from raceproof.moves import MoveRequest
from raceproof.moves.request import KeyParts, of_claims
from raceproof.outcome import Answer, Claim, Moved
from raceproof.predicate import Comparison, Fragment, Predicate
from raceproof.primitives import Attempting, Claims, Deliveries, Primitives
from raceproof.spec import Spec
from raceproof.statement import Program, Rows


class ColumnTypes(Protocol):
    """The types of one mapped table."""

    def stored(self, column: str, value: Any) -> Any:
        """A value as the column stores it."""
        ...

    def saved(self, column: str, value: Any) -> Any:
        """The same for a value that is written."""
        ...

    def loaded(self, column: str, value: Any) -> Any:
        """A value that the driver gave, as the ORM would."""
        ...


class Types(Protocol):
    """The tables that an ORM maps, on one database."""

    def of(self, table: str) -> ColumnTypes | None: ...
    def check(self, spec: Spec[Any]) -> None:
        """Refuse a table whose status column stores something else than the declared statuses."""
        ...

    def plain(self, value: Any) -> Any:
        """A value without a column, as the ORM stores values of its kind."""
        ...


class Conversion:
    """The values of calls on the rows of one table, both ways."""

    def __init__(self, columns: ColumnTypes, types: Types) -> None:
        self._columns = columns
        self._types = types

    def parts(self, names: Sequence[str], parts: Iterable[Any]) -> KeyParts:
        return tuple([self._columns.stored(name, part) for name, part in zip(names, parts, strict=True)])

    def parts_back(self, names: Sequence[str], parts: Iterable[Any]) -> KeyParts:
        return tuple([self._columns.loaded(name, part) for name, part in zip(names, parts, strict=True)])

    def key(self, names: Sequence[str], key: Any) -> Any:
        """A key as the caller writes it, without the tenant."""
        found = self.parts(names, key if isinstance(key, tuple) else (key,))
        return found if len(found) > 1 else found[0]

    def key_back(self, names: Sequence[str], key: Any) -> Any:
        found = self.parts_back(names, key if isinstance(key, tuple) else (key,))
        return found if len(found) > 1 else found[0]

    def value(self, column: str | None, value: Any) -> Any:
        return value if column is None else self._columns.stored(column, value)

    def values(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._columns.saved(name, value) for name, value in columns.items()}

    def row(self, names: Sequence[str], row: Any) -> Any:
        return [self._columns.loaded(name, value) for name, value in zip(names, row, strict=True)]

    def guards(self, where: tuple[Predicate, ...]) -> tuple[Predicate, ...]:
        return tuple([self._guard(predicate) for predicate in where])

    def _guard(self, predicate: Predicate) -> Predicate:
        match predicate:
            case Comparison(column=column, value=value) if value is not None:
                return predicate.stored(self._columns.stored(column, value))
            case Fragment(parameters=parameters):
                return predicate.stored(
                    {name: self._types.plain(value) for name, value in parameters.items()}
                )
            case _:
                return predicate

    def request(self, request: MoveRequest, alike: dict[int, dict[str, Any]]) -> MoveRequest:
        """A call; those that set the same columns to the same values go on sharing them (`alike`)."""
        written: Mapping[str, Any] | None = request.set
        if written:
            written = alike.get(id(request.set))
            if written is None:
                written = alike[id(request.set)] = self.values(request.set)
        names = request.move.lifecycle.key_columns
        return request.stored(self.parts(names, request.parts), written or {}, self.guards(request.where))

    def answer(self, request: MoveRequest, answer: Answer[Any, Any]) -> Answer[Any, Any]:
        if isinstance(answer, Moved) and answer.row is not None and request.returning:
            return replace(answer, row=self.row(request.returning, answer.row))
        return answer


class TypedMoves:
    """The programs of moves."""

    def __init__(self, moves: Moves, types: Types) -> None:
        self.style = moves.style
        self.raw = moves
        self._types = types
        self._checked: set[Spec[Any]] = set()

    def conversion(self, table: str) -> Conversion | None:
        columns = self._types.of(table)
        return None if columns is None else Conversion(columns, self._types)

    def of(self, spec: Spec[Any]) -> Conversion | None:
        """The conversion for a lifecycle's rows; its status column is looked at once."""
        found = self.conversion(spec.table)
        if found is not None and spec not in self._checked:
            self._types.check(spec)
            self._checked.add(spec)
        return found

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        types = self.of(request.move.lifecycle)
        if types is None:
            return (yield from self.raw.one(request))
        return types.answer(request, (yield from self.raw.one(types.request(request, {}))))

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        types = self.of(requests[0].move.lifecycle) if requests else None
        if types is None:
            return (yield from self.raw.many(requests))
        alike: dict[int, dict[str, Any]] = {}
        answers = yield from self.raw.many([types.request(request, alike) for request in requests])
        return [types.answer(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        if self.of(first.move.lifecycle) is None:
            return (yield from self.raw.many_claimed(first, claims))
        return (yield from self.many(of_claims(first, claims)))

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        spec = request.move.lifecycle
        types = self.of(spec)
        if types is None:
            return (yield from self.raw.matching(request, limit))
        parts = request.parts
        if spec.tenant:  # of the key itself there is none yet
            parts = (types.value(spec.tenant, parts[0]), *parts[1:])
        written = types.values(request.set)
        asked = request.stored(parts, written, types.guards(request.where))
        answers = yield from self.raw.matching(asked, limit)
        return [
            types.answer(request, replace(answer, key=types.key_back(spec.key, answer.key)))
            for answer in answers
        ]

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        types = self.of(spec)
        if types is None:
            return (yield from self.raw.read(spec, parts))
        row = yield from self.raw.read(spec, types.parts(spec.key_columns, parts))
        return None if row is None else dict(zip(row, types.row(tuple(row), row.values()), strict=True))

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        types = self.of(spec)
        found = parts if types is None else types.parts(spec.key_columns, parts)
        return (yield from self.raw.history(spec, found, limit))


class TypedClaims:
    """The programs of claims."""

    def __init__(self, claims: Claims, moves: TypedMoves) -> None:
        self._claims = claims
        self._moves = moves

    def acquire(self, request: ClaimRequest) -> Program[Any]:
        return (yield from self._searching(self._claims.acquire, request))

    def set_aside(self, request: ClaimRequest) -> Program[Any]:
        return (yield from self._searching(self._claims.set_aside, request))

    def _searching(self, program: Any, request: ClaimRequest) -> Program[Any]:
        types = self._moves.of(request.claim.lifecycle)
        if types is None:
            return (yield from program(request))
        found = yield from program(self._request(types, request))
        return [self._back(types, request, one) for one in found]

    def one(self, request: ClaimRequest, key: Any) -> Program[Any]:
        types = self._moves.of(request.claim.lifecycle)
        if types is None:
            return (yield from self._claims.one(request, key))
        stored = types.key(request.claim.lifecycle.key, key)
        answer = yield from self._claims.one(self._request(types, request), stored)
        return replace(self._back(types, request, answer), key=key)

    def renew(self, claims: Sequence[Claim[Any, Any]], *rest: Any) -> Program[Any]:
        return (yield from self._held(self._claims.renew, claims, rest))

    def give_back(self, claims: Sequence[Claim[Any, Any]], *rest: Any) -> Program[Any]:
        return (yield from self._held(self._claims.give_back, claims, rest))

    def _held(self, program: Any, claims: Sequence[Claim[Any, Any]], rest: tuple[Any, ...]) -> Program[Any]:
        types = self._moves.of(claims[0].move.lifecycle) if claims else None
        if types is None:
            return (yield from program(claims, *rest))
        answers = yield from program([self._stored(types, one) for one in claims], *rest)
        return [
            replace(answer, key=one.key, tenant=one.tenant)
            if isinstance(answer, Claim)
            else replace(answer, key=one.key)
            for one, answer in zip(claims, answers, strict=True)
        ]

    def add(self, claim: Any, keys: Sequence[KeyParts]) -> Program[None]:
        return (yield from self._claims.add(claim, self._parts(claim, keys)))

    def offer(self, claim: Any, keys: Sequence[KeyParts]) -> Program[None]:
        return (yield from self._claims.offer(claim, self._parts(claim, keys)))

    def listed(self, request: ClaimRequest) -> Program[Rows]:
        spec = request.claim.lifecycle
        types = self._moves.of(spec)
        if types is None:
            return (yield from self._claims.listed(request))
        rows = yield from self._claims.listed(self._request(types, request))
        end = -len(spec.key_columns)
        return [(*row[:end], *types.parts_back(spec.key_columns, row[end:])) for row in rows]

    def _parts(self, claim: Any, keys: Sequence[KeyParts]) -> Sequence[KeyParts]:
        spec = claim.lifecycle
        types = self._moves.of(spec)
        return keys if types is None else [types.parts(spec.key_columns, parts) for parts in keys]

    def _request(self, types: Conversion, request: ClaimRequest) -> ClaimRequest:
        tenant = types.value(request.claim.lifecycle.tenant, request.tenant)
        return request.stored(tenant, types.guards(request.where))

    def _stored(self, types: Conversion, one: Claim[Any, Any]) -> Claim[Any, Any]:
        spec = one.move.lifecycle
        return replace(one, key=types.key(spec.key, one.key), tenant=types.value(spec.tenant, one.tenant))

    def _back(self, types: Conversion, request: ClaimRequest, answer: Any) -> Any:
        key = types.key_back(request.claim.lifecycle.key, answer.key)
        if not isinstance(answer, Claim):
            return replace(answer, key=key)
        row = types.row(request.returning, answer.row) if request.returning else answer.row
        return replace(answer, key=key, row=row, tenant=request.tenant)


class TypedDeliveries:
    """The programs of deliveries."""

    def __init__(self, deliveries: Deliveries, moves: TypedMoves) -> None:
        self._deliveries = deliveries
        self._moves = moves

    def take(self, request: Any) -> Program[Any]:
        types = self._moves.conversion(request.delivery.table)
        if types is None:
            return (yield from self._deliveries.take(request))
        answer = yield from self._deliveries.take(self._request(types, request))
        if not isinstance(answer, Turn):
            return answer
        row = types.row(request.returning, answer.row) if request.returning else answer.row
        return replace(answer, parts=request.parts, row=row)

    def mark(self, turn: Any, *rest: Any) -> Program[Any]:
        types = self._moves.conversion(turn.move.table)
        if types is None:
            return (yield from self._deliveries.mark(turn, *rest))
        stored = replace(turn, parts=types.parts(turn.move.key_columns, turn.parts))
        answer = yield from self._deliveries.mark(stored, *rest)
        return replace(answer, parts=turn.parts) if isinstance(answer, Turn) else answer

    def resolve(self, request: Any, *rest: Any) -> Program[Any]:
        types = self._moves.conversion(request.delivery.table)
        asked = request if types is None else self._request(types, request)
        return (yield from self._deliveries.resolve(asked, *rest))

    def look(self, request: Any) -> Program[Any]:
        types = self._moves.conversion(request.delivery.table)
        return (yield from self._deliveries.look(request if types is None else self._request(types, request)))

    def listed(self, delivery: Any, limit: int, tenant: Any, *rest: Any, **named: Any) -> Program[Rows]:
        types = self._moves.conversion(delivery.table)
        if types is None:
            return (yield from self._deliveries.listed(delivery, limit, tenant, *rest, **named))
        tenant = types.value(delivery.tenant, tenant)
        rows = yield from self._deliveries.listed(delivery, limit, tenant, *rest, **named)
        end = -len(delivery.key_columns)
        return [(*row[:end], *types.parts_back(delivery.key_columns, row[end:])) for row in rows]

    def _request(self, types: Conversion, request: Any) -> Any:
        return replace(request, parts=types.parts(request.delivery.key_columns, request.parts))


class TypedAttempts:
    """The programs of attempts."""

    def __init__(self, attempts: Attempting, moves: TypedMoves) -> None:
        self._attempts = attempts
        self._moves = moves

    def start(self, asked: Any) -> Program[Any]:
        spec = asked.attempts.lifecycle
        types = self._moves.of(spec)
        if types is None:
            return (yield from self._attempts.start(asked))
        stored = self._request(types, asked)
        answer = yield from self._attempts.start(stored)
        back: dict[str, Any] = {}
        if hasattr(answer, "owner"):
            back["owner"] = asked.owner
        for name in ("key", "superseded", "active"):
            found = getattr(answer, name, None)
            if found is not None:
                back[name] = asked.key if found == stored.key else types.key_back(spec.key, found)
        return replace(answer, **back)

    def current(self, asked: Any) -> Program[dict[str, Any] | None]:
        types = self._moves.of(asked.attempts.lifecycle)
        if types is None:
            return (yield from self._attempts.current(asked))
        row = yield from self._attempts.current(self._request(types, asked, keyed=False))
        return None if row is None else dict(zip(row, types.row(tuple(row), row.values()), strict=True))

    def expired(self, asked: Any, limit: int, of_owner: bool = False) -> Program[Rows]:
        spec = asked.attempts.lifecycle
        types = self._moves.of(spec)
        if types is None:
            return (yield from self._attempts.expired(asked, limit, of_owner))
        rows = yield from self._attempts.expired(self._request(types, asked, keyed=False), limit, of_owner)
        return [types.parts_back(spec.key_columns, row) for row in rows]

    def _request(self, types: Conversion, asked: Any, keyed: bool = True) -> Any:
        attempts = asked.attempts
        spec = attempts.lifecycle
        tenant = types.value(spec.tenant, asked.tenant)
        parts = types.parts(spec.key_columns, asked.parts) if keyed else asked.parts
        if spec.tenant and not keyed:
            parts = (tenant, *asked.parts[1:])
        own = parts[1:] if spec.tenant else parts
        return replace(
            asked,
            owner=types.value(attempts.owner, asked.owner),
            key=own if len(own) > 1 else own[0],
            parts=parts,
            columns=types.values(asked.columns),
            tenant=tenant,
        )


def typed_primitives(moves: TypedMoves) -> Primitives:
    """The programs of every primitive, with the ORM's types where they read and write the user's own rows."""
    found = Primitives(moves.raw)
    found.claims = TypedClaims(found.claims, moves)
    found.deliveries = TypedDeliveries(found.deliveries, moves)
    found.attempts = TypedAttempts(found.attempts, moves)
    return found
