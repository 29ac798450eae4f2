"""One process leads, the others stand by: a lease that is kept up in the background, with ACTIVE and PASSIVE.

`leader.active` is this process's belief, and it ends before the lease does, by the process's own monotonic clock. What must
not be written by an old leader carries `leader.guard`, which the store checks in the same write.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self

from raceproof.errors import CallError, RaceproofError
from raceproof.events import log
from raceproof.identity import default_actor
from raceproof.leader.advisory import AdvisoryLock
from raceproof.leader.machine import Acquire, LeaderMachine, Renew, Role
from raceproof.leases import LeadAnswer, Leading, Lease
from raceproof.predicate import Predicate
from raceproof.store import AsyncStore

Callback = Callable[["Leader"], Awaitable[object] | object]


class NotLeading(RaceproofError):
    """The guard of a leader was asked for by a process that does not lead."""


class Leader:
    """Keeps a lease up while it is open: `async with Leader(db, Lease("bot")) as leader: …`.

    `on_active` and `on_passive` are called, and awaited, when the role changes; the lease is renewed meanwhile.
    `retry` is how often a passive process asks. `advisory` opens a PostgreSQL connection for a session lock: it makes
    takeover immediate when a leader's process dies; it refuses to work behind a transaction pooler.
    """

    def __init__(
        self,
        db: AsyncStore,
        lease: Lease,
        *,
        by: str | None = None,
        on_active: Callback | None = None,
        on_passive: Callback | None = None,
        retry: float | None = None,
        margin: float | None = None,
        advisory: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        if not isinstance(lease, Lease):
            raise CallError(f"{lease!r} is not a lease; declare one with Lease(name)")
        if advisory is not None and db.dialect != "postgres":
            raise CallError(f"{lease}: advisory locks are PostgreSQL's; this store is {db.dialect}")
        self.lease = lease
        self.by = by or default_actor()
        self._db = db
        self._on = {Role.ACTIVE: on_active, Role.PASSIVE: on_passive}
        seconds = lease.seconds
        retry = seconds / 3 if retry is None else retry
        margin = seconds / 10 if margin is None else margin
        if not 0 <= margin < seconds:
            raise CallError(
                f"{lease}: margin={margin} leaves nothing of a lease of {seconds} s to believe in: from 0 to less than that"
            )
        if not retry > 0:
            raise CallError(f"{lease}: retry={retry} would ask without end; seconds between two questions")
        self._machine = LeaderMachine(seconds, retry, margin)
        self._retry = retry
        self._advisory = AdvisoryLock(lease, advisory) if advisory else None
        self._told = self._settled = Role.PASSIVE
        self._unreleased: Leading | None = None
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()
        self._wakes: list[Callable[[], None]] = []

    @property
    def dialect(self) -> str:
        """Which kind of store the lease is in."""
        return self._db.dialect

    @property
    def role(self) -> Role:
        return self._machine.role(time.monotonic())

    @property
    def active(self) -> bool:
        """Whether this process may believe that it leads, now."""
        return self.role is Role.ACTIVE

    @property
    def epoch(self) -> int:
        """The epoch in which this process leads."""
        return self._leading().epoch

    @property
    def guard(self) -> Predicate:
        """A guard for any write, as `where=leader.guard`: it is refused once somebody else leads."""
        return self._db.leading_guard(self._leading())

    def _leading(self) -> Leading:
        leading = self._machine.leading
        if leading is None or not self.active:
            raise NotLeading(f"{self.by} does not hold {self.lease} now")
        return leading

    async def __aenter__(self) -> Self:
        if self._advisory:
            await self._advisory.open()
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._tell())]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.step_down()

    async def step_down(self) -> None:
        """Stop leading and stop asking; the next one need not wait for the end of the lease. A callback may call it too."""
        leading = self._machine.stop()
        if leading is not None:
            self._unreleased = leading
        # a callback is part of one of the tasks, which ends when the callback has: nobody can wait for itself
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._tasks = [task for task in self._tasks if not task.done()]
        try:
            await self._switch(Role.PASSIVE)
        finally:
            # the lock first: who is told that the lease is free should get both
            if self._advisory:
                await self._advisory.close()
            if self._unreleased is not None:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(self.lease.seconds):
                        await self._db.step_down(self._unreleased)
            self._unreleased = None

    @contextlib.contextmanager
    def woken(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` whenever the role has changed, for as long as the block lasts."""
        self._wakes.append(wake)
        try:
            yield
        finally:
            self._wakes.remove(wake)

    async def wait_for(self, role: Role) -> None:
        """Wait until this process has that role, and its callback has run."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._settled is role and self.role is role)

    async def _keep(self) -> None:
        """Ask, renew, wait: whatever the machine says, for ever."""
        while True:
            step = self._machine.step(time.monotonic())
            if isinstance(step, Acquire | Renew):
                await self._ask(step)
                self._wake.set()
            else:
                await self._pause(max(0.0, step.until - time.monotonic()))

    async def _pause(self, seconds: float) -> None:
        """Wait; who hears meanwhile that its session lock is lost may be replaced at any moment, and asks at once."""
        if self._advisory is None:
            await asyncio.sleep(seconds)
            return
        if self._advisory.lost.is_set():  # and could not be had again
            await asyncio.sleep(min(seconds, self._retry))
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._advisory.lost.wait()
        if self._advisory.lost.is_set():
            self._machine.hurry(time.monotonic())

    async def _ask(self, step: Acquire | Renew) -> None:
        try:
            # a request that hangs must not keep the next one from being made
            async with asyncio.timeout(self.lease.seconds / 3):
                answer = await self._request(step)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.warning("%s could not be asked for: %s: %s", self.lease, type(error).__name__, error)
            self._machine.failed(time.monotonic())
        else:
            self._machine.answered(time.monotonic(), answer)

    async def _request(self, step: Acquire | Renew) -> LeadAnswer:
        if isinstance(step, Renew):
            answer = await self._db.keep_leading(step.leading)
            if self._advisory and self._advisory.lost.is_set():
                await self._advisory.try_lock()
            return answer
        locked = await self._advisory.try_lock() if self._advisory else False
        # who has the lock knows that a holder with a lock is gone; without it the lease decides alone
        return await self._db.lead(self.lease, self.by, session=locked, locked=locked)

    async def _tell(self) -> None:
        """Call back when the role changes, also when nothing is heard and belief runs out."""
        while not self._machine.stopped:
            role = self.role
            if role is not self._told:
                await self._switch(role)
                continue
            deadline = self._machine.deadline if role is Role.ACTIVE else None
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            # not wait_for, which in Python 3.11 forgets a cancellation that comes together with the event
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            self._wake.clear()

    async def _switch(self, role: Role) -> None:
        if role is self._told:
            return
        self._told = role
        log.info("[%s] %s by=%s", role, self.lease, self.by)
        for wake in self._wakes:
            wake()
        callback = self._on[role]
        if callback is not None:
            try:
                result = callback(self)
                if isinstance(result, Awaitable):
                    await result
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("%s: the callback for %s failed", self.lease, role)
        async with self._changed:
            if self._told is role:  # and not a callback has stepped down meanwhile
                self._settled = role
                self._changed.notify_all()
