"""The loop of a leader as a pure state machine: no clock, no I/O. It is given the time and the answers, and says what to do.

Rules for whoever edits it:
  - belief ends at the deadline of the last answer, which is measured from before its request, whatever happens after;
  - an answer that comes after the deadline of its own request changes nothing for the better;
  - an unknown answer neither makes nor keeps a leader: the lease row is the truth, and it is asked again;
  - one request that fails or hangs does not cost the lease: a leader has time for another before its belief ends;
  - after stepping down nothing is asked any more.
"""

from dataclasses import dataclass
from enum import StrEnum

from raceproof.leases import LeaseGranted
from raceproof.leases.answers import LeaseAnswer


class Role(StrEnum):
    ACTIVE = "ACTIVE"
    PASSIVE = "PASSIVE"


@dataclass(frozen=True, slots=True)
class Acquire:
    """Ask for the lease."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask to keep it."""

    leading: LeaseGranted


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then (monotonic seconds)."""

    until: float


Step = Acquire | Renew | Wait


class LeaderMachine:
    """What one process believes about a lease, and what it should do about it."""

    def __init__(self, seconds: float, retry: float, margin: float) -> None:
        self._third = seconds / 3
        self._least = (seconds - margin) / 10
        self._retry = retry
        self._margin = margin
        self._leading: LeaseGranted | None = None
        self._next = 0.0
        self._stopped = False

    @property
    def leading(self) -> LeaseGranted | None:
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

    def epoch(self, now: float) -> int | None:
        """The epoch in which this process may believe that it leads; None if it may not."""
        return self._current().epoch if self.role(now) is Role.ACTIVE else None

    def step(self, now: float) -> Step:
        """What to do now."""
        if self._stopped or now < self._next:
            return Wait(self._next)
        return Acquire() if self.role(now) is Role.PASSIVE else Renew(self._current())

    def patience(self, now: float) -> float:
        """How long a request may take; a leader's leaves time for another one."""
        return self._third if self.role(now) is Role.PASSIVE else self._half(now)

    def answered(self, now: float, answer: LeaseAnswer) -> None:
        """An answer has come."""
        if isinstance(answer, LeaseGranted):
            # an old answer must not shorten what a newer one has given
            if self._leading is None or answer.epoch >= self._leading.epoch:
                self._leading = answer
            # while it believes: who asks after that is told that the lease is held, by itself
            self._next = now + min(self._third, self._left(now) / 2)
        else:
            if answer.outcome == "held by another":
                self._leading = None
            self._ask_again(now)

    def failed(self, now: float) -> None:
        """No answer has come: the store could not be asked. Belief stays until its deadline, and not longer."""
        self._ask_again(now)

    def hurry(self, now: float) -> None:
        """There is a reason to ask now."""
        self._next = min(self._next, now)

    def stop(self) -> LeaseGranted | None:
        """Believe no more; what comes back is to be given up."""
        self._stopped = True
        leading, self._leading = self._leading, None
        return leading

    def _ask_again(self, now: float) -> None:
        """After `retry`; a leader sooner, for its belief ends if nothing is heard."""
        passive = self.role(now) is Role.PASSIVE
        self._next = now + (self._retry if passive else min(self._retry, self._half(now)))

    def _half(self, now: float) -> float:
        """Half of the time that belief lasts, but never so little that the store is asked without a pause."""
        return max(self._left(now) / 2, self._least)

    def _left(self, now: float) -> float:
        deadline = self.deadline
        return 0.0 if deadline is None else max(0.0, deadline - now)

    def _current(self) -> LeaseGranted:
        assert self._leading is not None
        return self._leading
