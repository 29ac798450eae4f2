"""The inbox on a store. On an async store that many share, events that arrive together are kept by one statement."""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from raceproof.inbox import Inbox, Received
from raceproof.inbox.arrival import Arrival
from raceproof.kernel.api import Calls
from raceproof.kernel.batcher import Batcher
from raceproof.kernel.errors import CallError
from raceproof.kernel.statement import Program, Rows, reading

if TYPE_CHECKING:
    from raceproof.driver import AsyncDriver, Driver

D = TypeVar("D", bound="Driver | AsyncDriver")


class InboxPrograms(Calls[D], Generic[D]):
    """The programs behind the calls."""

    def _receive(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None) -> Program[list[Received]]:
        if not isinstance(inbox, Inbox):
            raise CallError(f"{inbox!r} is not an inbox; make one with Inbox()")
        for one in arrivals:
            _check(inbox, one)
        if not arrivals:
            return []
        started = time.monotonic()
        # not knowing whether it was kept is a reason to be asked again, so it is an error here
        try:
            answers = yield from self.driver.programs.inbox.receive(inbox, arrivals, now)
        except Exception as error:
            self._add_note(error, inbox, _named(arrivals), self._kept_of_events(arrivals))
            raise
        self.tell_all("receive", answers, None, started)
        return answers

    def _kept_of_events(self, arrivals: Sequence[Arrival]) -> str:
        """What is kept of events when a call fails: new ones may be committed before the duplicates are locked."""
        some = "events that were received stay so, the same call again is safe"
        return some if len(arrivals) > 1 else self._kept_of_many(some)

    def _forget_events(self, inbox: Inbox, limit: int, now: datetime | None) -> Program[int]:
        return (yield from reading(self.driver.programs.inbox.forget(inbox, limit, now)))

    def _inbox_counts(self, inbox: Inbox) -> Program[Rows]:
        return (yield from reading(self.driver.programs.inbox.counts(inbox)))

    def _inbox_events(self, inbox: Inbox, status: str, limit: int) -> Program[Rows]:
        return (yield from reading(self.driver.programs.inbox.listed(inbox, status, limit)))


def _named(arrivals: Sequence[Arrival]) -> str:
    return f"event {arrivals[0][1]!r}" if len(arrivals) == 1 else f"{len(arrivals)} events"


def _check(inbox: Inbox, one: Arrival) -> None:
    source, event_id, body, _, ordering_key = one
    texts: tuple[Any, ...] = (source, event_id) if ordering_key is None else (source, event_id, ordering_key)
    for text in texts:
        if not isinstance(text, str) or "\0" in text or not (source and event_id):
            raise CallError(f"{inbox}: an event has a source and an id, both texts without NUL, not {one!r}")
        if not text.isascii():
            text.encode()
    if ordering_key == "":
        raise CallError(f"{inbox}: an ordering key is a text, or None for an event in no line, not '' as in {one!r}")
    if not isinstance(body, bytes):
        raise CallError(f"{inbox}: the body of an event is its raw bytes, not {type(body).__name__}")


class SyncInbox(InboxPrograms["Driver"]):
    """The inbox on a sync connection."""

    def receive(self, inbox: Inbox, arrival: Arrival, now: datetime | None = None) -> Received:
        """Keep an event, once; when this returns it is durable, or in a transaction of yours, part of it."""
        return self.receive_many(inbox, [arrival], now)[0]

    def receiver(self, inbox: Inbox) -> NoReturn:
        """A function that stores events in this inbox, as an endpoint wants it: many at once, also on one connection."""
        raise CallError(
            f"{inbox}: an endpoint needs an async store, as in `async with connect(url)`; in sync code call receive"
        )

    def receive_many(self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None = None) -> list[Received]:
        """The same for many, in one statement."""
        return self.driver.run(self._receive(inbox, arrivals, now))

    def forget_events(self, inbox: Inbox, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete up to so many events that ended long ago."""
        return self.driver.run(self._forget_events(inbox, limit, now))

    def inbox_counts(self, inbox: Inbox) -> Rows:
        """For each status: how many, and when the oldest came."""
        return self.driver.run(self._inbox_counts(inbox))

    def inbox_events(self, inbox: Inbox, status: str = "dead", limit: int = 100) -> Rows:
        """Events at a status: source, id, status, attempts, received, holder, size."""
        return self.driver.run(self._inbox_events(inbox, status, limit))


class AsyncInbox(InboxPrograms["AsyncDriver"]):
    """The inbox on an async connection."""

    async def receive(self, inbox: Inbox, arrival: Arrival, now: datetime | None = None) -> Received:
        """Keep an event, once; when this returns it is durable, or in a transaction of yours, part of it."""
        if now is not None or not self.driver.shared:
            return (await self.receive_many(inbox, [arrival], now))[0]
        return await self._batcher(inbox).submit(arrival)

    def receiver(self, inbox: Inbox) -> Callable[[Arrival], Awaitable[Received]]:
        """A function that stores events in this inbox, as an endpoint wants it: many at once, also on one connection."""
        return self._batcher(inbox).submit

    def _batcher(self, inbox: Inbox) -> Batcher[Arrival, Received]:
        # by identity: an inbox is slow to hash, and nearly always the same one
        found: tuple[Inbox, Batcher[Arrival, Received]] | None = self.driver.batchers.get(id(inbox))
        if found is None:
            batcher: Batcher[Arrival, Received] = Batcher(lambda arrivals: self.receive_many(inbox, arrivals))
            found = self.driver.batchers[id(inbox)] = (inbox, batcher)
        return found[1]

    async def receive_many(
        self, inbox: Inbox, arrivals: Sequence[Arrival], now: datetime | None = None
    ) -> list[Received]:
        """The same for many, in one statement."""
        received = await self.driver.run(self._receive(inbox, arrivals, now))
        self.driver.wake(inbox.work)
        return received

    async def forget_events(self, inbox: Inbox, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete up to so many events that ended long ago."""
        return await self.driver.run(self._forget_events(inbox, limit, now))

    async def inbox_counts(self, inbox: Inbox) -> Rows:
        """For each status: how many, and when the oldest came."""
        return await self.driver.run(self._inbox_counts(inbox))

    async def inbox_events(self, inbox: Inbox, status: str = "dead", limit: int = 100) -> Rows:
        """Events at a status: source, id, status, attempts, received, holder, size."""
        return await self.driver.run(self._inbox_events(inbox, status, limit))
