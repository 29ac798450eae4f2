"""Ours by the same rule: rows of a table of one's own, a claim, and a worker that calls a plain function for each.

By default rows are handed in as people do (executemany) and the worker is started with no options; at best they are copied
in, and the worker polls more often and may hold more rows at once. Its batches grow by themselves.
"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import asyncpg

from bench.queues.queue import Ran
from bench.queues.run import seconds
from bench.queues.stores import Store, fresh
from bench.world import World
from raceproof import Claim, Lifecycle, Worker, bind, claimable, connect, move

_TABLE = """
CREATE TABLE items (
    id            bigint PRIMARY KEY,
    status        text NOT NULL DEFAULT 'QUEUED',
    claimed_by    text,
    claimed_until timestamptz,
    fence         bigint
);
CREATE INDEX items_work ON items (id) WHERE status IN ('QUEUED', 'RUNNING');
"""
_BATCH_IN = 2_000


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Item(Lifecycle[Status], table="items"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)
    work = claimable(start, lease=30)


class Ours:
    """One connection hands in; the worker has what `connect` gives it."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._url = url
        self._tuned = tuned
        self._connection: Any = None

    async def set_up(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        await self._connection.execute(_TABLE)

    async def enqueue(self, items: Sequence[int]) -> None:
        for start in range(0, len(items), _BATCH_IN):
            rows = [(item,) for item in items[start : start + _BATCH_IN]]
            if self._tuned:
                await self._connection.copy_records_to_table("items", records=rows, columns=["id"])
            else:
                await self._connection.executemany("INSERT INTO items (id) VALUES ($1)", rows)
        await bind(self._connection).offer(Item.work, items)

    async def unfinished(self) -> int:
        text = "SELECT count(*) FROM items WHERE status IN ('QUEUED', 'RUNNING')"
        found: int = await self._connection.fetchval(text)
        return found

    async def close(self) -> None:
        await self._connection.close()

    def work(self, ran: Ran) -> None:
        asyncio.run(self._work(ran))

    async def _work(self, ran: Ran) -> None:
        def handler(item: Claim[Status, None]) -> None:
            ran(item.key)

        async with connect(self._url) as db:
            options: dict[str, Any] = {"poll": 0.01, "max_batch": 8_000} if self._tuned else {}
            await Worker(db, Item.work, handler, finish=Item.finish, **options).run()


async def ours(world: World, items: int, tuned: bool) -> float:
    with fresh(world, Store.POSTGRES) as url:
        return await seconds(Ours, url, items, tuned)
