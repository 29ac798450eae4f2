"""What a worker has begun: runs claimed batches in chunks, at most `parallel` at a time; the others wait.

A batch has more shares than can run, so that the store is asked for the next one while the rest of this one runs.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from raceproof.claims.answers import Claim
from raceproof.run.worker.batch import BatchSize

_TURNS = 2

Claims = Sequence[Claim[Any, Any]]


class _Share(NamedTuple):
    claims: Claims
    ends: float | None
    batch: "_Batch"


class _Batch:
    def __init__(self, items: int, shares: int, full: bool) -> None:
        self.items = items
        """All that was held when it was claimed, which is what ends until this batch has ended."""
        self.shares = shares
        self.full = full
        self.began = time.monotonic()


class Running:
    """Runs shares by `run`, at most `parallel` of them at once, and calls `ended` with the task of each."""

    def __init__(
        self,
        run: Callable[[Claims, float | None], Awaitable[None]],
        parallel: int,
        size: BatchSize,
        ended: "Callable[[asyncio.Task[None]], None]",
    ) -> None:
        self._run = run
        self._parallel = parallel
        self._size = size
        self._ended = ended
        self._tasks: dict[asyncio.Task[None], _Share] = {}
        self._waiting: deque[_Share] = deque()
        self.items = 0
        """How many items are in shares that run or wait."""

    def __len__(self) -> int:
        """How many shares run."""
        return len(self._tasks)

    def __iter__(self) -> "Iterator[tuple[asyncio.Task[None], Claims]]":
        return iter([(task, share.claims) for task, share in self._tasks.items()])

    @property
    def tasks(self) -> "list[asyncio.Task[None]]":
        return list(self._tasks)

    def begin(self, claims: Claims, full: bool, timeout: float | None) -> None:
        """Run these items, which were claimed together, within `timeout` seconds; a `full` batch says how many fit."""
        each = -(-len(claims) // (self._parallel * _TURNS))
        starts = range(0, len(claims), each)
        self.items += len(claims)
        batch = _Batch(self.items, len(starts), full)
        ends = None if timeout is None else batch.began + timeout
        self._waiting.extend(_Share(claims[start : start + each], ends, batch) for start in starts)
        self._fill()

    def stop_waiting(self) -> list[Claim[Any, Any]]:
        """The items that have not begun, and will not begin any more."""
        left = [claim for share in self._waiting for claim in share.claims]
        self._waiting.clear()
        self.items -= len(left)
        return left

    def _fill(self) -> None:
        while self._waiting and len(self._tasks) < self._parallel:
            share = self._waiting.popleft()
            task: asyncio.Task[None] = asyncio.ensure_future(self._run(share.claims, share.ends))
            self._tasks[task] = share
            task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        share = self._tasks.pop(task)
        self.items -= len(share.claims)
        share.batch.shares -= 1
        if share.batch.full and not share.batch.shares:
            self._size.took(share.batch.items, time.monotonic() - share.batch.began)
        self._fill()
        self._ended(task)
