"""Leases on a store: the plain calls. `raceproof.run.leader` keeps one up in the background."""

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from raceproof.declare.predicate import EpochGuard, Predicate
from raceproof.kernel.api import Calls
from raceproof.kernel.statement import Program, reading
from raceproof.leases.answers import LeaseAnswer, LeaseGranted, LeaseHeldByOther, ReleaseAnswer
from raceproof.leases.declared import Lease
from raceproof.leases.request import LeaseRequest, holder_request, lease_request

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

D = TypeVar("D", bound="Driver | AsyncDriver")


class LeaseCalls(Calls[D], Generic[D]):
    """What sync and async calls share."""

    def _lease(self, action: str, request: LeaseRequest) -> Program[Any]:
        started = time.monotonic()
        try:
            answer = yield from getattr(self.driver.programs.leases, action)(request)
        except Exception as error:
            self._add_note(error, request.lease, request.by)
            raise
        self.tell_all("lease", (answer,), request.by, started)
        return answer

    def _holder(self, lease: Lease, now: datetime | None) -> Program[LeaseHeldByOther]:
        return (yield from reading(self.driver.programs.leases.holder(LeaseRequest(lease, now=now))))

    def lease_guard(self, held: LeaseGranted) -> Predicate:
        """A guard for any write, as `where=`: the write is refused unless this epoch is still the current one."""
        request = holder_request(held)
        return EpochGuard(self.dialect, request.lease.table, request.lease.name, request.epoch)


class SyncLeases(LeaseCalls["Driver"]):
    """Leases on a sync connection."""

    def acquire_lease(
        self,
        lease: Lease,
        by: str | None = None,
        now: datetime | None = None,
        *,
        session: bool = False,
        locked: bool = False,
    ) -> LeaseAnswer:
        """Become the holder if nobody is, or learn who is."""
        answer: LeaseAnswer = self.driver.run(self._lease("acquire", lease_request(lease, by, now, session, locked)))
        return answer

    def renew_lease(self, held: LeaseGranted, now: datetime | None = None, *, session: bool = False) -> LeaseAnswer:
        """Extend the lease; `LeaseHeldByOther` if another process has it by now."""
        answer: LeaseAnswer = self.driver.run(self._lease("renew", holder_request(held, now, session)))
        return answer

    def release_lease(self, held: LeaseGranted, now: datetime | None = None) -> ReleaseAnswer:
        """Give the lease up, so that the next holder need not wait for its end."""
        answer: ReleaseAnswer = self.driver.run(self._lease("release", holder_request(held, now)))
        return answer

    def lease_holder(self, lease: Lease, now: datetime | None = None) -> LeaseHeldByOther:
        """Who holds the lease, for people who look."""
        return self.driver.run(self._holder(lease, now))


class AsyncLeases(LeaseCalls["AsyncDriver"]):
    """Leases on an async connection."""

    async def acquire_lease(
        self,
        lease: Lease,
        by: str | None = None,
        now: datetime | None = None,
        *,
        session: bool = False,
        locked: bool = False,
    ) -> LeaseAnswer:
        """Become the holder if nobody is, or learn who is."""
        answer: LeaseAnswer = await self.driver.run(
            self._lease("acquire", lease_request(lease, by, now, session, locked))
        )
        return answer

    async def renew_lease(
        self, held: LeaseGranted, now: datetime | None = None, *, session: bool = False
    ) -> LeaseAnswer:
        """Extend the lease; `LeaseHeldByOther` if another process has it by now."""
        answer: LeaseAnswer = await self.driver.run(self._lease("renew", holder_request(held, now, session)))
        return answer

    async def release_lease(self, held: LeaseGranted, now: datetime | None = None) -> ReleaseAnswer:
        """Give the lease up, so that the next holder need not wait for its end."""
        answer: ReleaseAnswer = await self.driver.run(self._lease("release", holder_request(held, now)))
        return answer

    async def lease_holder(self, lease: Lease, now: datetime | None = None) -> LeaseHeldByOther:
        """Who holds the lease, for people who look."""
        return await self.driver.run(self._holder(lease, now))
