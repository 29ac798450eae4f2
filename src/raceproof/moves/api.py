"""Moves on a store, and looking at rows: how a call becomes a program, and what both kinds of store offer of it."""

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, overload

from raceproof.claims.answers import Claim
from raceproof.declare.lifecycle import Lifecycle, spec_of
from raceproof.declare.predicate import Where, predicates
from raceproof.declare.spec import Move, Spec
from raceproof.kernel import events
from raceproof.kernel.answers import Key
from raceproof.kernel.api import ASKED_AGAIN, NOTHING_KEPT, Calls
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program
from raceproof.moves import reading
from raceproof.moves.answers import Answer, HistoryEntry, Moved
from raceproof.moves.request import MoveRequest, request

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

S = TypeVar("S", bound=str | Enum)
R = TypeVar("R")
D = TypeVar("D", bound="Driver | AsyncDriver")

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


class MovePrograms(Calls[D], Generic[D]):
    """The programs behind the calls."""

    def _many(
        self,
        move: Move[Any],
        keys: Keys | None,
        limit: int | None,
        returning: Any,
        options: MoveOptions,
        only_unmoved: bool = False,
    ) -> Program[list[Answer[Any, Any]]]:
        """The program behind `move_many` and `finish_claims`."""
        if options.get("call") is not None:
            raise CallError(f"{move}: call= names one call of one row; use move for it")
        if returning is not None and not isinstance(returning, type | str):
            returning = tuple(returning)
        started = time.monotonic()
        tenants: Iterable[Any] | None = None
        try:
            if keys is None:
                asked = self._pattern(move, limit, returning, options)
                answers = yield from self.driver.programs.moves.matching(asked, limit)
            else:
                if type(keys) is not list:
                    keys = keys if isinstance(keys, Mapping) else self._listed(move, keys)
                if type(keys) is list and keys and type(keys[0]) is Claim and options.get("by") is None:
                    asked = request(move, keys[0], tenant=self.tenant, returning=returning, **options)
                    found = yield from self._many_claimed(asked, keys)
                    if only_unmoved and not events.subscribers:
                        return [answer for answer in found if answer is not None and not answer.won]
                    answers = _made(move, keys, found)
                    tenants = (one.tenant for one in keys)
                else:
                    requests = self._requests(move, keys, returning, options)
                    if not requests:
                        return []
                    asked = requests[0]
                    answers = yield from self.driver.programs.moves.many(requests)
                    tenants = (one.parts[0] for one in requests)
        except Exception as error:
            kept = self._kept_of_many("rows that moved stay moved, the same call again is safe")
            self._add_note(error, move, "many rows", kept)
            raise
        self.tell_all("move", answers, options.get("by"), started, tenants)
        if only_unmoved:
            return [answer for answer in answers if not answer.won]
        return [asked.finished(answer) for answer in answers] if asked.returning else answers

    def _listed(self, move: Move[Any], keys: Iterable[Key]) -> list[Key]:
        if isinstance(keys, str | bytes | Claim) or not isinstance(keys, Iterable):
            raise CallError(f"{move}: move_many takes several keys, not the one text or value {keys!r}")
        return list(keys)

    def _requests(self, move: Move[Any], keys: Keys, returning: Any, options: MoveOptions) -> list[MoveRequest]:
        tenant = self.tenant
        if not isinstance(keys, Mapping):
            requests = [request(move, key, tenant=tenant, returning=returning, **options) for key in keys]
            return _alike(move, requests)
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
        return _alike(move, requests)

    def _many_claimed(self, first: MoveRequest, claims: list[Any]) -> Program[Sequence[Answer[Any, Any] | None]]:
        """The move of many claims of one kind; what was checked for the first need not be checked for each."""
        kind = claims[0].declared
        for one in claims:
            if type(one) is not Claim or not one.declared.means(kind):
                raise CallError(f"{first.move}: claims of one kind only can share a move_many, not {one!r}")
        return (yield from self.driver.programs.moves.many_claimed(first, claims))

    def _pattern(self, move: Move[Any], limit: int | None, returning: Any, options: MoveOptions) -> MoveRequest:
        if not predicates(options.get("where", ())):
            raise CallError(f"{move}: move_many needs keys, or a where= to find the rows by")
        if limit is not None and limit < 1:
            raise CallError(f"{move}: limit={limit} would move nothing")
        if options.get("fence") is not None or options.get("revision") is not None:
            raise CallError(f"{move}: a fence or revision belongs to one row; pass its key")
        anything = "-" if len(move.lifecycle.key) == 1 else ("-",) * len(move.lifecycle.key)
        return request(move, anything, tenant=self.tenant, returning=returning, **options)


def _kept(asked: MoveRequest) -> str:
    """What is kept of a call that failed, and what may have failed it."""
    kept = ASKED_AGAIN if asked.repeat else NOTHING_KEPT
    structured = [name for name, value in asked.set.items() if isinstance(value, dict | list)]
    if structured:
        names = ", ".join(map(repr, structured))
        kept += f". If the driver does not take the {type(asked.set[structured[0]]).__name__} for {names}, pass "
        kept += "json.dumps(…), or bind the session or connection of your ORM, whose types are used"
    return kept


def _alike(move: Move[Any], requests: list[MoveRequest]) -> list[MoveRequest]:
    """P4: rows that share a statement are guarded alike, all by the fences of claims of one kind or none by any."""
    for one in requests:
        if one.claim is not requests[0].claim:
            raise CallError(
                f"{move}: keys and claims, or claims of two kinds, cannot share a move_many; call it once for each"
            )
    return requests


def _made(
    move: Move[Any], claims: Sequence[Claim[Any, Any]], found: Sequence[Answer[Any, Any] | None]
) -> list[Answer[Any, Any]]:
    """An answer for each claim, where a row that moved and has nothing more to say has none yet."""
    before = move.lifecycle.member(move.sources[0])
    return [
        Moved(one.key, move, before, None, None) if answer is None else answer
        for one, answer in zip(claims, found, strict=True)
    ]


class SyncMoves(MovePrograms["Driver"]):
    """Moves on a sync connection."""

    @overload
    def move(self, move: Move[S], key: Key, *, returning: type[R], **options: Unpack[MoveOptions]) -> Answer[S, R]: ...
    @overload
    def move(
        self, move: Move[S], key: Key, *, returning: Iterable[str], **options: Unpack[MoveOptions]
    ) -> Answer[S, dict[str, Any]]: ...
    @overload
    def move(self, move: Move[S], key: Key, **options: Unpack[MoveOptions]) -> Answer[S, None]: ...

    def move(self, move: Move[Any], key: Key, **options: Any) -> Answer[Any, Any]:
        """Move one row along a declared move, and say what came of it."""
        asked = request(move, key, tenant=self.tenant, **options)
        started = time.monotonic()
        try:
            answer = self.driver.move(asked)
        except Exception as error:
            self._add_note(error, move, repr(key), _kept(asked))
            raise
        if events.subscribers:
            self.tell("move", answer, asked.by, started, asked.parts[0])
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
        return self.driver.run(self._many(move, keys, limit, returning, options))

    def finish_claims(self, move: Move[S], claims: Keys) -> list[Answer[S, Any]]:
        """Like `move_many` of claims, but answers only for the rows that this call did not move; usually none."""
        return self.driver.run(self._many(move, claims, None, None, {}, only_unmoved=True))

    def read(self, lifecycle: Declared, key: Key) -> dict[str, Any] | None:
        """The row as it is now, or None."""
        return self.driver.run(reading.read(self.driver.programs.reading, spec_of(lifecycle), key, self.tenant))

    def history(self, lifecycle: Declared, key: Key, limit: int = 100) -> list[HistoryEntry]:
        """What happened to the row, newest first."""
        return self.driver.run(
            reading.history(self.driver.programs.reading, spec_of(lifecycle), key, self.tenant, limit)
        )


class AsyncMoves(MovePrograms["AsyncDriver"]):
    """Moves on an async connection."""

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
        asked = request(move, key, tenant=self.tenant, **options)
        started = time.monotonic()
        try:
            answer = await self.driver.move(asked)
        except Exception as error:
            self._add_note(error, move, repr(key), _kept(asked))
            raise
        if events.subscribers:
            self.tell("move", answer, asked.by, started, asked.parts[0])
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
        return await self.driver.run(self._many(move, keys, limit, returning, options))

    async def finish_claims(self, move: Move[S], claims: Keys) -> list[Answer[S, Any]]:
        """Like `move_many` of claims, but answers only for the rows that this call did not move; usually none."""
        return await self.driver.run(self._many(move, claims, None, None, {}, only_unmoved=True))

    async def read(self, lifecycle: Declared, key: Key) -> dict[str, Any] | None:
        """The row as it is now, or None."""
        return await self.driver.run(reading.read(self.driver.programs.reading, spec_of(lifecycle), key, self.tenant))

    async def history(self, lifecycle: Declared, key: Key, limit: int = 100) -> list[HistoryEntry]:
        """What happened to the row, newest first."""
        return await self.driver.run(
            reading.history(self.driver.programs.reading, spec_of(lifecycle), key, self.tenant, limit)
        )
