"""Deliveries on a store: plain calls, and `deliver_once`, which makes them around a block of code.

In the block, `turn.won` says whether this caller sends. If the block ends, the delivery is marked as delivered; if it raises
`NotSent`, as failed, and the next try may follow; if it raises anything else, or is cancelled, nobody knows: uncertain.
An earlier try that may have arrived stays in doubt through all of that, until a probe or a person has said how it ended.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from raceproof.deliveries import Delivery, DeliveryState, NotSent, NoTurn, Turn, TurnLost, turn_request
from raceproof.deliveries.answer import user_key
from raceproof.deliveries.outcome import MarkAnswer, Marked, TurnAnswer
from raceproof.driver import AsyncDriver, Driver
from raceproof.errors import CallError
from raceproof.events import log
from raceproof.look import UnfinishedDelivery, moment
from raceproof.moves.request import Returning
from raceproof.outcome import Key
from raceproof.reason import reason_of, writable
from raceproof.statement import Program, reading
from raceproof.store.telling import Telling

D = TypeVar("D", bound=Driver | AsyncDriver)
Probe = Callable[[Turn], bool | None]
AsyncProbe = Callable[[Turn], Awaitable[bool | None]]
_PATIENCE = 5.0
"""Seconds that a cancelled call waits for its mark."""


class TurnOptions(TypedDict, total=False):
    """What may go along with a turn."""

    by: str | None
    """Who sends; a name of this process if it is not given."""
    reserve: bool
    """Do not count as sending yet; say so with `sending(turn)` right before the send."""
    returning: Returning
    """Columns of the row, as a dataclass or by name."""
    now: datetime | None
    """The time to use, for tests; the store's clock otherwise."""


class DeliveryPrograms(Telling[D], Generic[D]):
    """The programs behind the calls."""

    def _take_turn(self, delivery: Delivery, key: Key, options: TurnOptions) -> Program[TurnAnswer]:
        asked = turn_request(delivery, key, tenant=self._tenant, **options)
        started = time.monotonic()
        try:
            answer = yield from self._driver.primitives.deliveries.take(asked)
        except Exception as error:
            self._note(error, delivery, repr(key))
            raise
        self._tell_all("deliver", (answer,), asked.by, started)
        return asked.finished(answer) if asked.returning and isinstance(answer, Turn) else answer

    def _mark(
        self, turn: Turn, state: DeliveryState, error: str | None, now: datetime | None
    ) -> Program[Turn | MarkAnswer]:
        if not isinstance(turn, Turn):
            raise CallError(f"{turn!r} is not a turn that was won, so it cannot be ended")
        if state is DeliveryState.FAILED and _stays_in_doubt(turn):
            state = DeliveryState.UNCERTAIN
        if state is DeliveryState.UNCERTAIN and turn.move.state is None:
            # two timestamps have no word for it: the row stays as it is, and tells so when it is stale
            return turn
        started = time.monotonic()
        turn = turn.latest
        why = writable(error) if error else None
        try:
            answer = yield from self._driver.primitives.deliveries.mark(turn, state, why, now)
        except Exception as failure:
            self._note(failure, turn.move, repr(turn.key))
            raise
        if isinstance(answer, Turn):
            turn.renewed(answer)
        self._tell_all("mark", (answer,), turn.by, started, turn.parts[:1])
        return answer

    def _resolve(
        self, delivery: Delivery, key: Key, arrived: bool, by: str | None, now: datetime | None
    ) -> Program[Any]:
        asked = turn_request(delivery, key, tenant=self._tenant, by=by, now=now)
        state = DeliveryState.DELIVERED if arrived else DeliveryState.FAILED
        started = time.monotonic()
        programs = self._driver.primitives.deliveries
        try:
            answer = yield from programs.resolve(asked, state, f"resolved by {asked.by}")
        except Exception as error:
            self._note(error, delivery, repr(key))
            raise
        self._tell_all("resolve", (answer,), asked.by, started)
        return answer

    def _deliveries(
        self, delivery: Delivery, limit: int, now: datetime | None, uncertain: bool
    ) -> Program[list[UnfinishedDelivery]]:
        rows = yield from reading(
            self._driver.primitives.deliveries.listed(delivery, limit, self._tenant, now, uncertain)
        )
        return [
            UnfinishedDelivery(
                user_key(delivery, parts), state, holder, since and moment(since), attempts, error
            )
            for state, holder, since, attempts, error, *parts in rows
        ]


def _end_of(error: BaseException) -> DeliveryState:
    """What an exception in the block says about the send."""
    return DeliveryState.FAILED if isinstance(error, NotSent) else DeliveryState.UNCERTAIN


def _stays_in_doubt(turn: Turn) -> bool:
    """This try has sent nothing, but an earlier one may have: P7 wants the next one to know.

    With two timestamps that takes a whole stale time, and who resends does so anyway.
    """
    return turn.in_doubt and (turn.move.state is not None or turn.move.policy == "probe")


_WORD = {True: DeliveryState.DELIVERED, False: DeliveryState.SENDING, None: DeliveryState.UNCERTAIN}


def _state_told(turn: Turn, found: object) -> DeliveryState:
    """What a probe's word means: it arrived; it did not, so it is sent, without doubt; or nobody can tell."""
    if found is not None and not isinstance(found, bool):
        raise CallError(
            f"{turn.move}: a probe answers True, False or None, not {found!r}; on an async store it is a coroutine function"
        )
    return _WORD[found]


def _after_probe(turn: Turn, state: DeliveryState, marked: Turn | MarkAnswer) -> TurnAnswer:
    """Whose turn it is when the probe's word is written: somebody else may have taken it over meanwhile."""
    match marked:
        case TurnLost(state=found, by=by):
            return NoTurn(turn.key, turn.move, found, by)
        case Turn() if state is DeliveryState.SENDING:
            return replace(marked, in_doubt=False)
        case Turn() | Marked():
            return NoTurn(turn.key, turn.move, state, None if state is DeliveryState.UNCERTAIN else turn.by)
    return marked


def _warn_unless_marked(turn: Turn, answer: Turn | MarkAnswer) -> None:
    """It was sent, and the row does not say so: somebody else may send it again, as the policy has it."""
    if not isinstance(answer, Marked):
        log.warning("%s was sent by %s, but could not be marked: %s", turn.key, turn.by, answer)


def _check_probe(delivery: Delivery, probe: object) -> None:
    if delivery.policy == "probe" and probe is None:
        raise CallError(
            f"{delivery}: its policy is 'probe': give probe=, which is asked whether an earlier try arrived"
        )
    if delivery.policy != "probe" and probe is not None:
        raise CallError(f"{delivery}: probe= goes with policy='probe', and its policy is {delivery.policy!r}")


class SyncDeliveries(DeliveryPrograms[Driver]):
    """Deliveries on a sync connection."""

    def take_turn(self, delivery: Delivery, key: Key, **options: Unpack[TurnOptions]) -> TurnAnswer:
        """Win the turn to send, or learn who has it."""
        return self._driver.run(self._take_turn(delivery, key, options))

    def sending(self, turn: Turn, now: datetime | None = None) -> Turn | MarkAnswer:
        """The send begins, or goes on: the turn starts anew; use the one that comes back."""
        return self._driver.run(self._mark(turn, DeliveryState.SENDING, None, now))

    def delivered(self, turn: Turn, now: datetime | None = None) -> Turn | MarkAnswer:
        """It was sent."""
        return self._driver.run(self._mark(turn, DeliveryState.DELIVERED, None, now))

    def not_sent(
        self, turn: Turn, error: str | None = None, now: datetime | None = None
    ) -> Turn | MarkAnswer:
        """It was surely not sent: the next try may follow at once."""
        return self._driver.run(self._mark(turn, DeliveryState.FAILED, error, now))

    def uncertain(
        self, turn: Turn, error: str | None = None, now: datetime | None = None
    ) -> Turn | MarkAnswer:
        """Nobody knows whether it was sent; the policy decides what follows."""
        return self._driver.run(self._mark(turn, DeliveryState.UNCERTAIN, error, now))

    def resolve(
        self,
        delivery: Delivery,
        key: Key,
        *,
        arrived: bool,
        by: str | None = None,
        now: datetime | None = None,
    ) -> Any:
        """A person has looked at an uncertain one: it arrived, or it did not and may be sent again."""
        return self._driver.run(self._resolve(delivery, key, arrived, by, now))

    def deliveries(
        self, delivery: Delivery, limit: int = 100, now: datetime | None = None, *, uncertain: bool = False
    ) -> list[UnfinishedDelivery]:
        """What is under way or uncertain, or only what is uncertain, the oldest first; for people who look."""
        return self._driver.run(self._deliveries(delivery, limit, now, uncertain))

    @contextmanager
    def deliver_once(
        self, delivery: Delivery, key: Key, *, probe: Probe | None = None, **options: Unpack[TurnOptions]
    ) -> Iterator[TurnAnswer]:
        """Send from this block if the turn is yours (`turn.won`); how the block ends is how the delivery ends."""
        _check_probe(delivery, probe)
        turn = self.take_turn(delivery, key, **options)
        now = options.get("now")
        if isinstance(turn, Turn) and turn.in_doubt and probe is not None:
            try:
                state = _state_told(turn, probe(turn))
            except BaseException as error:
                self._end(turn, DeliveryState.UNCERTAIN, reason_of(error), now)
                raise
            turn = _after_probe(turn, state, self._driver.run(self._mark(turn, state, None, now)))
        if not isinstance(turn, Turn):
            yield turn
            return
        try:
            yield turn
        except BaseException as error:
            self._end(turn, _end_of(error), reason_of(error), now)
            raise
        _warn_unless_marked(turn, self._driver.run(self._mark(turn, DeliveryState.DELIVERED, None, now)))

    def _end(self, turn: Turn, state: DeliveryState, text: str, now: datetime | None) -> None:
        """Say how the turn has ended, in the course of an exception that must not be lost."""
        try:
            self._driver.run(self._mark(turn, state, text, now))
        except Exception:
            log.exception("could not mark %s as %s", turn, state)


class AsyncDeliveries(DeliveryPrograms[AsyncDriver]):
    """Deliveries on an async connection."""

    async def take_turn(self, delivery: Delivery, key: Key, **options: Unpack[TurnOptions]) -> TurnAnswer:
        """Win the turn to send, or learn who has it."""
        return await self._driver.run(self._take_turn(delivery, key, options))

    async def sending(self, turn: Turn, now: datetime | None = None) -> Turn | MarkAnswer:
        """The send begins, or goes on: the turn starts anew; use the one that comes back."""
        return await self._marked(turn, DeliveryState.SENDING, None, now)

    async def delivered(self, turn: Turn, now: datetime | None = None) -> Turn | MarkAnswer:
        """It was sent."""
        return await self._marked(turn, DeliveryState.DELIVERED, None, now)

    async def not_sent(
        self, turn: Turn, error: str | None = None, now: datetime | None = None
    ) -> Turn | MarkAnswer:
        """It was surely not sent: the next try may follow at once."""
        return await self._marked(turn, DeliveryState.FAILED, error, now)

    async def uncertain(
        self, turn: Turn, error: str | None = None, now: datetime | None = None
    ) -> Turn | MarkAnswer:
        """Nobody knows whether it was sent; the policy decides what follows."""
        return await self._marked(turn, DeliveryState.UNCERTAIN, error, now)

    async def resolve(
        self,
        delivery: Delivery,
        key: Key,
        *,
        arrived: bool,
        by: str | None = None,
        now: datetime | None = None,
    ) -> Any:
        """A person has looked at an uncertain one: it arrived, or it did not and may be sent again."""
        return await self._driver.run(self._resolve(delivery, key, arrived, by, now))

    async def deliveries(
        self, delivery: Delivery, limit: int = 100, now: datetime | None = None, *, uncertain: bool = False
    ) -> list[UnfinishedDelivery]:
        """What is under way or uncertain, or only what is uncertain, the oldest first; for people who look."""
        return await self._driver.run(self._deliveries(delivery, limit, now, uncertain))

    @asynccontextmanager
    async def deliver_once(
        self, delivery: Delivery, key: Key, *, probe: AsyncProbe | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncIterator[TurnAnswer]:
        """Send from this block if the turn is yours (`turn.won`); how the block ends is how the delivery ends."""
        _check_probe(delivery, probe)
        turn = await self.take_turn(delivery, key, **options)
        now = options.get("now")
        if isinstance(turn, Turn) and turn.in_doubt and probe is not None:
            try:
                state = _state_told(turn, await probe(turn))
            except BaseException as error:
                await self._end(turn, DeliveryState.UNCERTAIN, reason_of(error), now)
                raise
            turn = _after_probe(turn, state, await self._marked(turn, state, None, now))
        if not isinstance(turn, Turn):
            yield turn
            return
        try:
            yield turn
        except BaseException as error:
            await self._end(turn, _end_of(error), reason_of(error), now)
            raise
        _warn_unless_marked(turn, await self._marked(turn, DeliveryState.DELIVERED, None, now))

    async def _end(self, turn: Turn, state: DeliveryState, text: str, now: datetime | None) -> None:
        """Say how the turn has ended, in the course of an exception that must not be lost."""
        try:
            await self._marked(turn, state, text, now)
        except Exception:
            log.exception("could not mark %s as %s", turn, state)

    async def _marked(
        self, turn: Turn, state: DeliveryState, text: str | None, now: datetime | None
    ) -> Turn | MarkAnswer:
        """P14: what is known about a send is written, and its answer heard, also if the caller is cancelled meanwhile.

        The mark names the fence, so it can harm nobody. A store that does not answer is not waited for without end.
        """
        task = asyncio.ensure_future(self._driver.run(self._mark(turn, state, text, now)))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task], timeout=_PATIENCE)
            if not task.cancel() and not task.cancelled() and (error := task.exception()) is not None:
                log.warning("could not mark %s as %s: %s", turn, state, error)
            raise
