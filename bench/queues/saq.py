"""SAQ, on PostgreSQL and on Redis; best: many handed in at once, and more jobs at once in the worker.

Its `batch()` only aborts what was handed in together, so the many are a `gather` on its own pool.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import saq
from saq.queue.postgres import PostgresQueue
from saq.queue.redis import RedisQueue

from bench.queues.queue import Ran

_AT_ONCE = 10
_CONCURRENCY = 50


class _Saq:
    def __init__(self, queue: Any, tuned: bool) -> None:
        self._queue = queue
        self._tuned = tuned

    async def set_up(self) -> None:
        await self._queue.connect()

    async def enqueue(self, items: Sequence[int]) -> None:
        if not self._tuned:
            for item in items:
                await self._queue.enqueue("work", item=item)
            return
        for start in range(0, len(items), _AT_ONCE):
            batch = items[start : start + _AT_ONCE]
            await asyncio.gather(*(self._queue.enqueue("work", item=item) for item in batch))

    async def unfinished(self) -> int:
        found: int = await self._queue.count("incomplete")
        return found

    async def close(self) -> None:
        await self._queue.disconnect()

    def work(self, ran: Ran) -> None:
        async def work(_: Any, *, item: int) -> None:
            ran(item)

        async def start() -> None:
            options: dict[str, Any] = {"concurrency": _CONCURRENCY} if self._tuned else {}
            await self._queue.connect()
            await saq.Worker(self._queue, [("work", work)], **options).start()

        asyncio.run(start())


class SaqOnPostgres(_Saq):
    """Finished jobs stay in its table as complete, until their time to live is over."""

    def __init__(self, url: str, tuned: bool) -> None:
        super().__init__(PostgresQueue.from_url(url), tuned)


class SaqOnRedis(_Saq):
    """Finished jobs stay as complete, until their time to live is over."""

    def __init__(self, url: str, tuned: bool) -> None:
        super().__init__(RedisQueue.from_url(url), tuned)
