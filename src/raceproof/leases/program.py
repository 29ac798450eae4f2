"""Leases: at most one holder per name, by the store's clock.

The row (name, holder, epoch, until) is the truth. Acquiring bumps the epoch; renewing and releasing match holder and epoch.
Each method is one decision of the store. Keeps P10. Does not promise that the previous holder has noticed.
"""

import time
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from raceproof.kernel.answers import outages_as_answers
from raceproof.kernel.moment import moment
from raceproof.kernel.statement import Program, Rows
from raceproof.leases.answers import LeaseAnswer, LeaseGranted, LeaseHeldByOther, LeaseReleased, ReleaseAnswer
from raceproof.leases.request import LeaseRequest


class Found(NamedTuple):
    """What a decision found, or what the lease is if the caller got it."""

    granted: bool
    holder: str | None
    epoch: int
    until: Any
    taken_over: bool = False


class LeasePrograms(ABC):
    """The programs of leases; a dialect says how they are sent."""

    def acquire(self, request: LeaseRequest) -> Program[LeaseAnswer]:
        """Become the holder, or learn who holds it."""
        return self._decided("acquire", request)

    def renew(self, request: LeaseRequest) -> Program[LeaseAnswer]:
        """Extend the lease if this is still the holder's epoch."""
        return self._decided("renew", request)

    def release(self, request: LeaseRequest) -> Program[ReleaseAnswer]:
        """Give the lease up: the next holder need not wait for its end."""
        answer = yield from self._decided("release", request)
        released = LeaseReleased(request.lease, request.by, request.epoch)
        return released if isinstance(answer, LeaseGranted) else answer

    def holder(self, request: LeaseRequest) -> Program[LeaseHeldByOther]:
        """Who holds it. Nothing is written."""
        return _held(request, (yield from self._sent("look", request)))

    def _decided(self, action: str, request: LeaseRequest) -> Program[LeaseAnswer]:
        return outages_as_answers(request.lease.name, request.lease, self._decide(action, request))

    def _decide(self, action: str, request: LeaseRequest) -> Program[LeaseGranted | LeaseHeldByOther]:
        deadline = time.monotonic() + request.lease.seconds
        found = yield from self._sent(action, request)
        if found.granted:
            return LeaseGranted(request.lease, request.by, found.epoch, deadline, found.taken_over)
        return _held(request, found)

    @abstractmethod
    def _sent(self, action: str, request: LeaseRequest) -> Program[Found]:
        """Decide it in the store."""

    @abstractmethod
    def listed(self, request: LeaseRequest) -> Program[Rows]:
        """All leases of the table: name, holder, epoch, until, held, since."""


def _held(request: LeaseRequest, found: Found) -> LeaseHeldByOther:
    until = None if found.until is None else moment(found.until)
    return LeaseHeldByOther(request.lease, found.holder, found.epoch, until)
