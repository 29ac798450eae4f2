"""SQLAlchemy sessions: the objects that a session holds must not fight with the moves.

Promise: a change of the guarded column that is not flushed yet is refused, because its flush would overwrite the move; and
after a move the loaded objects show the columns that it wrote.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import inspect
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Mapper, Session

from raceproof.claims.answers import Claim
from raceproof.claims.request import ClaimRequest
from raceproof.declare.claim_forms import form_columns
from raceproof.declare.spec import Spec
from raceproof.driver import AsyncDriver, Driver
from raceproof.drivers.sqlalchemy import Database, run_unbroken
from raceproof.kernel.errors import CallError
from raceproof.kernel.keys import KeyParts
from raceproof.kernel.quoting import split_qualified
from raceproof.kernel.statement import Program, Rows, Statement, arun, run
from raceproof.moves.answers import Answer
from raceproof.moves.request import MoveRequest, of_claims
from raceproof.programs import Claims, Moves, Programs

T = TypeVar("T")


class SessionMoves:
    """The programs of moves, which look at the session before, and note what it has to load again."""

    def __init__(self, moves: Moves, session: Session) -> None:
        self._moves = moves
        self._session = session
        self.stale: list[tuple[Any, list[str]]] = []
        """Objects and the attributes that a move may have written."""

    def one(self, request: MoveRequest) -> Program[Answer[Any, Any]]:
        self._look(request, [request.parts])
        return (yield from self._moves.one(request))

    def many(self, requests: Sequence[MoveRequest]) -> Program[list[Answer[Any, Any]]]:
        if requests:
            self._look(requests[0], [request.parts for request in requests])
        return (yield from self._moves.many(requests))

    def many_claimed(self, first: MoveRequest, claims: Sequence[Claim[Any, Any]]) -> Program[list[Answer[Any, Any]]]:
        return self.many(of_claims(first, claims))

    def matching(self, request: MoveRequest, limit: int | None) -> Program[list[Answer[Any, Any]]]:
        self._look(request, None)
        return (yield from self._moves.matching(request, limit))

    def look_at_all(self, spec: Spec[Any], written: Sequence[str]) -> None:
        """The same for a statement that may write any row of a table."""
        self._look_for(spec, spec, [spec.column, *([spec.revision] if spec.revision else []), *written], None)

    def _look(self, request: MoveRequest, rows: list[KeyParts] | None) -> None:
        """Refuse a pending change of the guarded column; remember the objects that the move makes stale."""
        spec, move = request.move.lifecycle, request.move
        written = [spec.column, *([spec.revision] if spec.revision else []), *move.stamp, *request.set]
        self._look_for(spec, move, [*written, *request.clears], rows)

    def _look_for(self, spec: Spec[Any], asked: object, written: Sequence[str], rows: list[KeyParts] | None) -> None:
        keys = None if rows is None else {tuple(map(str, parts)) for parts in rows}
        for state, names in _objects(self._session, spec, keys):
            status = names.get(spec.column)
            if status and status in state.dict and state.attrs[status].history.has_changes():
                raise CallError(
                    f"{asked}: the session holds a change of {spec.column} of {_key(spec, state, names)} that is not "
                    "flushed and would overwrite the move; take the assignment out, or expire the object first"
                )
            if state.persistent:
                self.stale.append((state.object, [names[column] for column in written if column in names]))

    def take_stale(self) -> list[tuple[Any, list[str]]]:
        stale, self.stale = self.stale, []
        return [(instance, names) for instance, names in stale if names]


class SessionClaims:
    """The programs of claims, which look at the session before, and note what it has to load again."""

    def __init__(self, claims: Claims, moves: SessionMoves) -> None:
        self._claims = claims
        self._moves = moves

    def __getattr__(self, name: str) -> Any:
        program = getattr(self._claims, name)

        def looking(asked: Any, *rest: Any) -> Any:
            claim = asked.claim if isinstance(asked, ClaimRequest) else asked[0].declared if asked else None
            if claim is not None:
                written = [*form_columns(claim.form), *(c for c in (claim.attempts, claim.not_before) if c)]
                self._moves.look_at_all(claim.lifecycle, written)
            return program(asked, *rest)

        return looking if name in ("acquire", "one", "dead_letter", "renew", "give_back") else program


def watching(programs: Programs, session: Session) -> SessionMoves:
    """Let moves and claims look at the objects of a session; what comes back knows which of them to load again."""
    moves = programs.moves = SessionMoves(programs.moves, session)
    programs.claims = SessionClaims(programs.claims, moves)
    return moves


class SqlalchemySession(Driver):
    """A SQLAlchemy Session."""

    def __init__(self, session: Session) -> None:
        self._database = Database(session.get_bind().engine)
        super().__init__(self._database.dialect)
        self.programs = self._database.programs
        self._session = session
        self._objects = watching(self.programs, session)

    @property
    def settled(self) -> bool:
        return False

    def execute(self, statement: Statement) -> Rows:
        return self._database.run(self._session.connection(), statement)

    def run(self, program: Program[T]) -> T:
        try:
            return run(self.execute, program)
        finally:
            for instance, names in self._objects.take_stale():
                self._session.expire(instance, names)

    def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return self.run(self.programs.moves.one(request))


class AsyncSqlalchemySession(AsyncDriver):
    """A SQLAlchemy AsyncSession: it cannot load behind an attribute, so stale objects are loaded again at once."""

    def __init__(self, session: AsyncSession) -> None:
        self._database = Database(session.get_bind().engine)
        super().__init__(self._database.dialect)
        self.programs = self._database.programs
        self._session = session
        self._objects = watching(self.programs, session.sync_session)

    @property
    def settled(self) -> bool:
        return False

    async def execute(self, statement: Statement) -> Rows:
        connection = await self._session.connection()
        return await run_unbroken(self._database, connection, statement)

    async def run(self, program: Program[T]) -> T:
        try:
            result = await arun(self.execute, program)
        except BaseException:
            for instance, names in self._objects.take_stale():
                self._session.expire(instance, names)
            raise
        with self._session.no_autoflush:
            for instance, names in self._objects.take_stale():
                await self._session.refresh(instance, names)
        return result

    async def move(self, request: MoveRequest) -> Answer[Any, Any]:
        return await self.run(self.programs.moves.one(request))


def _objects(
    session: Session, spec: Spec[Any], keys: set[tuple[str, ...]] | None
) -> Iterator[tuple[Any, dict[str, str]]]:
    """The objects of the guarded table with these keys, or all of them; each with its attributes by column."""
    for instance in (*session.identity_map.values(), *session.new):
        state = inspect(instance)
        names = _attributes(state.mapper, spec.table)
        if names and (keys is None or _parts(spec, state, names) in keys):
            yield state, names


def _attributes(mapper: Mapper[Any], table: str) -> dict[str, str]:
    """The attributes that a model maps to columns of a table, its parents' tables included."""
    *schema, bare = split_qualified(table)
    found = {}
    for attribute in mapper.column_attrs:
        for column in attribute.columns:
            owner = getattr(column, "table", None)
            if owner is None or getattr(owner, "name", None) != bare:
                continue
            if not schema or owner.schema is None or owner.schema == schema[-1]:
                found[column.name] = attribute.key
    return found


def _parts(spec: Spec[Any], state: Any, names: dict[str, str]) -> tuple[str, ...]:
    """The key of an object as texts; from its identity where the attributes are not loaded."""
    identity = {}
    if state.identity is not None:
        for column, value in zip(state.mapper.primary_key, state.identity, strict=True):
            identity[column.name] = value
    return tuple(str(state.dict.get(names.get(column, ""), identity.get(column))) for column in spec.key_columns)


def _key(spec: Spec[Any], state: Any, names: dict[str, str]) -> str:
    return ", ".join(_parts(spec, state, names))
