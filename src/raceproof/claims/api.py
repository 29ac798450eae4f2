"""Claims on a store: how a call becomes a program, and what both kinds of store offer of it."""

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack
from uuid import uuid4

from raceproof.claims.answers import Claim, DeadLettered, GivenBack, HeldClaim, Renewal, Taken, held_claims
from raceproof.claims.request import (
    ClaimRequest,
    check_claimable,
    check_delay,
    check_lease,
    check_now,
    claim_request,
    claims_of,
)
from raceproof.declare.predicate import Where
from raceproof.declare.spec import Claimable
from raceproof.kernel.answers import Conflict, Key, Missing, Unknown
from raceproof.kernel.api import Calls
from raceproof.kernel.arguments import Returning
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import log
from raceproof.kernel.keys import all_key_parts
from raceproof.kernel.reasons import writable
from raceproof.kernel.statement import AcknowledgementLost, Conflicted, Program, reading
from raceproof.moves.request import request

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

S = TypeVar("S", bound=str | Enum)
D = TypeVar("D", bound="Driver | AsyncDriver")
Claims = Claim[Any, Any] | Iterable[Claim[Any, Any]]
Taking = Claim[S, Any] | Taken[S] | Missing[S] | Unknown[S] | Conflict[S]


class ClaimOptions(TypedDict, total=False):
    """What may go along with a claim."""

    by: str | None
    """Who claims; a name of this process if it is not given."""
    lease: float | None
    """Seconds, if not those that the claim declares."""
    where: Where
    """Guards that must hold beside the declared ones."""
    returning: Returning
    """Columns of the row, as a dataclass or by name."""
    now: datetime | None
    """The time to use, for tests; the store's clock otherwise."""


class ClaimPrograms(Calls[D], Generic[D]):
    """The programs behind the calls."""

    def _claim(self, claim: Claimable[Any], limit: int, options: ClaimOptions) -> Program[list[Claim[Any, Any]]]:
        asked = claim_request(claim, limit=limit, tenant=self.tenant, **options)
        started = time.monotonic()
        programs = self.driver.programs.claims
        try:
            claims = yield from programs.acquire(asked)
            dead: Sequence[DeadLettered[Any]] = ()
            if len(claims) < limit and claim.dead_letter is not None:
                dead = yield from self._dead_letter(asked, claims)
        except (AcknowledgementLost, Conflicted) as error:
            cause = error.__cause__ or error
            cause.add_note(f"raceproof: {claim}: rows that this call may have claimed are free after {asked.lease:g} s")
            raise cause from None
        except Exception as error:
            kept = self._kept_of_many(f"rows that this call may have claimed are free after {asked.lease:g} s")
            self._add_note(error, claim, "any row", kept)
            raise
        self.tell_all("claim", (*claims, *dead), asked.by, started)
        return self._with_rows(asked, claims) if asked.returning else claims

    def _with_rows(self, asked: ClaimRequest, claims: Sequence[Claim[Any, Any]]) -> list[Claim[Any, Any]]:
        """The claims with their rows in the form that the caller asked for."""
        try:
            return [asked.finished(one) for one in claims]
        except Exception as error:
            keys = ", ".join(repr(one.key) for one in claims)
            error.add_note(
                f"raceproof: {asked.claim}: what failed is making {asked.row_type} of a row;"
                f" {keys} are claimed, and free after {asked.lease:g} s"
            )
            raise

    def _dead_letter(
        self, asked: ClaimRequest, claims: Sequence[Claim[Any, Any]]
    ) -> Program[Sequence[DeadLettered[Any]]]:
        """Dead-letter rows that are out of attempts. An error here must not lose what was claimed already (P13)."""
        settled = self.driver.settled
        try:
            return (yield from self.driver.programs.claims.dead_letter(asked))
        except Exception as error:
            if not claims or not settled:
                raise
            log.warning(
                "%s: rows out of attempts could not be dead-lettered: %s", asked.claim, error.__cause__ or error
            )
            return ()

    def _claim_one(self, claim: Claimable[Any], key: Any, options: ClaimOptions) -> Program[Taking[Any]]:
        asked: ClaimRequest = claim_request(claim, tenant=self.tenant, **options)
        started = time.monotonic()
        try:
            answer = yield from self.driver.programs.claims.one(asked, key)
        except Exception as error:
            self._add_note(error, claim, repr(key))
            raise
        self.tell_all("claim", (answer,), asked.by, started)
        return asked.finished(answer) if asked.returning and isinstance(answer, Claim) else answer

    def _renew(self, claims: Claims, lease: float | None, now: datetime | None) -> Program[list[Renewal[Any, Any]]]:
        found = claims_of(claims)
        if not found:
            return []
        claim = found[0].declared
        check_now(claim, now)
        if lease is None:
            lease = claim.lease
        else:
            check_lease(claim, lease)
        started = time.monotonic()
        programs = self.driver.programs.claims
        try:
            answers = yield from programs.renew(found, lease, now, uuid4().hex)
        except Exception as error:
            self._note_of_claims(error, found)
            raise
        self.tell_all("renew", answers, found[0].by, started, (one.tenant for one in found))
        return answers

    def _release(self, claims: Claims, reason: str | None, now: datetime | None) -> Program[list[GivenBack[Any]]]:
        found = claims_of(claims)
        if not found:
            return []
        check_now(found[0].declared, now)
        started = time.monotonic()
        programs = self.driver.programs.claims
        try:
            answers = yield from programs.give_back(found, [0.0] * len(found), True, _storable(reason), now)
        except Exception as error:
            self._note_of_claims(error, found)
            raise
        self.tell_all("release", answers, found[0].by, started, (one.tenant for one in found))
        return answers

    def _fail(
        self, claims: Claims, reason: str | None, delay: float | None, now: datetime | None
    ) -> Program[list[GivenBack[Any]]]:
        found = claims_of(claims)
        if not found:
            return []
        check_now(found[0].declared, now)
        if delay is not None:
            check_delay(found[0].declared, delay)
        reason = _storable(reason)
        started = time.monotonic()
        answers: list[Any] = [None] * len(found)
        spent = [place for place, one in enumerate(found) if _is_spent(one)]
        try:
            if spent:
                ended = yield from self._exhaust([found[place] for place in spent], reason, now)
                for place, answer in zip(spent, ended, strict=True):
                    answers[place] = answer
            others = [place for place in range(len(found)) if answers[place] is None]
            if others:
                some = [found[place] for place in others]
                delays = [one.declared.backoff.after(one.attempt) if delay is None else delay for one in some]
                programs = self.driver.programs.claims
                given = yield from programs.give_back(some, delays, False, reason, now)
                for place, answer in zip(others, given, strict=True):
                    answers[place] = answer
        except Exception as error:
            self._note_of_claims(error, found)
            raise
        self.tell_all("fail", answers, found[0].by, started, (one.tenant for one in found))
        return answers

    def _note_of_claims(self, error: Exception, claims: Sequence[Claim[Any, Any]]) -> None:
        """Many claims may be changed by several statements, each of which stays."""
        if len(claims) == 1:
            self._add_note(error, claims[0].declared, repr(claims[0].key))
        else:
            kept = "what was changed stays so, the same call again is safe"
            self._add_note(error, claims[0].declared, f"{len(claims)} rows", kept)

    def _exhaust(
        self, claims: Sequence[Claim[Any, Any]], reason: str | None, now: datetime | None
    ) -> Program[list[Any]]:
        """The last attempt has failed: out of the way, by the holder's own fence."""
        move = claims[0].declared.dead_letter
        assert move is not None
        asked = [request(move, one, reason=reason, now=now) for one in claims]
        moved = yield from self.driver.programs.moves.many(asked)
        return [
            DeadLettered(one.key, one.declared, move.reaches, one.attempt) if answer.won else answer
            for one, answer in zip(claims, moved, strict=True)
        ]

    def _offer(self, claim: Claimable[Any], keys: Iterable[Key]) -> Program[None]:
        check_claimable(claim)
        if isinstance(keys, str):
            raise CallError(f"{claim}: offer takes several keys, not the one text {keys!r}")
        parts = all_key_parts(claim.lifecycle, keys, self.tenant)
        if parts:
            try:
                yield from self.driver.programs.claims.offer(claim, parts)
            except Exception as error:
                self._add_note(error, claim, f"{len(parts)} rows", "the same call again is safe")
                raise

    def _add_waiting(self, claim: Claimable[Any], keys: Iterable[Key]) -> Program[None]:
        check_claimable(claim)
        parts = all_key_parts(claim.lifecycle, keys, self.tenant)
        yield from reading(self.driver.programs.claims.add(claim, parts))

    def _claims(self, claim: Claimable[Any], limit: int, now: datetime | None) -> Program[list[HeldClaim]]:
        asked = claim_request(claim, limit=limit, tenant=self.tenant, now=now)
        rows = yield from self.driver.programs.claims.listed(asked)
        return held_claims(claim, rows)


def _storable(reason: str | None) -> str | None:
    """A reason often comes from other software; whatever it contains, the failure must still be recorded."""
    return writable(reason) if reason else None


def _is_spent(one: Claim[Any, Any]) -> bool:
    claim = one.declared
    return claim.dead_letter is not None and claim.max_attempts is not None and one.attempt >= claim.max_attempts


class SyncClaims(ClaimPrograms["Driver"]):
    """Claims on a sync connection."""

    def claim(self, claim: Claimable[S], limit: int = 1, **options: Unpack[ClaimOptions]) -> list[Claim[S, Any]]:
        """Take up to `limit` rows of work for this caller alone, in order, for a lease on the store's clock."""
        return self.driver.run(self._claim(claim, limit, options))

    def claim_one(self, claim: Claimable[S], key: Key, **options: Unpack[ClaimOptions]) -> Taking[S]:
        """Take one row by its key, or learn why not."""
        return self.driver.run(self._claim_one(claim, key, options))

    def renew(self, claims: Claims, lease: float | None = None, now: datetime | None = None) -> list[Renewal[Any, Any]]:
        """Restart the lease. Use the returned claims from now on."""
        return self.driver.run(self._renew(claims, lease, now))

    def release(self, claims: Claims, reason: str | None = None, now: datetime | None = None) -> list[GivenBack[Any]]:
        """Give rows back untouched: they can be claimed at once, and the attempt does not count."""
        return self.driver.run(self._release(claims, reason, now))

    def fail(
        self, claims: Claims, reason: str | None = None, delay: float | None = None, now: datetime | None = None
    ) -> list[GivenBack[Any]]:
        """Give rows back after a failure: they back off, or are dead-lettered after the last attempt."""
        return self.driver.run(self._fail(claims, reason, delay, now))

    def offer(self, claim: Claimable[Any], keys: Iterable[Key]) -> None:
        """Announce rows that can be claimed: wakes up workers, and on Redis puts the rows into the index."""
        return self.driver.run(self._offer(claim, keys))

    def add_waiting(self, claim: Claimable[Any], keys: Iterable[Key]) -> None:
        """Insert rows that wait to be claimed; rows that exist already are left alone."""
        self.driver.run(self._add_waiting(claim, keys))

    def claims(self, claim: Claimable[Any], limit: int = 100, now: datetime | None = None) -> list[HeldClaim]:
        """Who holds what, and until when; for people and tools."""
        return self.driver.run(self._claims(claim, limit, now))


class AsyncClaims(ClaimPrograms["AsyncDriver"]):
    """Claims on an async connection."""

    async def claim(self, claim: Claimable[S], limit: int = 1, **options: Unpack[ClaimOptions]) -> list[Claim[S, Any]]:
        """Take up to `limit` rows of work for this caller alone, in order, for a lease on the store's clock."""
        return await self.driver.run(self._claim(claim, limit, options))

    async def claim_one(self, claim: Claimable[S], key: Key, **options: Unpack[ClaimOptions]) -> Taking[S]:
        """Take one row by its key, or learn why not."""
        return await self.driver.run(self._claim_one(claim, key, options))

    async def renew(
        self, claims: Claims, lease: float | None = None, now: datetime | None = None
    ) -> list[Renewal[Any, Any]]:
        """Restart the lease. Use the returned claims from now on."""
        return await self.driver.run(self._renew(claims, lease, now))

    async def release(
        self, claims: Claims, reason: str | None = None, now: datetime | None = None
    ) -> list[GivenBack[Any]]:
        """Give rows back untouched: they can be claimed at once, and the attempt does not count."""
        return await self.driver.run(self._release(claims, reason, now))

    async def fail(
        self, claims: Claims, reason: str | None = None, delay: float | None = None, now: datetime | None = None
    ) -> list[GivenBack[Any]]:
        """Give rows back after a failure: they back off, or are dead-lettered after the last attempt."""
        return await self.driver.run(self._fail(claims, reason, delay, now))

    async def offer(self, claim: Claimable[Any], keys: Iterable[Key]) -> None:
        """Announce rows that can be claimed: wakes up workers, and on Redis puts the rows into the index."""
        await self.driver.run(self._offer(claim, keys))
        self.driver.wake(claim)

    async def add_waiting(self, claim: Claimable[Any], keys: Iterable[Key]) -> None:
        """Insert rows that wait to be claimed; rows that exist already are left alone."""
        await self.driver.run(self._add_waiting(claim, keys))

    async def claims(self, claim: Claimable[Any], limit: int = 100, now: datetime | None = None) -> list[HeldClaim]:
        """Who holds what, and until when; for people and tools."""
        return await self.driver.run(self._claims(claim, limit, now))
