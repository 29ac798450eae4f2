"""PgQueuer, by asyncpg and with uvloop, as its own command `pgq run` does; best: bulk in, and big batches out."""

from collections.abc import Sequence
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, Queries
from pgqueuer import PgQueuer as Worker

from bench.queues.queue import Ran

_BATCH_IN = 1_000
_BATCH = 500


class PgQueuer:
    """Finished jobs leave its queue for its log."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._url = url
        self._tuned = tuned
        self._connection: Any = None
        self._queries: Any = None

    async def set_up(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        self._queries = Queries(AsyncpgDriver(self._connection))
        await self._queries.install()

    async def enqueue(self, items: Sequence[int]) -> None:
        if not self._tuned:
            for item in items:
                await self._queries.enqueue("work", b"%d" % item)
            return
        for start in range(0, len(items), _BATCH_IN):
            batch = items[start : start + _BATCH_IN]
            await self._queries.enqueue(["work"] * len(batch), [b"%d" % item for item in batch], [0] * len(batch))

    async def unfinished(self) -> int:
        return sum(row.count for row in await self._queries.queue_size())

    async def close(self) -> None:
        await self._connection.close()

    def work(self, ran: Ran) -> None:
        uvloop.run(self._work(ran))

    async def _work(self, ran: Ran) -> None:
        worker = Worker(AsyncpgDriver(await asyncpg.connect(self._url)))

        @worker.entrypoint("work")
        async def work(job: Job) -> None:
            ran(int(job.payload or b""))

        await (worker.run(batch_size=_BATCH) if self._tuned else worker.run())
