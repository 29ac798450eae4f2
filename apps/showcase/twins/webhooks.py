"""An update comes by webhook. It is answered with 200, so its sender forgets it; and then the process dies."""

import asyncio
import sqlite3
from functools import partial
from typing import Any

from raceproof import Backoff, Claim, Inbox, Store
from raceproof.inbox import Arrival
from showcase.twins.desk import Desk
from showcase.twins.scenario import LEASE, Code, Scenario

updates = Inbox(table="updates", lease=LEASE, attempts=50, backoff=Backoff(0.2, 1.0))

WORK = 0.25
"""Seconds that an update takes."""
OK, AGAIN = {"status": 200}, {"status": 503}


class Unguarded(Code):
    """200 at once, a queue in memory, and a look whether it was done before."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self, told: dict[str, Any]) -> dict[str, Any]:
        self._queue.put_nowait(told["key"])
        return OK

    async def turn(self) -> None:
        key = await self._queue.get()
        if await self._desk.sql("SELECT 1 FROM processed WHERE update_id = ?", key):
            return
        await asyncio.sleep(WORK)
        await self._desk.sql("INSERT INTO processed (update_id, worker) VALUES (?, ?)", key, self._desk.me)


class Guarded(Code):
    """Kept before the 200, once; done and marked as done in one transaction."""

    async def hear(self, told: dict[str, Any]) -> dict[str, Any]:
        try:
            kept = await self._desk.db.receive(updates, Arrival("sender", told["key"], b"{}"))
        except sqlite3.OperationalError:
            return AGAIN
        if kept.duplicate:
            await self._desk.held_off("webhooks", told["key"], "was there already")
        return OK

    async def turn(self) -> None:
        for mine in await self._desk.db.claim(updates.work, 1, by=self._desk.me):
            await asyncio.sleep(WORK)
            await self._desk.transaction(partial(self._done, mine))

    def _done(self, mine: Claim[Any, Any], db: Store, connection: sqlite3.Connection) -> None:
        if db.move(updates.finish, mine).won:
            connection.execute("INSERT INTO processed (update_id, worker) VALUES (?, ?)", (mine.key[1], self._desk.me))


WEBHOOKS = Scenario(
    name="webhooks",
    title="A webhook that is lost, or done twice",
    story="An update is answered with 200 and waits in memory. The process dies, or the store is away, and nobody will"
    " send it again.",
    app="imagebot",
    unguarded=Unguarded,
    guarded=Guarded,
    done=("updates done", "SELECT count(DISTINCT update_id) FROM processed"),
    wrong={
        "lost after a 200": """
            SELECT count(*) FROM seen_accepted AS a
            WHERE a.at < :before
              AND NOT EXISTS (SELECT 1 FROM processed AS p WHERE p.update_id = a.update_id)
        """,
        "done twice": "SELECT count(*) - count(DISTINCT update_id) FROM processed",
    },
    held_off="repeats recognised",
    hint="kill an instance, or cut the store",
)
