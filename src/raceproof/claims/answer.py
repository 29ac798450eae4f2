"""From what the store found and did to the answer of a claim: the same few lines for every store."""

from typing import Any

from raceproof.outcome import (
    Claim,
    Conflict,
    GivenBack,
    Lost,
    Missing,
    Released,
    Renewal,
    SetAside,
    Taken,
    Unknown,
)
from raceproof.spec import Claimable

# Why a row cannot be claimed, as bits of one number; predicates of the call follow.
STATUS = 1
HELD = 2
RESTING = 4
SPENT = 8
LINE = 16
FIRST_PREDICATE = 32


def user_key(claim: Claimable[Any], parts: Any) -> Any:
    """A key as the caller writes it: without the tenant, a tuple only if it has several columns."""
    own = tuple(parts)[1:] if claim.lifecycle.tenant else tuple(parts)
    return own if len(own) > 1 else own[0]


def claimed(
    claim: Claimable[Any], key: Any, fence: Any, by: str, attempt: int | None, before: str, deadline: float,
    row: Any, tenant: Any,
) -> Claim[Any, Any]:  # fmt: skip
    status = claim.lifecycle.status_of.get(before, before)
    return Claim(key, claim, fence, by, attempt or 1, status, deadline, row, tenant)


def taken(
    claim: Claimable[Any], key: Any, status: str, unmet: int, by: str | None, guards: tuple[Any, ...]
) -> Taken[Any]:
    """Why this row could not be claimed."""
    reasons = []
    if unmet & STATUS:
        reasons.append(f"only rows at {', '.join(claim.open)} can be claimed")
    if unmet & HELD:
        reasons.append("somebody holds it")
    if unmet & RESTING:
        reasons.append("it rests after a failure")
    if unmet & SPENT:
        reasons.append(f"it has had {claim.cap} attempts")
    if unmet & LINE:
        reasons.append(f"an earlier row with the same {claim.serial} is not finished")
    bit = FIRST_PREDICATE
    for predicate in guards:
        if unmet & bit:
            reasons.append(f"not {predicate}")
        bit *= 2
    known = claim.lifecycle.status_of.get(status, status)
    return Taken(key, claim, known, " and ".join(reasons), by if unmet & HELD else None)


def passed_over(claim: Claimable[Any], key: Any, status: str) -> Taken[Any]:
    """A trigger of the user's has kept the claim from being written."""
    known = claim.lifecycle.status_of.get(status, status)
    return Taken(key, claim, known, "a trigger of the table passes it over")


def lost(one: Claim[Any, Any], status: str, fence: Any, by: str | None) -> Lost[Any]:
    known = one.move.lifecycle.status_of.get(status, status)
    return Lost(one.key, one.move, known, fence, None, by)


def missing(one: Claim[Any, Any]) -> Missing[Any]:
    return Missing(one.key, one.move)


def unknown(one: Claim[Any, Any], cause: BaseException) -> Unknown[Any]:
    return Unknown(one.key, one.move, None, cause)


def conflict(one: Claim[Any, Any], cause: BaseException) -> Conflict[Any]:
    return Conflict(one.key, one.move, cause)


def renewed(one: Claim[Any, Any], fence: Any, deadline: float) -> Renewal[Any, Any]:
    return Claim(one.key, one.move, fence, one.by, one.attempt, one.before, deadline, one.row, one.tenant)


def released(one: Claim[Any, Any], delay: float) -> GivenBack[Any]:
    return Released(one.key, one.move, status_after(one), delay if one.move.after else 0.0)


def status_after(one: Claim[Any, Any]) -> Any:
    """Where a row is that was given back: a claim that does not move it leaves it where it was."""
    claim = one.move
    if claim.back is not None:
        return claim.back.reaches
    return claim.move.reaches if claim.move else one.before


def set_aside(claim: Claimable[Any], key: Any, attempt: int | None) -> SetAside[Any]:
    status = claim.exhausted.reaches if claim.exhausted else claim.lifecycle.member(claim.held[0])
    return SetAside(key, claim, status, attempt)
