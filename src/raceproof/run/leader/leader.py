"""One process leads, the others stand by: a lease that is kept up in the background, with ACTIVE and PASSIVE.

`leader.active` is this process's belief, and it ends before the lease does, by the process's own monotonic clock. What must
not be written by an old leader carries `leader.guard`, which the store checks in the same write.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Self

from raceproof.declare.predicate import Predicate
from raceproof.kernel.cancellation import cancellations
from raceproof.kernel.errors import CallError, RaceproofError
from raceproof.kernel.events import log
from raceproof.kernel.identity import default_actor
from raceproof.leases import Lease, LeaseGranted
from raceproof.leases.answers import LeaseAnswer
from raceproof.run.leader.advisory import AdvisoryLock
from raceproof.run.leader.block import SignalledBlock
from raceproof.run.leader.machine import Acquire, LeaderMachine, Renew, Role
from raceproof.store import AsyncStore

Callback = Callable[["Leader"], Awaitable[object] | object]


class NotLeading(RaceproofError):
    """The guard of a leader was asked for by a process that does not lead."""


class Leader:
    """Keeps a lease up while it is open: `async with Leader(db, Lease("bot")) as leader: …`.

    `on_active` and `on_passive` are called, and awaited, when the role or the epoch changes; the lease is renewed meanwhile.
    `retry` is how often a passive process asks. `advisory` opens a PostgreSQL connection for a session lock: it makes
    takeover immediate when a leader's process dies; it refuses to work behind a transaction pooler. With `signals` it
    steps down on SIGTERM and SIGINT, and then ends the block by cancelling what waits there.
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
        signals: bool = False,
    ) -> None:
        if not isinstance(lease, Lease):
            raise CallError(f"{lease!r} is not a lease; declare one with Lease(name)")
        if not isinstance(db, AsyncStore):
            raise CallError(
                f"{lease}: a leader works in the background of async code and needs an async store, not {db!r}; "
                "open one with `async with connect(url) as db:`, or bind an async connection"
            )
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
        self._advisory = AdvisoryLock(lease, advisory) if advisory else None
        self._told: int | None = None
        """The epoch in which this process leads, as the callbacks have heard; None: that it does not."""
        self._settled: int | None = None
        self._unreleased: LeaseGranted | None = None
        self._changed = asyncio.Condition()
        self._entered = False
        self._tasks: list[asyncio.Task[None]] = []
        self._uncut: set[asyncio.Task[Any]] = set()
        self._wake = asyncio.Event()
        self._wakes: list[Callable[[], None]] = []
        self._block = SignalledBlock(self.resign) if signals else None

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
        """A guard for any write, as `where=leader.guard`: it is refused once another process leads."""
        return self._db.lease_guard(self._leading())

    def _leading(self) -> LeaseGranted:
        leading = self._machine.leading
        if leading is None or not self.active:
            raise NotLeading(f"{self.by} does not hold {self.lease} now")
        return leading

    async def __aenter__(self) -> Self:
        if self._entered or self._machine.stopped:
            raise CallError(f"{self.lease}: {self.by} has resigned, or leads already; make a Leader for each block")
        if self._advisory:
            await self._advisory.begin()
        if self._block:
            self._block.enter()
        self._entered = True
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._tell())]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> bool | None:
        try:
            if self._block:
                await self._block.leave()
            await self.resign()
        finally:
            ended = self._block.close(kind) if self._block else None
        return ended

    async def resign(self) -> None:
        """Stop leading and stop asking; the next one need not wait for the end of the lease. A callback may call it too."""
        self._stop()
        try:
            await self._end_tasks()
            await self._switch(None, self.lease.seconds)
        except GeneratorExit:
            raise  # this was abandoned, so no answer can be waited for
        except BaseException:
            await self._give_back()
            raise
        await self._give_back()

    async def _give_back(self) -> None:
        """Resign: let the next one lead, also if the store does not answer."""
        self._stop()  # a question that was under way may have been answered
        try:
            # the lock first: who learns that the lease is free should get both
            if self._advisory:
                await self._advisory.close()
        finally:
            if self._unreleased is not None:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(self.lease.seconds):
                        await self._db.release_lease(self._unreleased)
            self._unreleased = None

    def _stop(self) -> None:
        leading = self._machine.stop()
        if leading is not None:
            self._unreleased = leading

    async def _end_tasks(self) -> None:
        """Cancel what goes on in the background; what is to come to its end is waited for, as long as the lease lasts."""
        # a callback is part of one of the tasks, which ends when the callback has: a task cannot wait for itself
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            if task not in self._uncut:
                task.cancel()
        try:
            if others:
                await asyncio.wait(others, timeout=self.lease.seconds)
        finally:
            for task in others:
                task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._tasks = [task for task in self._tasks if not task.done()]

    @contextlib.contextmanager
    def _to_its_end(self) -> Iterator[None]:
        """Who steps down meanwhile waits, and does not cancel this."""
        task = asyncio.current_task()
        assert task is not None
        self._uncut.add(task)
        try:
            yield
        finally:
            self._uncut.discard(task)

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
            await self._changed.wait_for(lambda: self.role is role and self._settled == self._now_led())

    def _now_led(self) -> int | None:
        return self._machine.epoch(time.monotonic())

    async def _keep(self) -> None:
        """Ask, renew, wait: whatever the machine says, until it is stopped."""
        while not self._machine.stopped:
            step = self._machine.step(time.monotonic())
            if isinstance(step, Acquire | Renew):
                answered = await self._ask(step)
                self._wake.set()
                await self._share_lock(isinstance(step, Renew) and answered)
            else:
                await self._pause(max(0.0, step.until - time.monotonic()))

    async def _pause(self, seconds: float) -> None:
        """Wait; who hears meanwhile that its session lock is lost may be replaced at any moment, and asks at once."""
        if self._advisory is None:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._advisory.lost.wait()
        if self._advisory.lost.is_set():
            self._advisory.lost.clear()
            self._machine.hurry(time.monotonic())

    async def _ask(self, step: Acquire | Renew) -> bool:
        """Ask the store and pass the answer to the machine; whether there was one."""
        # what was asked for may be had before the answer is here: who steps down meanwhile has to give it back
        asking = self._to_its_end() if isinstance(step, Acquire) else contextlib.nullcontext()
        try:
            # a request that hangs must not keep the next one from being made
            with asking:
                async with asyncio.timeout(self._machine.patience(time.monotonic())):
                    answer = await self._request(step)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.warning("%s could not be asked for: %s: %s", self.lease, type(error).__name__, error)
            self._machine.failed(time.monotonic())
            return False
        self._machine.answered(time.monotonic(), answer)
        return True

    async def _request(self, step: Acquire | Renew) -> LeaseAnswer:
        lock = self._advisory
        if isinstance(step, Renew):
            if lock is None:
                return await self._db.renew_lease(step.leading)
            return await self._db.renew_lease(step.leading, session=lock.held)
        locked = lock is not None and await lock.try_lock(self._half_patience())
        # who has the lock knows that a holder with a lock is gone; without it the lease decides alone
        return await self._db.acquire_lease(self.lease, self.by, session=locked, locked=locked)

    async def _share_lock(self, renewed: bool) -> None:
        """Who leads tries to have the lock, and says in the lease that it has; who does not lets the leader have it."""
        lock = self._advisory
        if lock is None:
            return
        if not self.active:
            await lock.unlock(self._half_patience())
        elif renewed:
            had = lock.held
            if await lock.try_lock(self._half_patience()) is not had:
                self._machine.hurry(time.monotonic())

    def _half_patience(self) -> float:
        """For the lock, so that the lease can be asked for as well."""
        return self._machine.patience(time.monotonic()) / 2

    async def _tell(self) -> None:
        """Call back when the role or the epoch changes, also when nothing is heard and belief runs out."""
        while not self._machine.stopped:
            led = self._now_led()
            if led != self._told:
                # a lead that was lost and had again meanwhile is another one: the first has to be heard to be over
                await self._switch(led if self._told is None else None)
                continue
            deadline = None if led is None else self._machine.deadline
            timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
            # not wait_for, which in Python 3.11 forgets a cancellation that comes together with the event
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            self._wake.clear()

    async def _switch(self, led: int | None, patience: float | None = None) -> None:
        """Tell all subscribers that this process leads in that epoch, or does not lead."""
        if led == self._told:
            return
        self._told = led
        role = Role.PASSIVE if led is None else Role.ACTIVE
        log.info("[%s] %s by=%s", role, self.lease, self.by)
        for wake in self._wakes:
            wake()
        try:
            with self._to_its_end() if led is None else contextlib.nullcontext():
                await self._call_back(role, patience)
        finally:
            async with self._changed:
                if self._told == led:  # and not a callback has stepped down meanwhile
                    self._settled = led
                    self._changed.notify_all()

    async def _call_back(self, role: Role, patience: float | None) -> None:
        callback = self._on[role]
        if callback is None:
            return
        cancelled = cancellations()
        try:
            async with asyncio.timeout(patience):
                result = callback(self)
                if isinstance(result, Awaitable):
                    await result
        except asyncio.CancelledError:
            if cancellations() > cancelled:
                raise
            # this task was not cancelled: it has waited for a task that it had cancelled itself
            log.warning("%s: the callback for %s ended cancelled", self.lease, role)
        except Exception:
            log.exception("%s: the callback for %s failed", self.lease, role)
