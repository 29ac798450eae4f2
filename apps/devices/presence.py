"""Who is there: last wills, heartbeats and greetings of nodes, gathered and written together.

A node that has said `offline`, or nothing for too long, gets no commands; they wait. A node that greets has booted and
has forgotten what it has executed.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from appkit.database import Database, moment_value, store_now
from appkit.loops import Loop
from devices.lifecycle import Node, Presence
from devices.messages import Malformed
from devices.tables import nodes
from raceproof import sql

KINDS = ("lwt", "heartbeat", "node_hello", "status")
MOST_NODES = 100_000
"""Topics can be made up: how many are remembered between two writes."""


@dataclass
class Heard:
    """What a node has said since the last write."""

    alive: bool = False
    gone: bool = False
    booted: bool = False
    details: str | None = None

    def followed_by(self, newer: "Heard") -> "Heard":
        """Both, where the newer one has the last word."""
        told = newer if newer.alive or newer.gone else self
        return Heard(told.alive, told.gone, self.booted or newer.booted, newer.details or self.details)


class Presences:
    """All nodes, as far as this instance hears them."""

    def __init__(self, database: Database, silence: float) -> None:
        self._database = database
        self._silence = silence
        self._heard: dict[str, Heard] = {}
        self._there = asyncio.Event()
        self._writing = asyncio.Lock()

    async def keep(self, node: str, kind: str, body: bytes, retained: bool) -> None:
        """Hear it; when this returns, it is stored."""
        self.hear(node, kind, body, retained)
        await self.write()

    def answered(self, node: str) -> None:
        """A response is a sign of life."""
        if node in self._heard or len(self._heard) < MOST_NODES:
            heard = self._heard.setdefault(node, Heard())
            heard.alive, heard.gone = True, False
            self._there.set()

    def hear(self, node: str, kind: str, body: bytes, retained: bool) -> None:
        """A message at the level of a node.

        A retained `offline` is of some time in the past, so it says something about nodes only that were never heard of: a
        last will that comes while we are away waits in our session, and comes as a message of its own.
        """
        if kind not in KINDS:
            raise Malformed(f"unknown kind of message: {kind}")
        if node not in self._heard and len(self._heard) >= MOST_NODES:
            raise Malformed("too many nodes at once")
        heard = self._heard.setdefault(node, Heard())
        if kind == "lwt" or (kind == "status" and body.strip().lower().strip(b'"') in (b"offline", b"online")):
            offline = body.strip().lower().strip(b'"') == b"offline"
            if offline and not retained:
                heard.gone, heard.alive = True, False
            elif not offline:
                heard.alive, heard.gone = True, False
        else:
            heard.alive, heard.gone = True, False
            heard.booted = heard.booted or kind == "node_hello"
            heard.details = _details(body) or heard.details
        self._there.set()

    async def run(self, loop: Loop) -> None:
        """Write what was heard, twice a second at most, and notice silence."""
        while True:
            loop.beat()
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await self._there.wait()
            self._there.clear()
            await self.write()
            await self.notice_silence()
            await asyncio.sleep(0.5)

    async def write(self) -> None:
        """Store what was heard; when this returns, all that was heard before is. What cannot be stored is not forgotten."""
        async with self._writing:
            heard, self._heard = self._heard, {}
            try:
                await self._write(heard)
            except BaseException:
                for node, newer in self._heard.items():
                    heard[node] = heard[node].followed_by(newer) if node in heard else newer
                self._heard = heard
                raise

    async def _write(self, heard: dict[str, Heard]) -> None:
        """One transaction for all of them."""
        if not heard:
            return
        async with self._database.transaction() as (connection, db):
            dialect: Any = sqlite if self._database.dialect == "sqlite" else postgresql
            now = store_now(connection)
            for path in sorted(heard):
                one = heard[path]
                told: dict[str, Any] = {"heard_at": now} if one.alive else {}
                told |= {"booted_at": now} if one.booted else {}
                told |= {"details": one.details} if one.details else {}
                state = Presence.ONLINE if one.alive else Presence.OFFLINE
                first = {"path": path, "state": state, "heard_at": now, **told}
                write = dialect.insert(nodes).values(**first)
                write = (
                    write.on_conflict_do_update(index_elements=["path"], set_=told)
                    if told
                    else write.on_conflict_do_nothing()
                )
                await connection.execute(write)
            if alive := [path for path in sorted(heard) if heard[path].alive]:
                await db.move_many(Node.appear, alive)
            if gone := [path for path in sorted(heard) if heard[path].gone]:
                await db.move_many(Node.vanish, gone)

    async def notice_silence(self) -> None:
        """Nodes that have not been heard of for too long."""
        async with self._database.read() as connection:
            now = (await connection.execute(select(store_now(connection)))).scalar_one()
        silent = sql("t.heard_at < {since}", since=moment_value(self._database, now - timedelta(seconds=self._silence)))
        await self._database.store.move_many(Node.vanish, where=silent, limit=1000)


def _details(body: bytes) -> str | None:
    try:
        told = json.loads(body[:4096])
    except ValueError:
        return None
    return json.dumps(told)[:2000] if isinstance(told, dict) else None
