"""Deliveries on a store: plain calls, and `deliver_once`, which makes them around a block of code.

In the block, `permit.won` says whether this caller sends. If the block ends normally, the delivery is recorded as delivered.
If it raises `NotSent`, it is recorded as failed, and the next attempt may follow. If it raises anything else, or is
cancelled, the outcome is unknown: uncertain. An earlier attempt that may have arrived stays uncertain until a probe or an
operator says how it ended.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

from raceproof.deliveries import Delivery, DeliveryState, NotSent, PermitLost, SendPermit, SendRefused
from raceproof.deliveries.answers import DeliveryRecorded, RecordAnswer, SendAnswer, UnfinishedDelivery
from raceproof.deliveries.request import send_request
from raceproof.kernel.answers import Key
from raceproof.kernel.api import Calls
from raceproof.kernel.arguments import Returning
from raceproof.kernel.errors import CallError
from raceproof.kernel.events import log
from raceproof.kernel.keys import user_key
from raceproof.kernel.moment import moment
from raceproof.kernel.reasons import reason_of, writable
from raceproof.kernel.statement import Program, reading

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

D = TypeVar("D", bound="Driver | AsyncDriver")
Probe = Callable[[SendPermit], bool | None]
AsyncProbe = Callable[[SendPermit], Awaitable[bool | None]]
_PATIENCE = 5.0
"""Seconds that a cancelled call waits for its mark."""


class SendOptions(TypedDict, total=False):
    """Options of a delivery."""

    by: str | None
    """Who sends; a name of this process if it is not given."""
    reserve: bool
    """Do not count as sending yet; say so with `sending(permit)` right before the send."""
    returning: Returning
    """Columns of the row, as a dataclass or by name."""
    now: datetime | None
    """The time to use, for tests; the store's clock otherwise."""


class DeliveryPrograms(Calls[D], Generic[D]):
    """The programs behind the calls."""

    def _take_turn(self, delivery: Delivery, key: Key, options: SendOptions) -> Program[SendAnswer]:
        asked = send_request(delivery, key, tenant=self.tenant, **options)
        started = time.monotonic()
        try:
            answer = yield from self.driver.programs.deliveries.take(asked)
        except Exception as error:
            self._add_note(error, delivery, repr(key))
            raise
        self.tell_all("deliver", (answer,), asked.by, started)
        return asked.finished(answer) if asked.returning and isinstance(answer, SendPermit) else answer

    def _mark(
        self, permit: SendPermit, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[SendPermit | RecordAnswer]:
        if not isinstance(permit, SendPermit):
            raise CallError(f"{permit!r} is not a permit that was won, so no outcome can be recorded")
        if state is DeliveryState.FAILED and _stays_in_doubt(permit):
            state = DeliveryState.UNCERTAIN
        if state is DeliveryState.UNCERTAIN and permit.declared.state is None:
            # two timestamps cannot express it: the row stays as it is, and is uncertain once it is stale
            return permit
        started = time.monotonic()
        permit = permit.latest
        why = writable(error) if error else None
        try:
            answer = yield from self.driver.programs.deliveries.mark(permit, state, why, now)
        except Exception as failure:
            self._add_note(failure, permit.declared, repr(permit.key))
            raise
        if isinstance(answer, SendPermit):
            permit.renewed(answer)
        self.tell_all("mark", (answer,), permit.by, started, permit.parts[:1])
        return answer

    def _resolve(
        self, delivery: Delivery, key: Key, arrived: bool, by: str | None, now: datetime | None
    ) -> Program[Any]:
        asked = send_request(delivery, key, tenant=self.tenant, by=by, now=now)
        state = DeliveryState.DELIVERED if arrived else DeliveryState.FAILED
        started = time.monotonic()
        programs = self.driver.programs.deliveries
        try:
            answer = yield from programs.resolve(asked, state, f"resolved by {asked.by}")
        except Exception as error:
            self._add_note(error, delivery, repr(key))
            raise
        self.tell_all("resolve", (answer,), asked.by, started)
        return answer

    def _deliveries(
        self, delivery: Delivery, limit: int, now: datetime | None, uncertain: bool
    ) -> Program[list[UnfinishedDelivery]]:
        rows = yield from reading(self.driver.programs.deliveries.listed(delivery, limit, self.tenant, now, uncertain))
        return [
            UnfinishedDelivery(user_key(delivery, parts), state, holder, since and moment(since), attempts, error)
            for state, holder, since, attempts, error, *parts in rows
        ]


def _end_of(error: BaseException) -> DeliveryState:
    """What an exception in the block says about the send."""
    return DeliveryState.FAILED if isinstance(error, NotSent) else DeliveryState.UNCERTAIN


def _stays_in_doubt(permit: SendPermit) -> bool:
    """This try has sent nothing, but an earlier one may have: P7 wants the next one to know.

    With two timestamps that takes a whole stale time, and who resends does so anyway.
    """
    return permit.in_doubt and (permit.declared.state is not None or permit.declared.policy == "probe")


_WORD = {True: DeliveryState.DELIVERED, False: DeliveryState.SENDING, None: DeliveryState.UNCERTAIN}


def _state_told(permit: SendPermit, found: object) -> DeliveryState:
    """What the answer of a probe means: it arrived; it did not, so it is sent; or it remains unknown."""
    if found is not None and not isinstance(found, bool):
        raise CallError(
            f"{permit.declared}: probe= must return True, False or None, got {found!r}; "
            "on an async store it must be a coroutine function"
        )
    return _WORD[found]


def _after_probe(permit: SendPermit, state: DeliveryState, marked: SendPermit | RecordAnswer) -> SendAnswer:
    """Who may send when the answer of the probe is recorded: another process may have taken over meanwhile."""
    match marked:
        case PermitLost(state=found, by=by):
            return SendRefused(permit.key, permit.declared, found, by)
        case SendPermit() if state is DeliveryState.SENDING:
            return replace(marked, in_doubt=False)
        case SendPermit() | DeliveryRecorded():
            return SendRefused(
                permit.key, permit.declared, state, None if state is DeliveryState.UNCERTAIN else permit.by
            )
    return marked


def _warn_unless_marked(permit: SendPermit, answer: SendPermit | RecordAnswer) -> None:
    """It was sent, and the row does not say so: it may be sent again, as the policy decides."""
    if not isinstance(answer, DeliveryRecorded):
        log.warning("%s was sent by %s, but could not be marked: %s", permit.key, permit.by, answer)


def _check_probe(delivery: Delivery, probe: object) -> None:
    if delivery.policy == "probe" and probe is None:
        raise CallError(
            f"{delivery}: its policy is 'probe': give probe=, which is asked whether an earlier try arrived"
        )
    if delivery.policy != "probe" and probe is not None:
        raise CallError(f"{delivery}: probe= goes with policy='probe', and its policy is {delivery.policy!r}")


class SyncDeliveries(DeliveryPrograms["Driver"]):
    """Deliveries on a sync connection."""

    def begin_delivery(self, delivery: Delivery, key: Key, **options: Unpack[SendOptions]) -> SendAnswer:
        """Take the permit to send, or learn who has it."""
        return self.driver.run(self._take_turn(delivery, key, options))

    def sending(self, permit: SendPermit, now: datetime | None = None) -> SendPermit | RecordAnswer:
        """The send begins, or goes on: the permit starts again. Use the returned one from now on."""
        return self.driver.run(self._mark(permit, DeliveryState.SENDING, None, now))

    def delivered(self, permit: SendPermit, now: datetime | None = None) -> SendPermit | RecordAnswer:
        """It was sent."""
        return self.driver.run(self._mark(permit, DeliveryState.DELIVERED, None, now))

    def not_sent(
        self, permit: SendPermit, error: str | None = None, now: datetime | None = None
    ) -> SendPermit | RecordAnswer:
        """It was surely not sent: the next attempt may follow at once."""
        return self.driver.run(self._mark(permit, DeliveryState.FAILED, error, now))

    def uncertain(
        self, permit: SendPermit, error: str | None = None, now: datetime | None = None
    ) -> SendPermit | RecordAnswer:
        """The outcome is unknown; the policy decides what follows."""
        return self.driver.run(self._mark(permit, DeliveryState.UNCERTAIN, error, now))

    def resolve(
        self, delivery: Delivery, key: Key, *, arrived: bool, by: str | None = None, now: datetime | None = None
    ) -> Any:
        """A person has looked at an uncertain one: it arrived, or it did not and may be sent again."""
        return self.driver.run(self._resolve(delivery, key, arrived, by, now))

    def deliveries(
        self, delivery: Delivery, limit: int = 100, now: datetime | None = None, *, uncertain: bool = False
    ) -> list[UnfinishedDelivery]:
        """What is under way or uncertain, or only what is uncertain, the oldest first; for people who look."""
        return self.driver.run(self._deliveries(delivery, limit, now, uncertain))

    @contextmanager
    def deliver_once(
        self, delivery: Delivery, key: Key, *, probe: Probe | None = None, **options: Unpack[SendOptions]
    ) -> Iterator[SendAnswer]:
        """Send from this block if the permit is yours (`permit.won`); how the block ends is how the delivery ends."""
        _check_probe(delivery, probe)
        permit = self.begin_delivery(delivery, key, **options)
        now = options.get("now")
        if isinstance(permit, SendPermit) and permit.in_doubt and probe is not None:
            try:
                state = _state_told(permit, probe(permit))
            except BaseException as error:
                self._end(permit, DeliveryState.UNCERTAIN, reason_of(error), now)
                raise
            permit = _after_probe(permit, state, self.driver.run(self._mark(permit, state, None, now)))
        if not isinstance(permit, SendPermit):
            yield permit
            return
        try:
            yield permit
        except BaseException as error:
            self._end(permit, _end_of(error), reason_of(error), now)
            raise
        _warn_unless_marked(permit, self.driver.run(self._mark(permit, DeliveryState.DELIVERED, None, now)))

    def _end(self, permit: SendPermit, state: DeliveryState, text: str, now: datetime | None) -> None:
        """Record the outcome while an exception passes, which must not be lost."""
        try:
            self.driver.run(self._mark(permit, state, text, now))
        except Exception:
            log.exception("could not mark %s as %s", permit, state)


class AsyncDeliveries(DeliveryPrograms["AsyncDriver"]):
    """Deliveries on an async connection."""

    async def begin_delivery(self, delivery: Delivery, key: Key, **options: Unpack[SendOptions]) -> SendAnswer:
        """Take the permit to send, or learn who has it."""
        return await self.driver.run(self._take_turn(delivery, key, options))

    async def sending(self, permit: SendPermit, now: datetime | None = None) -> SendPermit | RecordAnswer:
        """The send begins, or goes on: the permit starts again. Use the returned one from now on."""
        return await self._marked(permit, DeliveryState.SENDING, None, now)

    async def delivered(self, permit: SendPermit, now: datetime | None = None) -> SendPermit | RecordAnswer:
        """It was sent."""
        return await self._marked(permit, DeliveryState.DELIVERED, None, now)

    async def not_sent(
        self, permit: SendPermit, error: str | None = None, now: datetime | None = None
    ) -> SendPermit | RecordAnswer:
        """It was surely not sent: the next attempt may follow at once."""
        return await self._marked(permit, DeliveryState.FAILED, error, now)

    async def uncertain(
        self, permit: SendPermit, error: str | None = None, now: datetime | None = None
    ) -> SendPermit | RecordAnswer:
        """The outcome is unknown; the policy decides what follows."""
        return await self._marked(permit, DeliveryState.UNCERTAIN, error, now)

    async def resolve(
        self, delivery: Delivery, key: Key, *, arrived: bool, by: str | None = None, now: datetime | None = None
    ) -> Any:
        """A person has looked at an uncertain one: it arrived, or it did not and may be sent again."""
        return await self.driver.run(self._resolve(delivery, key, arrived, by, now))

    async def deliveries(
        self, delivery: Delivery, limit: int = 100, now: datetime | None = None, *, uncertain: bool = False
    ) -> list[UnfinishedDelivery]:
        """What is under way or uncertain, or only what is uncertain, the oldest first; for people who look."""
        return await self.driver.run(self._deliveries(delivery, limit, now, uncertain))

    @asynccontextmanager
    async def deliver_once(
        self, delivery: Delivery, key: Key, *, probe: AsyncProbe | None = None, **options: Unpack[SendOptions]
    ) -> AsyncIterator[SendAnswer]:
        """Send from this block if the permit is yours (`permit.won`); how the block ends is how the delivery ends."""
        _check_probe(delivery, probe)
        permit = await self.begin_delivery(delivery, key, **options)
        now = options.get("now")
        if isinstance(permit, SendPermit) and permit.in_doubt and probe is not None:
            try:
                state = _state_told(permit, await probe(permit))
            except BaseException as error:
                await self._end(permit, DeliveryState.UNCERTAIN, reason_of(error), now)
                raise
            permit = _after_probe(permit, state, await self._marked(permit, state, None, now))
        if not isinstance(permit, SendPermit):
            yield permit
            return
        try:
            yield permit
        except BaseException as error:
            await self._end(permit, _end_of(error), reason_of(error), now)
            raise
        _warn_unless_marked(permit, await self._marked(permit, DeliveryState.DELIVERED, None, now))

    async def _end(self, permit: SendPermit, state: DeliveryState, text: str, now: datetime | None) -> None:
        """Record the outcome while an exception passes, which must not be lost."""
        try:
            await self._marked(permit, state, text, now)
        except Exception:
            log.exception("could not mark %s as %s", permit, state)

    async def _marked(
        self, permit: SendPermit, state: DeliveryState, text: str | None, now: datetime | None
    ) -> SendPermit | RecordAnswer:
        """P14: what is known about a send is written, and its answer heard, also if the caller is cancelled meanwhile.

        The record names the fence, so it can do no harm. A store that does not answer is not waited for forever.
        """
        task = asyncio.ensure_future(self.driver.run(self._mark(permit, state, text, now)))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=_PATIENCE)
            if not task.cancel() and not task.cancelled() and (error := task.exception()) is not None:
                log.warning("could not mark %s as %s: %s", permit, state, error)
            raise
