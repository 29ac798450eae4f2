"""Decisions seen in this process as they are made, and notifying open pages of changes."""

import asyncio
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from raceproof.attempts import Started
from raceproof.claims.answers import Claim, DeadLettered, Released
from raceproof.declare.spec import Move
from raceproof.kernel import events
from raceproof.kernel.events import Event
from raceproof.leases import LeaseGranted
from raceproof.moves.answers import Refused
from raceproof.ops.web.catalog import Catalog
from raceproof.ops.web.queries.leases import Watch
from raceproof.ops.web.recent_counts import RecentCounts

_KEPT = 1000
_MOST_PAGES = 100
_STREAM_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A decision made in this process."""

    at: datetime
    event: Event
    hidden: frozenset[str] = frozenset()
    """Columns whose values are not shown."""

    @property
    def won(self) -> bool:
        return bool(self.event.answer.won)

    @property
    def text(self) -> str:
        answer = self.event.answer
        if self.hidden and isinstance(answer, Refused) and answer.unmet:
            answer = replace(answer, unmet=tuple(self._shown(one) for one in answer.unmet))
        return str(answer)

    def _shown(self, guard: str) -> str:
        """A guard without the value that a hidden column is compared with."""
        name = next((name for name in self.hidden if guard.startswith(f"{name} ")), None)
        return guard if name is None else f"a guard on {name}"


class Feed:
    """The last decisions of this process about declared things, and how many there were of each kind."""

    def __init__(
        self, catalog: Catalog, watch: Watch, hidden: frozenset[str] = frozenset(), tenant: Any = None
    ) -> None:
        self._hidden = hidden
        self._tenant = tenant
        """Only decisions about rows of this tenant are heard; None: all of them."""
        names = {spec.name for spec in catalog.lifecycles.values()}
        self._names = frozenset((*names, *catalog.deliveries, *catalog.leases))
        self._watch = watch
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, str, str, str]] = Counter()
        """By operation, lifecycle, move and outcome."""
        self.recent_counts: RecentCounts[tuple[str, str, str]] = RecentCounts()
        """Moves by lifecycle, move and outcome."""
        self.senders: Counter[tuple[str, str, str]] = Counter()
        """Answers to begin_delivery, by delivery, caller and outcome."""
        self.recent: deque[Seen] = deque(maxlen=_KEPT)
        self.answer_seconds: deque[float] = deque(maxlen=_KEPT)
        self.began = datetime.now(UTC)
        self.stop = subscribe_weakly(self)

    @property
    def number(self) -> int:
        return sum(self.counts.values())

    def hear(self, event: Event) -> None:
        if event.lifecycle not in self._names or not self._is_visible(event):
            return
        now = datetime.now(UTC)
        with self._lock:
            self.counts[event.operation, event.lifecycle, event.move, event.outcome] += 1
            if event.operation == "deliver":
                known = (event.lifecycle, event.by or "", event.outcome)
                if known in self.senders or len(self.senders) < _KEPT:
                    self.senders[known] += 1
        if made := _move_of(event):
            self.recent_counts.add((event.lifecycle, made, "moved" if event.answer.won else event.outcome))
        self.recent.append(Seen(now, event, self._hidden))
        answer: Any = event.answer
        if event.operation == "receive":
            self.answer_seconds.append(time.monotonic() - event.started)
        elif isinstance(answer, LeaseGranted):
            self._watch.note(answer.declared.name, answer.by, answer.epoch, now, now)

    def _is_visible(self, event: Event) -> bool:
        """A dashboard for one tenant sees the decisions about that tenant's rows alone."""
        return self._tenant is None or (event.tenant is not None and str(event.tenant) == str(self._tenant))

    def of(self, lifecycle: str) -> list[Seen]:
        """The last ones about a thing, newest first."""
        return [one for one in reversed(list(self.recent)) if one.event.lifecycle == lifecycle]


def _move_of(event: Event) -> str | None:
    """The move that a decision made or tried; a claim, its end and the start of an attempt may each make one."""
    answer: Any = event.answer
    made: Move[Any] | None = None
    match answer:
        case Claim() if event.operation == "claim" and answer.declared.move:
            made = answer.declared.move if answer.before != answer.declared.move.target else None
        case Released():
            made = answer.declared.back
        case DeadLettered():
            made = answer.declared.dead_letter
        case Started():
            made = answer.declared.supersede if answer.superseded is not None else None
        case _ if event.operation in ("move", "sweep"):
            return event.move
    return made.name if made else None


def subscribe_weakly(feed: Feed) -> Callable[[], None]:
    """Subscribe for as long as the feed is referenced."""
    known = weakref.ref(feed)

    def hear(event: Event) -> None:
        there = known()
        if there is not None:
            there.hear(event)

    stop = events.subscribe(hear)
    weakref.finalize(feed, stop)
    return stop


class Pages:
    """The open pages: one read per second for all of them, and an event to each after a change."""

    def __init__(
        self,
        look: Callable[[], Awaitable[Hashable]],
        every: float = 1.0,
        at_least: float = 5.0,
        remembers: bool = False,
    ) -> None:
        self._look = look
        self._remembers = remembers
        """Whether to go on reading, less often, while no page is open: what was seen is shown later."""
        self._every = every
        self._at_least = at_least
        self._open: set[asyncio.Queue[str]] = set()
        self._came = asyncio.Event()
        """Set while a page is open."""
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def full(self) -> bool:
        return len(self._open) >= _MOST_PAGES or self._closed

    async def follow(self) -> AsyncGenerator[str, None]:
        """The server-sent events of one page; the stream ends after a while, and the browser reconnects."""
        waiting: asyncio.Queue[str] = asyncio.Queue(maxsize=4)
        self._open.add(waiting)
        self._came.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._watch(), name="raceproof dashboard")
        ends = time.monotonic() + _STREAM_SECONDS
        try:
            yield "retry: 2000\n\n"
            while not self._closed and time.monotonic() < ends:
                word = await waiting.get()
                if word:
                    yield f"event: {word}\ndata: {word}\n\n"
        finally:
            self._open.discard(waiting)

    async def _watch(self) -> None:
        last: Hashable = None
        last_word = time.monotonic()
        while (self._open or self._remembers) and not self._closed:
            try:
                seen = await self._look()
            except Exception:
                seen = "the store does not answer"
            now = time.monotonic()
            if seen != last:
                self._tell("changed")
                last, last_word = seen, now
            elif now - last_word >= self._at_least:
                self._tell("tick")  # leases expire without an event
                last_word = now
            await self._rest()

    async def _rest(self) -> None:
        """Sleep until the next read; a newly opened page ends the sleep."""
        if not self._open:
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._at_least):
                    await self._came.wait()
        if self._open:
            await asyncio.sleep(self._every)

    def _tell(self, word: str) -> None:
        for waiting in self._open:
            if not waiting.full():
                waiting.put_nowait(word)

    async def close(self) -> None:
        self._closed = True
        for waiting in self._open:
            if not waiting.full():
                waiting.put_nowait("")
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
