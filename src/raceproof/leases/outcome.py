"""The answers to those who want to lead."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal

from raceproof.leases.declared import Lease
from raceproof.outcome import Conflict, Unknown, neither_true_nor_false


@dataclass(frozen=True, slots=True)
class Leading:
    """This holder has the lease. Put `epoch` into every write that only a leader may make.

    `deadline` is the caller's own monotonic clock, measured from before the request: its belief must end there.
    """

    won: ClassVar[Literal[True]] = True

    move: Lease
    by: str
    epoch: int
    deadline: float
    taken_over: bool = False

    __bool__ = neither_true_nor_false

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
class Led:
    """Somebody else has the lease."""

    outcome: ClassVar[str] = "led"
    won: ClassVar[Literal[False]] = False

    move: Lease
    by: str | None
    epoch: int
    until: datetime | None

    __bool__ = neither_true_nor_false

    @property
    def key(self) -> str:
        return self.move.name

    def __str__(self) -> str:
        return f"{self.move} is held by {self.by or 'nobody'} in epoch {self.epoch}"


LeadAnswer = Leading | Led | Unknown[Any] | Conflict[Any]
