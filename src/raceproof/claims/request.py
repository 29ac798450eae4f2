"""One call of a claim: checked against its declaration before the store hears of it, and the answers it can have."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from raceproof.claims.answers import Claim, DeadLettered, GivenBack, Released, Renewal, Taken
from raceproof.declare.claim_forms import TextMarker
from raceproof.declare.predicate import NO_GUARDS, Predicate, Where, predicates
from raceproof.declare.spec import Claimable, Move, check_seconds, is_seconds
from raceproof.kernel.answers import Conflict, Lost, Missing, Unknown
from raceproof.kernel.arguments import Returning, check_texts, returned_columns
from raceproof.kernel.errors import CallError
from raceproof.kernel.identity import default_actor

_MOST = 2**31 - 1
"""Rows of one call; no store has a LIMIT that means more."""

# Why a row cannot be claimed, as bits of one number.
STATUS = 1
HELD = 2
BACKING_OFF = 4
SPENT = 8
LINE = 16
FIRST_PREDICATE = 32


@dataclass(slots=True)
class ClaimRequest:
    """What is asked: which claim, how many rows at most, for whom and for how long."""

    claim: Claimable[Any]
    limit: int
    by: str
    lease: float
    where: tuple[Predicate, ...]
    tenant: Any
    returning: tuple[str, ...]
    row_type: type[Any] | None
    now: datetime | None
    token: str
    shape: Hashable

    def values(self) -> dict[str, Any]:
        """The parameters that every statement of this call may have."""
        found: dict[str, Any] = {
            "by": self.by,
            "lease": self.lease,
            "limit": self.limit,
            "token": self.token,
            "key_0": self.tenant,
            "now": self.now,
        }
        for index, predicate in enumerate(self.where):
            found |= predicate.values(f"where_{index}")
        return found

    def stored(self, tenant: Any, where: tuple[Predicate, ...]) -> "ClaimRequest":
        """The same call with its values as the columns store them."""
        texts = tuple([predicate.text("") for predicate in where])
        shape = (self.claim, texts, self.returning, self.now is not None)
        return replace(self, tenant=tenant, where=where, shape=shape)

    # Its answers

    def claimed(
        self, key: Any, fence: Any, attempt: int | None, before: str, started: float, row: Any
    ) -> Claim[Any, Any]:
        """`started` is the local time from before the request: the caller must not believe in the lease for longer."""
        status, deadline = self.claim.lifecycle.status_of.get(before, before), started + self.lease
        return Claim(key, self.claim, fence, self.by, attempt or 1, status, deadline, row, self.tenant)

    def taken(self, key: Any, status: str, unmet: int, by: str | None) -> Taken[Any]:
        """Why this row could not be claimed."""
        claim = self.claim
        reasons = {
            STATUS: f"only rows at {', '.join(claim.open)} can be claimed",
            HELD: "another process holds it",
            BACKING_OFF: "it backs off after a failure",
            SPENT: f"it has had {claim.max_attempts} attempts",
            LINE: f"an earlier row with the same {claim.ordering_key} is not finished",
        }
        reasons |= {FIRST_PREDICATE << i: f"not {predicate}" for i, predicate in enumerate(self.where)}
        why = " and ".join(text for bit, text in reasons.items() if unmet & bit)
        return Taken(key, claim, claim.lifecycle.member(status), why, by if unmet & HELD else None)

    def passed_over(self, key: Any, status: str) -> Taken[Any]:
        """A trigger of the user's has kept the claim from being written."""
        return Taken(key, self.claim, self.claim.lifecycle.member(status), "a trigger of the table passes it over")

    def dead_lettered(self, key: Any, attempt: int | None) -> DeadLettered[Any]:
        claim = self.claim
        status = claim.dead_letter.reaches if claim.dead_letter else claim.lifecycle.member(claim.held[0])
        return DeadLettered(key, claim, status, attempt)

    def finished(self, claim: Claim[Any, Any]) -> Claim[Any, Any]:
        """The claim with its row in the form that the caller asked for."""
        named = dict(zip(self.returning, claim.row, strict=True))
        return replace(claim, row=self.row_type(**named) if self.row_type else named)


def claim_request(
    claim: Claimable[Any],
    *,
    limit: int = 1,
    by: str | None = None,
    tenant: Any = None,
    lease: float | None = None,
    where: Where = NO_GUARDS,
    returning: Returning = None,
    now: datetime | None = None,
) -> ClaimRequest:
    """Check a call; every error here comes before anything was sent."""
    check_claimable(claim)
    spec = claim.lifecycle
    if type(limit) is not int or not 0 < limit <= _MOST:
        raise CallError(f"{claim}: limit={limit!r} must be a number of rows from 1 to {_MOST}")
    if lease is not None:
        check_lease(claim, lease)
    if spec.tenant and tenant is None:
        raise CallError(f"{spec} has a tenant column: say whose rows with bind(…, tenant=…)")
    check_now(claim, now)
    check_texts(claim, (by,))
    names, row_type = ((), None) if returning is None else returned_columns(claim, returning)
    guards = claim.where + (claim.move.where if claim.move else ()) + (() if where is NO_GUARDS else predicates(where))
    texts = tuple([predicate.text("") for predicate in guards]) if guards else ()
    shape = (claim, texts, names, now is not None)
    return ClaimRequest(
        claim,
        limit,
        by or default_actor(),
        claim.lease if lease is None else float(lease),
        guards,
        tenant,
        names,
        row_type,
        now,
        uuid4().hex if isinstance(claim.form, TextMarker) else "",
        shape,
    )


def check_claimable(claim: Any) -> None:
    if isinstance(claim, Move):
        claims = claim.lifecycle.claims.values()
        declared = f"its claims are {', '.join(map(str, claims))}" if claims else "its lifecycle declares none"
        raise CallError(f"{claim} is a move, and this takes a claim; {declared}")
    if not isinstance(claim, Claimable):
        raise CallError(f"{claim!r} is not a claim; pass one that a lifecycle declares, as in Job.work")


def check_lease(claim: Claimable[Any], lease: float) -> None:
    """P3: the end of a lease is a time that the store can write and compare."""
    check_seconds(f"{claim}: lease", lease, CallError)


def check_delay(claim: Claimable[Any], delay: float) -> None:
    """So is the end of a backoff."""
    if not is_seconds(delay, zero=True):
        raise CallError(f"{claim}: delay={delay!r} must be seconds to back off, a hundred years at most")


def check_now(claim: Claimable[Any], now: datetime | None) -> None:
    if now is not None and now.tzinfo is None:
        raise CallError(f"{claim}: now= must have a time zone, as in datetime.now(timezone.utc)")


def claims_of(claims: "Claim[Any, Any] | Iterable[Claim[Any, Any]]") -> list[Claim[Any, Any]]:
    """One claim or several, all of one declaration."""
    found = [claims] if isinstance(claims, Claim) else list(claims)
    for one in found:
        if not isinstance(one, Claim):
            raise CallError(f"{one!r} is not a claim that a store has given")
        if not one.declared.means(found[0].declared):
            raise CallError(f"claims of {found[0].declared} and {one.declared} cannot share a statement")
    return found


# The answers to a holder


def lost(one: Claim[Any, Any], status: str, fence: Any, by: str | None) -> Lost[Any]:
    return Lost(one.key, one.declared, one.declared.lifecycle.member(status), fence, None, by)


def missing(one: Claim[Any, Any]) -> Missing[Any]:
    return Missing(one.key, one.declared)


def unknown(one: Claim[Any, Any], error: BaseException) -> Unknown[Any]:
    return Unknown(one.key, one.declared, None, error.__cause__ or error)


def conflict(one: Claim[Any, Any], error: BaseException) -> Conflict[Any]:
    return Conflict(one.key, one.declared, error.__cause__ or error)


def renewed(one: Claim[Any, Any], fence: Any, deadline: float) -> Renewal[Any, Any]:
    return Claim(one.key, one.declared, fence, one.by, one.attempt, one.before, deadline, one.row, one.tenant)


def released(one: Claim[Any, Any], delay: float) -> GivenBack[Any]:
    return Released(one.key, one.declared, status_after(one), delay if one.declared.not_before else 0.0)


def status_after(one: Claim[Any, Any]) -> Any:
    """Where a row is that was given back: a claim that does not move it leaves it where it was."""
    claim = one.declared
    if claim.back is not None:
        return claim.back.reaches
    return claim.move.reaches if claim.move else one.before
