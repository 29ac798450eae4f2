"""What a caller holds: `Store` on a sync connection, `AsyncStore` on an async one, with the same methods.

Both are thin: check the call, run the program, tell the event. Everything that decides is in the primitives.
"""

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, Self, TypedDict, TypeVar, Unpack, overload

from raceproof import events, look
from raceproof.driver import AsyncDriver, Driver
from raceproof.errors import CallError
from raceproof.lifecycle import Lifecycle, spec_of
from raceproof.look import HistoryEntry
from raceproof.moves import MoveRequest, request
from raceproof.outcome import Answer, Key
from raceproof.predicate import Where, predicates
from raceproof.spec import Move, Spec
from raceproof.statement import AcknowledgementLost, Conflicted, Program
from raceproof.verify import Finding, Trial, try_matrix, verify

S = TypeVar("S", bound=str)
R = TypeVar("R")
D = TypeVar("D", bound=Driver | AsyncDriver)

Keys = Iterable[Key] | Mapping[Key, Mapping[str, Any]]
Declared = type[Lifecycle[Any]] | Spec[Any]


class MoveOptions(TypedDict, total=False):
    """What may go along with a move."""

    set: Mapping[str, Any] | None
    """Columns to set, of those that the move declares in `sets`."""
    where: Where
    """Guards that must hold beside the declared ones."""
    by: str | None
    """Who moves; kept in the history."""
    reason: str | None
    """Why; kept in the history."""
    fence: int | None
    """The caller's fence: the row must still carry it, or the answer is Lost."""
    revision: int | None
    """The revision that the caller has seen: the row must still have it."""
    call: str | None
    """The id of an earlier call whose end is unknown: if it moved the row, its answer comes back."""
    now: datetime | None
    """The time to stamp with, for tests; the store's clock otherwise."""


class _Store(Generic[D]):
    """What both share: how a call becomes requests, and how its answers become events."""

    def __init__(self, driver: D, tenant: Any = None) -> None:
        self._driver: D = driver
        self._tenant = tenant

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._driver.dialect}>"

    @property
    def dialect(self) -> str:
        """Which kind of store this is: postgres, sqlite or redis."""
        return self._driver.dialect

    def for_tenant(self, tenant: Any) -> Self:
        """The same store, seeing only the rows of one tenant."""
        return type(self)(self._driver, tenant)

    def _many(
        self, move: Move[Any], keys: Keys | None, limit: int | None, returning: Any, options: MoveOptions
    ) -> Program[list[Answer[Any, Any]]]:
        """The program behind `move_many`."""
        if options.get("call") is not None:
            raise CallError(f"{move}: call= names one call of one row; use move for it")
        if returning is not None and not isinstance(returning, type | str):
            returning = tuple(returning)
        started = time.monotonic()
        try:
            if keys is None:
                asked = self._pattern(move, limit, returning, options)
                answers = yield from self._driver.moves.matching(asked, limit)
            else:
                requests = self._requests(move, keys, returning, options)
                if not requests:
                    return []
                asked = requests[0]
                answers = yield from self._driver.moves.many(requests)
        except Exception as error:
            self._note(error, move, "many rows", some=self._driver.dialect == "redis")
            raise
        for answer in answers if events.subscribers else ():
            self._tell(answer, options.get("by"), started)
        return [asked.finished(answer) for answer in answers] if asked.returning else answers

    def _requests(
        self, move: Move[Any], keys: Keys, returning: Any, options: MoveOptions
    ) -> list[MoveRequest]:
        tenant = self._tenant
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise CallError(f"{move}: move_many takes several keys, not the one text or value {keys!r}")
        if not isinstance(keys, Mapping):
            return [request(move, key, tenant=tenant, returning=returning, **options) for key in keys]
        if options.get("set"):
            raise CallError(
                f"{move}: give the columns to set for all rows with set=, or for each by a mapping, not both"
            )
        requests = []
        for key, columns in keys.items():
            own = options.copy()
            own["set"] = columns
            requests.append(request(move, key, tenant=tenant, returning=returning, **own))
        if any(tuple(one.set) != tuple(requests[0].set) for one in requests):
            raise CallError(f"{move}: all rows of one move_many set the same columns, in the same order")
        return requests

    def _pattern(
        self, move: Move[Any], limit: int | None, returning: Any, options: MoveOptions
    ) -> MoveRequest:
        if not predicates(options.get("where", ())):
            raise CallError(f"{move}: move_many needs keys, or a where= to find the rows by")
        if limit is not None and limit < 1:
            raise CallError(f"{move}: limit={limit} would move nothing")
        if options.get("fence") is not None or options.get("revision") is not None:
            raise CallError(f"{move}: a fence or revision belongs to one row; pass its key")
        anything = "-" if len(move.lifecycle.key) == 1 else ("-",) * len(move.lifecycle.key)
        return request(move, anything, tenant=self._tenant, returning=returning, **options)

    def _tell(self, answer: Answer[Any, Any], by: str | None, started: float) -> None:
        move = answer.move
        events.tell(
            events.Event(
                operation="move",
                outcome=answer.outcome,
                lifecycle=move.lifecycle.name,
                move=move.name,
                key=answer.key,
                by=by,
                settled=self._driver.settled,
                started=started,
                answer=answer,
            )
        )

    def _note(self, error: Exception, move: Move[Any], what: str, some: bool = False) -> None:
        if isinstance(error, AcknowledgementLost | Conflicted) and isinstance(error.__cause__, Exception):
            raise error.__cause__
        if not isinstance(error, CallError):
            kept = (
                "rows that moved stay moved, the same call again is safe"
                if some
                else "nothing of this call was kept"
            )
            error.add_note(
                f"raceproof: {move} of {what} in table {move.lifecycle.table}: {kept}. "
                "`raceproof verify` compares the table with the declaration."
            )


class Store(_Store[Driver]):
    """The primitives on a sync connection. Made by `bind` and `connect`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what `connect` opened; a connection given to `bind` stays open."""
        self._driver.close()

    @overload
    def move(
        self, move: Move[S], key: Key, *, returning: type[R], **options: Unpack[MoveOptions]
    ) -> Answer[S, R]: ...
    @overload
    def move(
        self, move: Move[S], key: Key, *, returning: Iterable[str], **options: Unpack[MoveOptions]
    ) -> Answer[S, dict[str, Any]]: ...
    @overload
    def move(self, move: Move[S], key: Key, **options: Unpack[MoveOptions]) -> Answer[S, None]: ...

    def move(self, move: Move[Any], key: Key, **options: Any) -> Answer[Any, Any]:
        """Move one row along a declared move, and say what came of it."""
        asked = request(move, key, tenant=self._tenant, **options)
        started = time.monotonic()
        try:
            answer = self._driver.move(asked)
        except Exception as error:
            self._note(error, move, repr(key))
            raise
        if events.subscribers:
            self._tell(answer, asked.by, started)
        return asked.finished(answer) if asked.returning else answer

    def move_many(
        self,
        move: Move[S],
        keys: Keys | None = None,
        *,
        limit: int | None = None,
        returning: type[Any] | Iterable[str] | None = None,
        **options: Unpack[MoveOptions],
    ) -> list[Answer[S, Any]]:
        """Move many rows in one statement, with an answer for each: those with these keys, or all that match `where`.

        With keys the answers come in their order; a mapping gives each row columns of its own to set. Without keys, the
        rows that match `where` and are at a source of the move are moved, at most `limit`, and only they are answered.
        """
        return self._driver.run(self._many(move, keys, limit, returning, options))

    def read(self, lifecycle: Declared, key: Key) -> dict[str, Any] | None:
        """The row as it is now, or None."""
        return self._driver.run(look.read(self._driver.moves, spec_of(lifecycle), key, self._tenant))

    def history(self, lifecycle: Declared, key: Key, limit: int = 100) -> list[HistoryEntry]:
        """What happened to the row, newest first."""
        return self._driver.run(
            look.history(self._driver.moves, spec_of(lifecycle), key, self._tenant, limit)
        )

    def verify(self, lifecycle: Declared) -> list[Finding]:
        """Compare the database with the declaration; reads only."""
        return self._driver.run(verify(self._driver.dialect, self._driver.moves.style, spec_of(lifecycle)))

    def try_matrix(self, lifecycle: Declared) -> list[Trial]:
        """Try every change of status against the installed guards, on rows that are made for it and never kept."""
        if not self._driver.settled:
            raise CallError("the matrix is tried in a transaction of its own; end yours first")
        return self._driver.run(
            try_matrix(self._driver.dialect, self._driver.moves.style, spec_of(lifecycle))
        )


class AsyncStore(_Store[AsyncDriver]):
    """The primitives on an async connection. Made by `bind` and `connect`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what `connect` opened; a connection given to `bind` stays open."""
        await self._driver.close()

    @overload
    async def move(
        self, move: Move[S], key: Key, *, returning: type[R], **options: Unpack[MoveOptions]
    ) -> Answer[S, R]: ...
    @overload
    async def move(
        self, move: Move[S], key: Key, *, returning: Iterable[str], **options: Unpack[MoveOptions]
    ) -> Answer[S, dict[str, Any]]: ...
    @overload
    async def move(self, move: Move[S], key: Key, **options: Unpack[MoveOptions]) -> Answer[S, None]: ...

    async def move(self, move: Move[Any], key: Key, **options: Any) -> Answer[Any, Any]:
        """Move one row along a declared move, and say what came of it."""
        asked = request(move, key, tenant=self._tenant, **options)
        started = time.monotonic()
        try:
            answer = await self._driver.move(asked)
        except Exception as error:
            self._note(error, move, repr(key))
            raise
        if events.subscribers:
            self._tell(answer, asked.by, started)
        return asked.finished(answer) if asked.returning else answer

    async def move_many(
        self,
        move: Move[S],
        keys: Keys | None = None,
        *,
        limit: int | None = None,
        returning: type[Any] | Iterable[str] | None = None,
        **options: Unpack[MoveOptions],
    ) -> list[Answer[S, Any]]:
        """Move many rows in one statement, with an answer for each: those with these keys, or all that match `where`.

        With keys the answers come in their order; a mapping gives each row columns of its own to set. Without keys, the
        rows that match `where` and are at a source of the move are moved, at most `limit`, and only they are answered.
        """
        return await self._driver.run(self._many(move, keys, limit, returning, options))

    async def read(self, lifecycle: Declared, key: Key) -> dict[str, Any] | None:
        """The row as it is now, or None."""
        return await self._driver.run(look.read(self._driver.moves, spec_of(lifecycle), key, self._tenant))

    async def history(self, lifecycle: Declared, key: Key, limit: int = 100) -> list[HistoryEntry]:
        """What happened to the row, newest first."""
        return await self._driver.run(
            look.history(self._driver.moves, spec_of(lifecycle), key, self._tenant, limit)
        )

    async def verify(self, lifecycle: Declared) -> list[Finding]:
        """Compare the database with the declaration; reads only."""
        return await self._driver.run(
            verify(self._driver.dialect, self._driver.moves.style, spec_of(lifecycle))
        )

    async def try_matrix(self, lifecycle: Declared) -> list[Trial]:
        """Try every change of status against the installed guards, on rows that are made for it and never kept."""
        if not self._driver.settled:
            raise CallError("the matrix is tried in a transaction of its own; end yours first")
        return await self._driver.run(
            try_matrix(self._driver.dialect, self._driver.moves.style, spec_of(lifecycle))
        )
