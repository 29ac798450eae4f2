"""Procrastinate, by psycopg; best: deferred in batches, and many jobs at once in the worker."""

import asyncio
from collections.abc import Sequence
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.queues.queue import Ran

_BATCH_IN = 1_000
_CONCURRENCY = 30
_CONNECTIONS = 20


class Procrastinate:
    """Finished jobs stay in its table as succeeded."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._tuned = tuned
        connector = (
            PsycopgConnector(conninfo=url, min_size=_CONNECTIONS, max_size=_CONNECTIONS)
            if tuned
            else PsycopgConnector(conninfo=url)
        )
        self._app = App(connector=connector)
        self._ran: Ran | None = None

        @self._app.task(name="work")
        async def work(item: int) -> None:
            assert self._ran
            self._ran(item)

        self._task = work

    async def set_up(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def enqueue(self, items: Sequence[int]) -> None:
        if not self._tuned:
            for item in items:
                await self._task.defer_async(item=item)
            return
        for start in range(0, len(items), _BATCH_IN):
            batch: list[dict[str, Any]] = [{"item": item} for item in items[start : start + _BATCH_IN]]
            await self._task.batch_defer_async(*batch)

    async def unfinished(self) -> int:
        rows = await self._app.job_manager.list_queues_async()
        return sum(row["todo"] + row["doing"] for row in rows)

    async def close(self) -> None:
        await self._app.close_async()

    def work(self, ran: Ran) -> None:
        self._ran = ran
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with self._app.open_async():
            if self._tuned:
                await self._app.run_worker_async(concurrency=_CONCURRENCY)
            else:
                await self._app.run_worker_async()
