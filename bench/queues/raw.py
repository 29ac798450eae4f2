"""Hand-written SQL by asyncpg: what a careful person writes for this table and no other.

An item is due, claimed (due again when its lease ends) or finished (due never). A claim has a number of its own, and only
that number finishes the item: a worker that comes late changes nothing. By default an item has an insert, a claim and a
finish to itself. At best each is for thousands, and the finish of one batch claims the next in the same statement.
"""

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import asyncpg

from bench.queues.queue import Ran

_TABLE = """
CREATE TABLE items (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item  bigint NOT NULL,
    due   timestamptz DEFAULT now(),
    claim bigint
);
CREATE INDEX ON items (due) WHERE due IS NOT NULL;
CREATE SEQUENCE claims;
"""

_NEXT = """
SELECT id FROM items
WHERE due <= now()
ORDER BY due
LIMIT {batch}
FOR UPDATE SKIP LOCKED
"""

_CLAIM = f"""
WITH next AS MATERIALIZED ({_NEXT}), number AS MATERIALIZED (SELECT nextval('claims') AS claim)
UPDATE items SET due = now() + interval '30 seconds', claim = number.claim
FROM next, number
WHERE items.id = next.id
RETURNING items.id, items.item, items.claim
"""

_FINISH = "UPDATE items SET due = NULL WHERE id = ANY ($1::bigint[]) AND claim = $2"

_FINISH_AND_CLAIM = f"WITH finished AS ({_FINISH}), {_CLAIM.strip().removeprefix('WITH ')}"

# A new table has no statistics: the planner reads all of it for each claim, the prepared statement keeps that plan, and
# with 160 000 items a claim is some three times slower than with 20 000.
_BY_INDEX = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

_BATCH_IN = 2_000
_BATCH = 2_000
_LOOPS = 2
_IDLE = 0.005


class Raw:
    """One connection hands in; the worker has one by default, and two at best."""

    def __init__(self, url: str, tuned: bool) -> None:
        self._url = url
        self._tuned = tuned
        self._connection: Any = None

    async def set_up(self) -> None:
        self._connection = await asyncpg.connect(self._url)
        await self._connection.execute(_TABLE)

    async def enqueue(self, items: Sequence[int]) -> None:
        if not self._tuned:
            for item in items:
                await self._connection.execute("INSERT INTO items (item) VALUES ($1)", item)
            return
        for start in range(0, len(items), _BATCH_IN):
            records = [(item,) for item in items[start : start + _BATCH_IN]]
            await self._connection.copy_records_to_table("items", records=records, columns=["item"])

    async def unfinished(self) -> int:
        found: int = await self._connection.fetchval("SELECT count(*) FROM items WHERE due IS NOT NULL")
        return found

    async def close(self) -> None:
        await self._connection.close()

    def work(self, ran: Ran) -> None:
        asyncio.run(self._work(ran))

    async def _work(self, ran: Ran) -> None:
        async with asyncio.TaskGroup() as loops:
            for _ in range(_LOOPS if self._tuned else 1):
                loops.create_task(self._batches(ran) if self._tuned else self._one_by_one(ran))

    async def _one_by_one(self, ran: Ran) -> None:
        connection = await asyncpg.connect(self._url, server_settings=_BY_INDEX)
        claim = await connection.prepare(_CLAIM.format(batch=1))
        for _ in count():
            row = await claim.fetchrow()
            if row is None:
                await asyncio.sleep(_IDLE)
                continue
            ran(row["item"])
            await connection.execute(_FINISH, [row["id"]], row["claim"])

    async def _batches(self, ran: Ran) -> None:
        connection = await asyncpg.connect(self._url, server_settings=_BY_INDEX)
        claim = await connection.prepare(_FINISH_AND_CLAIM.format(batch=_BATCH))
        done: list[int] = []
        number = 0
        for _ in count():
            rows = await claim.fetch(done, number)
            done = []
            for row in rows:
                key, item, number = row
                ran(item)
                done.append(key)
            if not rows:
                await asyncio.sleep(_IDLE)
