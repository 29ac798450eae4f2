"""A worker: claim → run → finish, bounded, renewing, draining.

Promise: an item is finished only by its current holder (P4, P5); a row whose worker has died can be claimed by the next one
after its lease (P13); stopping, cancelling and failing leave every row either finished or claimable (P14), after its lease
if a thread is still at it; the heartbeat stops last. Not promised: that an item is run once. A handler that must not repeat
an outside effect uses `deliver_once`.
"""

import asyncio
import time
from collections.abc import Awaitable
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

from raceproof.claims.answers import Claim
from raceproof.claims.request import check_claimable
from raceproof.declare.predicate import Predicate, Where, predicates
from raceproof.declare.spec import Claimable, Move
from raceproof.kernel.arguments import Returning
from raceproof.kernel.errors import CallError, DeclarationError
from raceproof.kernel.events import log
from raceproof.kernel.identity import default_actor
from raceproof.run.leader import Leader
from raceproof.run.limit import ConcurrencyLimit
from raceproof.run.signals import stopped_by_signals
from raceproof.run.worker.admission import Admission
from raceproof.run.worker.batch import BatchSize
from raceproof.run.worker.finishing import Finishing
from raceproof.run.worker.held import Held
from raceproof.run.worker.items import Handler, Items, is_coroutine_function
from raceproof.run.worker.running import Running
from raceproof.run.worker.threads import GLANCE, ThreadItems
from raceproof.store import AsyncStore

T = TypeVar("T")

_IN_VAIN = 5
"""How often in a row the store may be asked without an answer before a run that is to end gives up."""


class Worker:
    """Runs `handler` for every row of a claim: `await Worker(db, Job.work, handler, finish=Job.finish).run()`.

    A plain function runs in a thread of its own, one item after the other in each of `parallel` threads; a coroutine
    function runs `parallel` items at once. What it returns (a mapping) is set along with the finishing move; what it raises
    gives the item back, to back off and be tried again, and in the end to be dead-lettered. `timeout` is for one item,
    `batch_timeout` for all that were claimed together, from their claim on. `poll` is how often the store is asked when
    nothing wakes the worker up; `drain` how long running items may go on after `stop()` or SIGTERM. `limit` bounds how
    many workers do this at once, over all processes. With a `leader` it claims only while this process leads, and each
    claim is refused by the store once another process does; what runs goes on, and is finished as long as its claim holds,
    and what it has not begun by then it gives back. So it does without its slot.
    """

    def __init__(
        self,
        db: AsyncStore,
        claim: Claimable[Any],
        handler: Handler,
        *,
        finish: Move[Any],
        by: str | None = None,
        parallel: int | None = None,
        max_batch: int = 2000,
        timeout: float | None = None,
        batch_timeout: float | None = None,
        poll: float = 1.0,
        drain: float = 30.0,
        where: Where = (),
        returning: Returning = None,
        limit: ConcurrencyLimit | None = None,
        leader: Leader | None = None,
    ) -> None:
        check_claimable(claim)
        check_async(db, f"{claim}: a worker")
        if not callable(handler):
            raise CallError(f"{claim}: handler must be a callable that takes one Claim, got {handler!r}")
        if not finish.lifecycle.means(claim.lifecycle):
            raise CallError(f"{claim}: finish= is a move of {claim.lifecycle}, not {finish!r}")
        if any(status not in finish.sources for status in claim.held):
            raise CallError(f"{claim}: {finish} does not lead from {', '.join(claim.held)}, where claimed rows are")
        if leader is not None and leader.dialect != db.dialect:
            raise CallError(
                f"{claim}: {leader.lease} is in another store ({leader.dialect}) than the rows ({db.dialect}),"
                " which cannot look at it when it writes"
            )
        self._db = db
        self._claim = claim
        self._held = Held(db, finish)
        self._finishing = Finishing(db, self._held, finish)
        self._stopping = asyncio.Event()
        self._are_coroutines = is_coroutine_function(handler)
        self._parallel = (10 if self._are_coroutines else 1) if parallel is None else parallel
        if self._parallel < 1:
            raise CallError(f"{claim}: parallel={parallel} would run nothing")
        self._by = by or default_actor()
        self._admission = Admission(db, self._by, limit, leader)
        is_stopped = self._may_not_begin if self._admission.is_needed else self._stopping.is_set
        items = (handler, self._held, self._finishing, is_stopped, timeout)
        self._items = Items(*items) if self._are_coroutines else ThreadItems(*items, self._parallel)
        self._where = predicates(where)
        self._returning = returning
        self._batch_timeout = batch_timeout
        self._poll = poll
        self._drain = drain
        self._limit = limit
        self._leader = leader
        self._batch = BatchSize(self._parallel, max_batch)
        self._wake = asyncio.Event()
        self._running = Running(self._items.run, self._parallel, self._batch, self._ended)
        self._until_idle = False
        self._has_run = False
        self._answered = time.monotonic()
        self._in_vain = 0

    @property
    def finished(self) -> int:
        """How many items this worker has finished."""
        return self._finishing.finished

    @property
    def failed(self) -> int:
        """How many items failed here and were given back or dead-lettered."""
        return self._finishing.failed

    @property
    def lost(self) -> int:
        """How many items had been taken over by the time they were finished here."""
        return self._finishing.lost

    @property
    def silent_for(self) -> float:
        """Seconds since the store last answered when it was asked for work, if it has to be; for a health check."""
        return 0.0 if self._running else time.monotonic() - self._answered

    def wake(self) -> None:
        """Look for work now instead of at the next poll."""
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what runs has ended, or been given back."""
        self._stopping.set()
        self._wake.set()

    async def run(self, *, until_idle: bool = False, signals: bool = False) -> None:
        """Work until `stop()`, or SIGTERM and SIGINT with `signals`; with `until_idle`, until nothing is left to do."""
        if self._has_run and self._stopping.is_set():
            raise CallError(f"{self._claim}: this worker was stopped; make another one to go on")
        self._has_run = True
        self._until_idle = until_idle
        self._in_vain = 0
        with stopped_by_signals(self.stop) if signals else nullcontext():
            await self._run()

    async def _run(self) -> None:
        renewing = asyncio.create_task(self._keep_renewing())
        listening = asyncio.create_task(self._db.driver.listen(self._claim, self.wake))
        led = nullcontext() if self._leader is None else self._leader.woken(self._role_changed)
        try:
            with self._db.driver.woken(self._claim, self.wake), led:
                await self._work()
        except asyncio.CancelledError:
            self.stop()
            self._drain = 0.0
            raise
        finally:
            listening.cancel()
            await _to_the_end(self._end(renewing, listening))

    async def _work(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            guards = self._admission.guards()
            if guards is not None and self._limit is not None and self._admission.slot is None:
                await self._ask(self._admission.take_slot(self._limit))
            if guards is None or not self._admission.has_slot:
                await self._stand_by(guards is None)
                continue
            half = self._batch.size // 2
            few = max(half, self._parallel - 1)
            if self._running.items > few:
                await self._until_left(few)
                continue
            if self._finishing.waiting > 4 * self._batch.size:
                await self._finishing.flush()
            if quiet := self._until_idle and not self._running:
                # what has ended may let others be claimed, as the next of a line: nothing is left only after that
                await self._finishing.flush()
            # half of what may be held: it is claimed while the other half runs and the end of the last is written
            room = min(self._batch.size - self._running.items, max(self._parallel, half))
            claims = await self._claim_some(room, guards)
            if claims is None:
                await self._sleep(self._poll)  # whether there is work is unknown
            elif claims:
                self._running.begin(claims, len(claims) == room, self._batch_timeout)
            elif self._running:
                await self._sleep(self._poll)
            elif quiet:
                return
            elif not self._until_idle:
                await self._finishing.flush()
                await self._admission.free_slot()
                await self._sleep(self._poll)

    def _may_not_begin(self) -> bool:
        """Whether no item may be begun any more, or now."""
        return self._stopping.is_set() or not self._admission.may_begin()

    def _role_changed(self) -> None:
        self._give_back_what_may_not_begin()
        self.wake()

    def _give_back_what_may_not_begin(self) -> None:
        """P11: the items that have not begun can be claimed by others at once."""
        if not self._admission.may_begin():
            self._items.give_back(self._running.stop_waiting())

    async def _stand_by(self, passive: bool) -> None:
        """Until there may be a reason to ask again."""
        self._give_back_what_may_not_begin()
        if passive:
            self._answered = time.monotonic()  # nothing is to be asked
            if not self._running:
                await self._admission.free_slot()
        await self._sleep(self._poll)

    async def _claim_some(self, most: int, guards: tuple[Predicate, ...]) -> list[Claim[Any, Any]] | None:
        """What there is to do; None if the store could not be asked."""
        claims = await self._ask(
            self._db.claim(self._claim, most, by=self._by, where=(*self._where, *guards), returning=self._returning)
        )
        if claims is not None:
            self._held.add(claims)
        return claims

    async def _ask(self, asked: Awaitable[T]) -> T | None:
        """What the store answers; None if it could not be asked, which is no reason to end at once."""
        try:
            answer = await asked
        except (CallError, DeclarationError):
            raise  # nothing is mended by asking again
        except Exception as error:
            log.warning("%s: the store could not be asked: %s: %s", self._claim, type(error).__name__, error)
            self._in_vain += 1
            if self._until_idle and self._in_vain >= _IN_VAIN:
                raise
            return None
        self._in_vain = 0
        self._answered = time.monotonic()
        return answer

    async def _sleep(self, seconds: float) -> None:
        # not wait_for, which in Python 3.11 forgets a cancellation that comes together with the event
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a worker failed", self._claim, exc_info=error)

    async def _until_left(self, items: int) -> None:
        """Wait until at most `items` are left, or until the worker is to stop."""
        stop = asyncio.ensure_future(self._stopping.wait())
        try:
            while self._running.items > items and not self._stopping.is_set():
                await asyncio.wait([*self._running.tasks, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()

    async def _keep_renewing(self) -> None:
        """The heartbeat: renew what is held when a third of its lease is over. It stops last."""
        lease = self._claim.lease
        often = min(lease, self._limit.seconds) if self._limit else lease
        hung = False
        while True:
            # one that hung is asked again at once: half a lease may be over when a renewal begins, and a third passes in it
            await asyncio.sleep(0 if hung else often / 6)
            hung = False
            try:
                async with asyncio.timeout(often / 3) as patience:
                    await self._admission.keep_slot()
                    gone = await self._held.renew(time.monotonic() + lease * 2 / 3)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                log.warning("%s: claims could not be renewed: %s: %s", self._claim, type(error).__name__, error)
                gone, hung = False, patience.expired()
            self._give_back_what_may_not_begin()
            for task, claims in self._running:
                if self._are_coroutines and all(not self._held.has(one) for one in claims) and gone:
                    task.cancel()  # everything it works on has been taken over by now

    async def _end(self, renewing: "asyncio.Task[None]", listening: "asyncio.Task[None]") -> None:
        """Let what runs end, give the others back, write everything; only then stop the heartbeat."""
        try:
            self._items.give_back(self._running.stop_waiting())
            if self._running and self._drain > 0:
                await asyncio.wait(self._running.tasks, timeout=self._drain)
            left = self._running.tasks
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
            await self._finishing.flush()
            held = self._held.all()
            if held:
                self._items.give_back(held)
                await self._finishing.flush()
            await self._admission.free_slot()
        finally:
            self._items.let_go()
            # a driver may swallow a cancellation that meets it while it connects
            while pending := [task for task in (renewing, listening) if not task.done()]:
                for task in pending:
                    task.cancel()
                await asyncio.wait(pending, timeout=GLANCE)


async def _to_the_end(work: Any) -> None:
    """Run to the end, also if the caller is cancelled once more meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                break
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


def check_async(db: object, who: str) -> None:
    if not isinstance(db, AsyncStore):
        raise CallError(f"{who} needs an async store, as in `async with connect(url) as db`, not {type(db).__name__}")
