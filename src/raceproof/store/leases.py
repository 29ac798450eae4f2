"""Leases on a store: the plain calls. `raceproof.leader` keeps one up in the background."""

import time
from datetime import datetime
from typing import Generic, TypeVar

from raceproof.driver import AsyncDriver, Driver
from raceproof.errors import CallError
from raceproof.identity import default_actor
from raceproof.leases import LeadAnswer, Leading, Lease, Led, StepDownAnswer
from raceproof.moves.request import check_texts
from raceproof.predicate import EpochGuard, Predicate
from raceproof.statement import Program, reading
from raceproof.store.telling import Telling

D = TypeVar("D", bound=Driver | AsyncDriver)


class LeasePrograms(Telling[D], Generic[D]):
    """The programs behind the calls."""

    def _lead(
        self, lease: Lease, by: str | None, now: datetime | None, session: bool = False, locked: bool = False
    ) -> Program[LeadAnswer]:
        if not isinstance(lease, Lease):
            raise CallError(f"{lease!r} is not a lease; declare one with Lease(name)")
        check_texts(lease, (by,))
        holder = by or default_actor()
        started = time.monotonic()
        try:
            answer = yield from self._driver.primitives.leases.acquire(lease, holder, session, locked, now)
        except Exception as error:
            self._note(error, lease, holder)
            raise
        self._tell_all("lead", (answer,), holder, started)
        return answer

    def _keep_leading(
        self, leading: Leading, now: datetime | None, session: bool = False
    ) -> Program[LeadAnswer]:
        _check_leading(leading)
        started = time.monotonic()
        programs = self._driver.primitives.leases
        try:
            answer = yield from programs.renew(leading.move, leading.by, leading.epoch, now, session)
        except Exception as error:
            self._note(error, leading.move, leading.by)
            raise
        self._tell_all("lead", (answer,), leading.by, started)
        return answer

    def _step_down(self, leading: Leading, now: datetime | None) -> Program[StepDownAnswer]:
        _check_leading(leading)
        started = time.monotonic()
        programs = self._driver.primitives.leases
        try:
            answer = yield from programs.release(leading.move, leading.by, leading.epoch, now)
        except Exception as error:
            self._note(error, leading.move, leading.by)
            raise
        self._tell_all("step down", (answer,), leading.by, started)
        return answer

    def _led_by(self, lease: Lease, now: datetime | None) -> Program[Led]:
        return (yield from reading(self._driver.primitives.leases.look(lease, now)))

    def leading_guard(self, leading: Leading) -> Predicate:
        """A guard for any write, as `where=`: it is refused unless this epoch is still the current one."""
        _check_leading(leading)
        return EpochGuard(self.dialect, leading.move.table, leading.move.name, leading.epoch)


def _check_leading(answer: object) -> None:
    """P10: other answers tell the epoch of somebody else, in which nobody may write who does not look at the answer."""
    if not isinstance(answer, Leading):
        raise CallError(
            f"this caller does not lead, and the epoch is not its own: {answer}. Look at what db.lead(…) has answered, "
            "`if isinstance(answer, Leading): …`; who does not lead asks again"
        )


class SyncLeases(LeasePrograms[Driver]):
    """Leases on a sync connection."""

    def lead(
        self,
        lease: Lease,
        by: str | None = None,
        now: datetime | None = None,
        *,
        session: bool = False,
        locked: bool = False,
    ) -> LeadAnswer:
        """Become the holder if nobody is, or learn who is."""
        return self._driver.run(self._lead(lease, by, now, session, locked))

    def keep_leading(
        self, leading: Leading, now: datetime | None = None, *, session: bool = False
    ) -> LeadAnswer:
        """Hold it for another time; Led if somebody else has it by now."""
        return self._driver.run(self._keep_leading(leading, now, session))

    def step_down(self, leading: Leading, now: datetime | None = None) -> StepDownAnswer:
        """Give it up, so that the next one need not wait."""
        return self._driver.run(self._step_down(leading, now))

    def led_by(self, lease: Lease, now: datetime | None = None) -> Led:
        """Who holds it; for people who look."""
        return self._driver.run(self._led_by(lease, now))


class AsyncLeases(LeasePrograms[AsyncDriver]):
    """Leases on an async connection."""

    async def lead(
        self,
        lease: Lease,
        by: str | None = None,
        now: datetime | None = None,
        *,
        session: bool = False,
        locked: bool = False,
    ) -> LeadAnswer:
        """Become the holder if nobody is, or learn who is."""
        return await self._driver.run(self._lead(lease, by, now, session, locked))

    async def keep_leading(
        self, leading: Leading, now: datetime | None = None, *, session: bool = False
    ) -> LeadAnswer:
        """Hold it for another time; Led if somebody else has it by now."""
        return await self._driver.run(self._keep_leading(leading, now, session))

    async def step_down(self, leading: Leading, now: datetime | None = None) -> StepDownAnswer:
        """Give it up, so that the next one need not wait."""
        return await self._driver.run(self._step_down(leading, now))

    async def led_by(self, lease: Lease, now: datetime | None = None) -> Led:
        """Who holds it; for people who look."""
        return await self._driver.run(self._led_by(lease, now))
