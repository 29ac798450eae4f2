"""One call of a claim, checked against its declaration before the store hears of it."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

from raceproof.errors import CallError
from raceproof.forms import Marker
from raceproof.identity import default_actor
from raceproof.moves.request import Returning, check_texts, returned_columns
from raceproof.outcome import Claim
from raceproof.predicate import Predicate, Where, predicates
from raceproof.spec import Claimable, Move, check_seconds, is_seconds

_MOST = 2**31 - 1
"""Rows of one call; no store has a LIMIT that means more."""


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
    where: Where = (),
    returning: Returning = None,
    now: datetime | None = None,
) -> ClaimRequest:
    """Check a call; every error here comes before anything was sent."""
    check_claimable(claim)
    spec = claim.lifecycle
    if type(limit) is not int or not 0 < limit <= _MOST:
        raise CallError(f"{claim}: limit={limit!r} is not a number of rows: from 1 to {_MOST}")
    if lease is not None:
        check_lease(claim, lease)
    if spec.tenant and tenant is None:
        raise CallError(f"{spec} has a tenant column: say whose rows with bind(…, tenant=…)")
    check_now(claim, now)
    check_texts(claim, (by,))
    names, row_type = ((), None) if returning is None else returned_columns(claim, returning)
    guards = claim.where + (claim.move.where if claim.move else ()) + predicates(where)
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
        uuid4().hex if isinstance(claim.form, Marker) else "",
        shape,
    )


def check_claimable(claim: Any) -> None:
    if isinstance(claim, Move):
        claims = claim.lifecycle.claims.values()
        declared = (
            f"its claims are {', '.join(map(str, claims))}" if claims else "its lifecycle declares none"
        )
        raise CallError(f"{claim} is a move, and this takes a claim; {declared}")
    if not isinstance(claim, Claimable):
        raise CallError(f"{claim!r} is not a claim; pass one that a lifecycle declares, as in Job.work")


def check_lease(claim: Claimable[Any], lease: float) -> None:
    """P3: the end of a lease is a time that the store can write and compare."""
    check_seconds(f"{claim}: lease", lease, CallError)


def check_delay(claim: Claimable[Any], delay: float) -> None:
    """The end of a rest is such a time too."""
    if not is_seconds(delay, zero=True):
        raise CallError(
            f"{claim}: delay={delay!r} is not a time to rest; give seconds, a hundred years at most"
        )


def check_now(claim: Claimable[Any], now: datetime | None) -> None:
    if now is not None and now.tzinfo is None:
        raise CallError(f"{claim}: now= must have a time zone, as in datetime.now(timezone.utc)")


def claims_of(claims: "Claim[Any, Any] | Iterable[Claim[Any, Any]]") -> list[Claim[Any, Any]]:
    """One claim or several, all of one declaration."""
    found = [claims] if isinstance(claims, Claim) else list(claims)
    for one in found:
        if not isinstance(one, Claim):
            raise CallError(f"{one!r} is not a claim that a store has given")
        if not one.move.means(found[0].move):
            raise CallError(f"claims of {found[0].move} and {one.move} cannot share a statement")
    return found
