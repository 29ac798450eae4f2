"""The answers to those who want to lead."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from raceproof.leases.declared import Lease
from raceproof.outcome import Conflict, ReachedAnswer, Unknown, UnreachedAnswer


@dataclass(frozen=True, slots=True)
class Leading(ReachedAnswer):
    """This holder has the lease. Put `epoch` into every write that only a leader may make.

    `deadline` is the caller's own monotonic clock, measured from before the request: its belief must end there.
    """

    won: ClassVar[Literal[True]] = True

    move: Lease
    by: str
    epoch: int
    deadline: float
    taken_over: bool = False
    """There was an earlier holder; it may not know yet that its epoch is over."""

    @property
    def key(self) -> str:
        return self.move.name

    @property
    def outcome(self) -> str:
        return "took over" if self.taken_over else "leading"

    def __str__(self) -> str:
        how = "took over" if self.taken_over else "holds"
        return f"{self.by} {how} {self.move} in epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class SteppedDown(ReachedAnswer):
    """This holder has given the lease up; its epoch is over when the next one begins."""

    outcome: ClassVar[str] = "stepped down"
    won: ClassVar[Literal[True]] = True

    move: Lease
    by: str
    epoch: int

    @property
    def key(self) -> str:
        return self.move.name

    def __str__(self) -> str:
        return f"{self.by} has given up {self.move} of epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class Led(UnreachedAnswer):
    """Somebody else has the lease."""

    outcome: ClassVar[str] = "led"

    move: Lease
    by: str | None
    epoch: int
    until: datetime | None

    @property
    def key(self) -> str:
        return self.move.name

    def __str__(self) -> str:
        return f"{self.move} is held by {self.by or 'nobody'} in epoch {self.epoch}"


LeadAnswer = Leading | Led | Unknown[Any] | Conflict[Any]
StepDownAnswer = SteppedDown | Led | Unknown[Any] | Conflict[Any]
