"""The answers to those who want a lease."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from raceproof.kernel.answers import Conflict, ReachedAnswer, Unknown, UnreachedAnswer
from raceproof.leases.declared import Lease


@dataclass(frozen=True, slots=True)
class LeaseGranted(ReachedAnswer):
    """This holder has the lease. Put `epoch` into every write that only a leader may make.

    `deadline` is the caller's own monotonic clock, measured from before the request: its belief must end there.
    """

    won: ClassVar[Literal[True]] = True

    declared: Lease
    by: str
    epoch: int
    deadline: float
    taken_over: bool = False
    """There was an earlier holder; it may not know yet that its epoch is over."""

    @property
    def key(self) -> str:
        return self.declared.name

    @property
    def outcome(self) -> str:
        return "took over" if self.taken_over else "granted"

    def __str__(self) -> str:
        how = "took over" if self.taken_over else "holds"
        return f"{self.by} {how} {self.declared} in epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class LeaseReleased(ReachedAnswer):
    """This holder has given the lease up; its epoch is over when the next one begins."""

    outcome: ClassVar[str] = "released"
    won: ClassVar[Literal[True]] = True

    declared: Lease
    by: str
    epoch: int

    @property
    def key(self) -> str:
        return self.declared.name

    def __str__(self) -> str:
        return f"{self.by} has given up {self.declared} of epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class LeaseHeldByOther(UnreachedAnswer):
    """Another process has the lease, or nobody has (`by` is None)."""

    outcome: ClassVar[str] = "held by another"

    declared: Lease
    by: str | None
    epoch: int
    until: datetime | None

    @property
    def key(self) -> str:
        return self.declared.name

    def __str__(self) -> str:
        return f"{self.declared} is held by {self.by or 'nobody'} in epoch {self.epoch}"


LeaseAnswer = LeaseGranted | LeaseHeldByOther | Unknown[Any] | Conflict[Any]
ReleaseAnswer = LeaseReleased | LeaseHeldByOther | Unknown[Any] | Conflict[Any]
