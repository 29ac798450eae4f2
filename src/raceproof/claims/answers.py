"""The answers of a claim: the row is held, or why it is not; and how it was given back."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal

from raceproof.declare.spec import Claimable
from raceproof.declare.statuses import text_of_status
from raceproof.kernel.answers import (
    Conflict,
    Key,
    Lost,
    Missing,
    R,
    ReachedAnswer,
    S,
    Unknown,
    UnreachedAnswer,
    shown_by,
)
from raceproof.kernel.moment import moment
from raceproof.kernel.shown import shown_key
from raceproof.kernel.statement import Rows


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Claim(ReachedAnswer, Generic[S, R]):
    """This caller holds the row. Give it to `move` instead of the key: the fence goes into the write.

    `deadline` is the caller's own monotonic clock, measured from before the request: when it is over, so may be the lease.
    """

    outcome: ClassVar[str] = "claimed"
    won: ClassVar[Literal[True]] = True

    key: Key
    declared: Claimable[S]
    fence: Any
    by: str
    attempt: int
    before: S
    deadline: float
    row: R
    tenant: Any = None

    def __bool__(self) -> Literal[True]:
        """A claim is something to hold, not the answer to a race that can be lost: `claim or key` is fine."""
        return True

    def __init__(
        self,
        key: Key,
        declared: Claimable[S],
        fence: Any,
        by: str,
        attempt: int,
        before: S,
        deadline: float,
        row: R,
        tenant: Any = None,
    ) -> None:
        # by the slots, as in Moved
        _claim_key(self, key)
        _claim_declared(self, declared)
        _claim_fence(self, fence)
        _claim_by(self, by)
        _claim_attempt(self, attempt)
        _claim_before(self, before)
        _claim_deadline(self, deadline)
        _claim_row(self, row)
        _claim_tenant(self, tenant)

    @property
    def taken_over(self) -> bool:
        """Whether the row was at the status of a claimed one: an earlier holder did not finish it."""
        return self.declared.move is not None and text_of_status(self.before) in self.declared.held

    def __str__(self) -> str:
        how = "took over" if self.taken_over else "claimed"
        return (
            f"{self.declared} {how} {shown_key(self.key)} for {self.by} with fence {self.fence}, attempt {self.attempt}"
        )


(
    _claim_key,
    _claim_declared,
    _claim_fence,
    _claim_by,
    _claim_attempt,
    _claim_before,
    _claim_deadline,
    _claim_row,
    _claim_tenant,
) = (getattr(Claim, one.name).__set__ for one in fields(Claim))


@dataclass(frozen=True, slots=True)
class Taken(UnreachedAnswer, Generic[S]):
    """The row cannot be claimed now: another process holds it, it backs off, or its status or a guard does not allow it."""

    outcome: ClassVar[str] = "taken"

    key: Key
    declared: Claimable[S]
    status: S
    why: str
    by: str | None = None

    def __str__(self) -> str:
        found = f"{text_of_status(self.status)}: {self.why}{shown_by(self.by)}"
        return f"{self.declared} cannot claim {shown_key(self.key)} at {found}"


@dataclass(frozen=True, slots=True)
class Released(ReachedAnswer, Generic[S]):
    """The holder gave the row back; `status` is where it is now. It backs off for `delay` seconds."""

    outcome: ClassVar[str] = "released"
    won: ClassVar[Literal[True]] = True

    key: Key
    declared: Claimable[S]
    status: S
    delay: float = 0.0

    def __str__(self) -> str:
        return f"{self.declared} gave back {shown_key(self.key)}" + (
            f", to back off for {self.delay:g} s" if self.delay else ""
        )


@dataclass(frozen=True, slots=True)
class DeadLettered(ReachedAnswer, Generic[S]):
    """The row has used up its attempts and was moved out of the way, or will not be claimed again where it is."""

    outcome: ClassVar[str] = "dead-lettered"
    won: ClassVar[Literal[True]] = True

    key: Key
    declared: Claimable[S]
    status: S
    attempt: int | None = None

    def __str__(self) -> str:
        found = f"{shown_key(self.key)} at {text_of_status(self.status)}"
        return f"{self.declared} dead-lettered {found} after {self.attempt} attempts"


Renewal = Claim[S, R] | Lost[S] | Missing[S] | Unknown[S] | Conflict[S]


GivenBack = Released[S] | DeadLettered[S] | Lost[S] | Missing[S] | Unknown[S] | Conflict[S]


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A row that a process holds, or held until its lease ended (`stale`), as people read it."""

    key: Any
    status: str
    holder: str | None
    fence: Any
    attempts: int | None
    until: datetime
    stale: bool


def held_claims(claim: Claimable[Any], rows: Rows) -> list[HeldClaim]:
    """What a dialect says of the claims that are held."""
    spec = claim.lifecycle
    found = []
    for until, stale, status, holder, fence, attempts, *parts in rows:
        own = tuple(parts)[1:] if spec.tenant else tuple(parts)
        key = own if len(own) > 1 else own[0]
        tried = None if attempts is None else int(attempts)
        found.append(HeldClaim(key, status, holder, fence, tried, moment(until), bool(stale)))
    return found
