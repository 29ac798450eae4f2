"""The loop of a leader as a pure state machine: no clock, no I/O. It is told the time and the answers, and says what to do.

Rules for whoever edits it:
  - belief ends at the deadline of the last answer, which is measured from before its request, whatever happens after;
  - an answer that comes after the deadline of its own request changes nothing for the better;
  - an unknown answer neither makes nor keeps a leader: the lease row is the truth, and it is asked again;
  - after stepping down nothing is asked any more.
"""

from dataclasses import dataclass
from enum import StrEnum

from raceproof.leases import LeadAnswer, Leading


class Role(StrEnum):
    ACTIVE = "ACTIVE"
    PASSIVE = "PASSIVE"


@dataclass(frozen=True, slots=True)
class Acquire:
    """Ask for the lease."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask to keep it."""

    leading: Leading


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then (monotonic seconds)."""

    until: float


Step = Acquire | Renew | Wait


class LeaderMachine:
    """What one process believes about a lease, and what it should do about it."""

    def __init__(self, seconds: float, retry: float, margin: float) -> None:
        # before belief ends: who asks after that is told that the lease is held, by itself
        self._renew_every = min(seconds / 3, (seconds - margin) / 2)
        self._retry = retry
        self._margin = margin
        self._leading: Leading | None = None
        self._next = 0.0
        self._stopped = False

    @property
    def leading(self) -> Leading | None:
        """The last answer that made this process a leader; ask `role` whether it still holds."""
        return self._leading

    @property
    def stopped(self) -> bool:
        return self._stopped

    @property
    def deadline(self) -> float | None:
        """When belief ends, if no answer comes before."""
        return None if self._leading is None else self._leading.deadline - self._margin

    def role(self, now: float) -> Role:
        deadline = self.deadline
        return Role.ACTIVE if deadline is not None and now < deadline and not self._stopped else Role.PASSIVE

    def step(self, now: float) -> Step:
        """What to do now."""
        if self._stopped or now < self._next:
            return Wait(self._next)
        return Acquire() if self.role(now) is Role.PASSIVE else Renew(self._current())

    def answered(self, now: float, answer: LeadAnswer) -> None:
        """An answer has come."""
        self._next = now + self._retry
        if isinstance(answer, Leading):
            # an old answer must not shorten what a newer one has given
            if self._leading is None or answer.epoch >= self._leading.epoch:
                self._leading = answer
            self._next = min(now + self._renew_every, max(now, answer.deadline - self._margin))
        elif answer.outcome == "led":
            self._leading = None

    def failed(self, now: float) -> None:
        """No answer has come: the store could not be asked. Belief stays until its deadline, and not longer."""
        self._next = now + self._retry

    def hurry(self, now: float) -> None:
        """There is a reason to ask now."""
        self._next = min(self._next, now)

    def stop(self) -> Leading | None:
        """Believe no more; what comes back is to be given up."""
        self._stopped = True
        leading, self._leading = self._leading, None
        return leading

    def _current(self) -> Leading:
        assert self._leading is not None
        return self._leading
