"""Items that are plain functions: run in threads of the worker's own, as many as may run at once; the loop goes on renewing.

A thread cannot be stopped, only given up: another takes its place, and what it still writes with its claim is fenced off.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from raceproof.claims.answers import Claim
from raceproof.kernel.events import log
from raceproof.run.worker.finishing import Ended, Failure, Finishing
from raceproof.run.worker.held import Held
from raceproof.run.worker.items import Handler, Items, failed, timed_out

GLANCE = 0.05
"""How long a thread goes on before it is looked at."""


class ThreadItems(Items):
    """No more than `parallel` runs go on at once, so none waits for a thread, whatever was given up before."""

    def __init__(
        self,
        handler: Handler,
        held: Held,
        finishing: Finishing,
        is_stopped: Callable[[], bool],
        timeout: float | None,
        parallel: int,
    ) -> None:
        super().__init__(handler, held, finishing, is_stopped, timeout)
        self._parallel = parallel
        self._threads = self._fresh_threads()

    async def run(self, claims: Sequence[Claim[Any, Any]], ends: float | None) -> None:
        """Run these, turn by turn; `ends` is when they must all have ended, by the monotonic clock."""
        loop = asyncio.get_running_loop()
        while claims:
            if self._is_over(ends):
                self.give_back(claims)
                return
            turn = _Turn(claims)
            try:
                work = loop.run_in_executor(self._threads, self._run_turn, turn, ends)
                while not work.done():
                    await asyncio.wait([work], timeout=min(GLANCE, self._timeout or GLANCE))
                    self._finishing.add(turn.take())
                    if turn.give_up(began_by=self._overdue(ends)):
                        self._give_up(turn, timed_out(time.monotonic() - turn.began))
                        return
                work.result()
            except BaseException:
                turn.give_up()
                self._give_up(turn)
                raise
            self._finishing.add(turn.take())
            claims = turn.rest

    def let_go(self) -> None:
        """Threads that are at something end when it does."""
        self._threads.shutdown(wait=False)
        self._threads = self._fresh_threads()

    def _fresh_threads(self) -> ThreadPoolExecutor:
        """Each is made when it is needed."""
        return ThreadPoolExecutor(self._parallel, "raceproof")

    def _run_turn(self, turn: "_Turn", ends: float | None) -> None:
        """In the thread: run items until a short while is over."""
        handler, held, is_stopped = self._handler, self._held.has, self._is_stopped
        enough = min(time.monotonic() + GLANCE, math.inf if ends is None else ends)
        one = None if is_stopped() else turn.begin()
        while one is not None:
            end: Any = None
            mine = held(one)
            if mine:
                try:
                    end = handler(one)
                except Failure as given_up:
                    end = given_up
                except BaseException as error:  # in a thread of ours, an exit is the item's as well
                    end = failed(one, error)
            now = time.monotonic()
            one = turn.end((one, end) if mine else None, math.inf if now >= enough or is_stopped() else now)

    def _overdue(self, ends: float | None) -> float:
        """What began by then has had its time."""
        now = time.monotonic()
        if ends is not None and now >= ends:
            return now
        return -math.inf if self._timeout is None else now - self._timeout

    def _give_up(self, turn: "_Turn", why: Failure | None = None) -> None:
        """The item that still runs has failed; or, without a word, it is left to its lease, for it may be done yet."""
        self._finishing.add(turn.take())
        self.give_back(turn.rest)
        for one in turn.running:
            if why is not None:
                self._finishing.add([(one, why)])
            elif self._held.take([one]):
                log.warning("%s: %r goes on after the worker; it is left to its lease", one.declared, one.key)
        self.let_go()


class _Turn:
    """How far a thread has come with some items; once the turn is given up it comes no further."""

    def __init__(self, claims: Sequence[Claim[Any, Any]]) -> None:
        self._claims = claims
        self._place = 0
        self._ended: list[Ended] = []
        self._given_up = False
        self._lock = threading.Lock()
        self.began = math.inf
        """When the item that runs has begun; never, while none runs."""

    def begin(self) -> Claim[Any, Any] | None:
        """In the thread: the first item, which begins now."""
        with self._lock:
            if self._given_up:
                return None
            self.began = time.monotonic()
            return self._claims[0]

    def end(self, ended: Ended | None, now: float) -> Claim[Any, Any] | None:
        """In the thread: the item has ended so, or was not run at all. The next one, if it begins `now` and not never."""
        with self._lock:
            if self._given_up:
                return None
            if ended is not None:
                self._ended.append(ended)
            self._place += 1
            if now < math.inf and self._place < len(self._claims):
                self.began = now
                return self._claims[self._place]
            self.began = math.inf
            return None

    def take(self) -> list[Ended]:
        """What has ended since the last time."""
        with self._lock:
            ended, self._ended = self._ended, []
            return ended

    def give_up(self, began_by: float = math.inf) -> bool:
        """Whether it is given up: if an item runs that had begun by then, or without a time whatever runs."""
        with self._lock:
            self._given_up = self.began <= began_by
            return self._given_up

    @property
    def running(self) -> Sequence[Claim[Any, Any]]:
        """The item that runs, if one does."""
        return self._claims[self._place : self._place + 1] if self.began < math.inf else ()

    @property
    def rest(self) -> Sequence[Claim[Any, Any]]:
        """Those that have not begun."""
        return self._claims[self._place + len(self.running) :]
