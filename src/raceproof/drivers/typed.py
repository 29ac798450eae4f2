"""Programs on tables that an ORM maps: values go in and come out as the ORM's own column types spell them.

Promise: a key, a set column, a guard's value and a returned column pass through the types of the mapped class or model, so
a row that the ORM wrote is found, and a value that we write reads the same there. A table that the ORM does not map is
left as it is. Answers carry the caller's own keys.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from raceproof.claims.answers import Claim
from raceproof.claims.request import ClaimRequest
from raceproof.declare.predicate import Comparison, Fragment, Predicate
from raceproof.declare.spec import Spec
from raceproof.deliveries import SendPermit
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.statement import Program, Rows
from raceproof.moves.answers import Answer, Moved
from raceproof.moves.request import MoveRequest, of_claims
from raceproof.programs import Attempts, Claims, Deliveries, Moves, Programs, Reading


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
                return predicate.stored({name: self._types.plain(value) for name, value in parameters.items()})
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


class Conversions:
    """The conversions of the tables that an ORM maps."""

    def __init__(self, types: Types) -> None:
        self._types = types
        self._checked: set[Spec[Any]] = set()

    def of_table(self, table: str) -> Conversion | None:
        columns = self._types.of(table)
        return None if columns is None else Conversion(columns, self._types)

    def of(self, spec: Spec[Any]) -> Conversion | None:
        """The conversion for a lifecycle's rows; its status column is looked at once."""
        found = self.of_table(spec.table)
        if found is not None and spec not in self._checked:
            self._types.check(spec)
            self._checked.add(spec)
        return found


class TypedMoves:
    """The programs of moves."""

    def __init__(self, moves: Moves, conversions: Conversions) -> None:
        self._moves = moves
        self._conversions = conversions

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        types = self._conversions.of(request.move.lifecycle)
        if types is None:
            return (yield from self._moves.one(request))
        return types.answer(request, (yield from self._moves.one(types.request(request, {}))))

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        types = self._conversions.of(requests[0].move.lifecycle) if requests else None
        if types is None:
            return (yield from self._moves.many(requests))
        alike: dict[int, dict[str, Any]] = {}
        answers = yield from self._moves.many([types.request(request, alike) for request in requests])
        return [types.answer(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def many_claimed(
        self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[Answer[Any, Any] | None]]:
        if self._conversions.of(first.move.lifecycle) is None:
            return (yield from self._moves.many_claimed(first, claims))
        return (yield from self.many(of_claims(first, claims)))

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        spec = request.move.lifecycle
        types = self._conversions.of(spec)
        if types is None:
            return (yield from self._moves.matching(request, limit))
        parts = request.parts
        if spec.tenant:  # of the key itself there is none yet
            parts = (types.value(spec.tenant, parts[0]), *parts[1:])
        written = types.values(request.set)
        asked = request.stored(parts, written, types.guards(request.where))
        answers = yield from self._moves.matching(asked, limit)
        return [types.answer(request, replace(answer, key=types.key_back(spec.key, answer.key))) for answer in answers]


class TypedReading:
    """Rows and their histories."""

    def __init__(self, reading: Reading, conversions: Conversions) -> None:
        self._reading = reading
        self._conversions = conversions

    def read(self, spec: Spec[Any], parts: KeyParts) -> Program[dict[str, Any] | None]:
        types = self._conversions.of(spec)
        if types is None:
            return (yield from self._reading.read(spec, parts))
        row = yield from self._reading.read(spec, types.parts(spec.key_columns, parts))
        return None if row is None else dict(zip(row, types.row(tuple(row), row.values()), strict=True))

    def history(self, spec: Spec[Any], parts: KeyParts, limit: int) -> Program[Rows]:
        types = self._conversions.of(spec)
        found = parts if types is None else types.parts(spec.key_columns, parts)
        return (yield from self._reading.history(spec, found, limit))


class TypedClaims:
    """The programs of claims."""

    def __init__(self, claims: Claims, conversions: Conversions) -> None:
        self._claims = claims
        self._conversions = conversions

    def acquire(self, request: ClaimRequest) -> Program[Any]:
        return (yield from self._searching(self._claims.acquire, request))

    def dead_letter(self, request: ClaimRequest) -> Program[Any]:
        return (yield from self._searching(self._claims.dead_letter, request))

    def _searching(self, program: Any, request: ClaimRequest) -> Program[Any]:
        types = self._conversions.of(request.claim.lifecycle)
        if types is None:
            return (yield from program(request))
        found = yield from program(self._request(types, request))
        return [self._back(types, request, one) for one in found]

    def one(self, request: ClaimRequest, key: Any) -> Program[Any]:
        types = self._conversions.of(request.claim.lifecycle)
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
        types = self._conversions.of(claims[0].declared.lifecycle) if claims else None
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
        types = self._conversions.of(spec)
        if types is None:
            return (yield from self._claims.listed(request))
        rows = yield from self._claims.listed(self._request(types, request))
        end = -len(spec.key_columns)
        return [(*row[:end], *types.parts_back(spec.key_columns, row[end:])) for row in rows]

    def _parts(self, claim: Any, keys: Sequence[KeyParts]) -> Sequence[KeyParts]:
        spec = claim.lifecycle
        types = self._conversions.of(spec)
        return keys if types is None else [types.parts(spec.key_columns, parts) for parts in keys]

    def _request(self, types: Conversion, request: ClaimRequest) -> ClaimRequest:
        tenant = types.value(request.claim.lifecycle.tenant, request.tenant)
        return request.stored(tenant, types.guards(request.where))

    def _stored(self, types: Conversion, one: Claim[Any, Any]) -> Claim[Any, Any]:
        spec = one.declared.lifecycle
        return replace(one, key=types.key(spec.key, one.key), tenant=types.value(spec.tenant, one.tenant))

    def _back(self, types: Conversion, request: ClaimRequest, answer: Any) -> Any:
        key = types.key_back(request.claim.lifecycle.key, answer.key)
        if not isinstance(answer, Claim):
            return replace(answer, key=key)
        row = types.row(request.returning, answer.row) if request.returning else answer.row
        return replace(answer, key=key, row=row, tenant=request.tenant)


class TypedDeliveries:
    """The programs of deliveries."""

    def __init__(self, deliveries: Deliveries, conversions: Conversions) -> None:
        self._deliveries = deliveries
        self._conversions = conversions

    def take(self, request: Any) -> Program[Any]:
        types = self._conversions.of_table(request.delivery.table)
        if types is None:
            return (yield from self._deliveries.take(request))
        answer = yield from self._deliveries.take(self._request(types, request))
        if not isinstance(answer, SendPermit):
            return answer
        row = types.row(request.returning, answer.row) if request.returning else answer.row
        return replace(answer, parts=request.parts, row=row)

    def mark(self, permit: Any, *rest: Any) -> Program[Any]:
        types = self._conversions.of_table(permit.declared.table)
        if types is None:
            return (yield from self._deliveries.mark(permit, *rest))
        stored = replace(permit, parts=types.parts(permit.declared.key_columns, permit.parts))
        answer = yield from self._deliveries.mark(stored, *rest)
        return replace(answer, parts=permit.parts) if isinstance(answer, SendPermit) else answer

    def resolve(self, request: Any, *rest: Any) -> Program[Any]:
        types = self._conversions.of_table(request.delivery.table)
        asked = request if types is None else self._request(types, request)
        return (yield from self._deliveries.resolve(asked, *rest))

    def look(self, request: Any) -> Program[Any]:
        types = self._conversions.of_table(request.delivery.table)
        return (yield from self._deliveries.look(request if types is None else self._request(types, request)))

    def listed(self, delivery: Any, limit: int, tenant: Any, *rest: Any, **named: Any) -> Program[Rows]:
        types = self._conversions.of_table(delivery.table)
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

    def __init__(self, attempts: Attempts, conversions: Conversions) -> None:
        self._attempts = attempts
        self._conversions = conversions

    def start(self, asked: Any) -> Program[Any]:
        spec = asked.attempts.lifecycle
        types = self._conversions.of(spec)
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
        types = self._conversions.of(asked.attempts.lifecycle)
        if types is None:
            return (yield from self._attempts.current(asked))
        row = yield from self._attempts.current(self._request(types, asked, keyed=False))
        return None if row is None else dict(zip(row, types.row(tuple(row), row.values()), strict=True))

    def expired(self, asked: Any, limit: int, of_owner: bool = False) -> Program[Rows]:
        spec = asked.attempts.lifecycle
        types = self._conversions.of(spec)
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


def typed(programs: Programs, types: Types) -> Programs:
    """The programs of every primitive, with the ORM's types where they read and write the user's own rows."""
    conversions = Conversions(types)
    programs.moves = TypedMoves(programs.moves, conversions)
    programs.reading = TypedReading(programs.reading, conversions)
    programs.claims = TypedClaims(programs.claims, conversions)
    programs.deliveries = TypedDeliveries(programs.deliveries, conversions)
    programs.attempts = TypedAttempts(programs.attempts, conversions)
    return programs
