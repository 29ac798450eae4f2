"""The answer to an event: it is kept, now or since an earlier time."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from raceproof.inbox.declared import Inbox
from raceproof.kernel.answers import ReachedAnswer
from raceproof.kernel.shown import shown_key


@dataclass(frozen=True, slots=True)
class Received(ReachedAnswer):
    """The event is durable. `duplicate`: it was before, and will not be worked on twice."""

    won: ClassVar[Literal[True]] = True

    key: tuple[str, str]
    declared: Inbox
    duplicate: bool

    @property
    def outcome(self) -> str:
        return "duplicate" if self.duplicate else "received"

    def __str__(self) -> str:
        return f"{self.declared}: {shown_key(self.key)} " + ("was there already" if self.duplicate else "is kept")
