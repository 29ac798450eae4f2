"""The answers to the start of an attempt."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from raceproof.attempts.declared import Attempts
from raceproof.kernel.answers import Conflict, ReachedAnswer, Unknown, UnreachedAnswer
from raceproof.kernel.shown import shown_key


@dataclass(frozen=True, slots=True)
class Started(ReachedAnswer):
    """The attempt is the owner's active one. `replayed`: it had been started before, and was not touched."""

    outcome: ClassVar[str] = "started"
    won: ClassVar[Literal[True]] = True

    key: Any
    declared: Attempts
    owner: Any
    superseded: Any = None
    """The key of the attempt that it ended, if there was an open one."""
    replayed: bool = False

    def __str__(self) -> str:
        ended = f", which ended {self.superseded!r}" if self.superseded is not None else ""
        return f"{self.declared} of {shown_key(self.owner)} is {shown_key(self.key)} now{ended}"


@dataclass(frozen=True, slots=True)
class AlreadyActive(ReachedAnswer):
    """The owner has an active attempt already; `key` names it, and nothing was started."""

    outcome: ClassVar[str] = "already active"
    won: ClassVar[Literal[False]] = False

    key: Any
    declared: Attempts
    owner: Any
    status: str

    def __str__(self) -> str:
        return f"{self.declared} of {shown_key(self.owner)} is still {shown_key(self.key)}, at {self.status}"


@dataclass(frozen=True, slots=True)
class Rejected(UnreachedAnswer):
    """The attempt was not started: the owner's active one is `active`, or this key has been used (`status`)."""

    outcome: ClassVar[str] = "rejected"

    key: Any
    declared: Attempts
    owner: Any
    status: str
    active: Any = None

    def __str__(self) -> str:
        if self.active is not None:
            active = f"{shown_key(self.active)} is active, at {self.status}"
            return f"{self.declared} of {shown_key(self.owner)} was not started: {active}"
        begun = f"there is an attempt {shown_key(self.key)} already, at {self.status}"
        return f"{self.declared} of {shown_key(self.owner)} was not started: {begun}"


StartAnswer = Started | AlreadyActive | Rejected | Unknown[Any] | Conflict[Any]
