"""A command goes to a device, which may answer before the broker has confirmed: ACK is there, then a late SENT comes."""

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

from raceproof import Lifecycle, move
from raceproof.declare import History, Move
from showcase.twins.desk import Desk
from showcase.twins.scenario import Code, Scenario


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"
    ACK = "ACK"
    DONE = "DONE"


class Command(Lifecycle[Status], table="commands", key="cmd_id", history=History(losers=True)):
    """An answer may overtake the record of the sending: that is allowed, and the late record is not."""

    sent = move(Status.QUEUED, to=Status.SENT)
    ack = move(Status.QUEUED, Status.SENT, to=Status.ACK)
    done = move(Status.QUEUED, Status.SENT, Status.ACK, to=Status.DONE)


MOVES: dict[str, Move[Status]] = {"sent": Command.sent, "ack": Command.ack, "done": Command.done}


class Unguarded(Code):
    """Read the status, check it, do the work, write the new status."""

    async def hear(self, told: dict[str, Any]) -> None:
        await self.record(MOVES[told["what"]], told["key"], _work(self._desk, told))

    async def record(self, wanted: Move[Status], key: str, work: Callable[[], Awaitable[object]]) -> None:
        [[status]] = await self._desk.sql("SELECT status FROM commands WHERE cmd_id = ?", key)
        await work()
        if status in wanted.sources:
            await self._desk.sql("UPDATE commands SET status = ? WHERE cmd_id = ?", wanted.target, key)


class Guarded(Code):
    """One call, whose answer says what came of it."""

    async def hear(self, told: dict[str, Any]) -> None:
        await self.record(MOVES[told["what"]], told["key"], _work(self._desk, told))

    async def record(self, wanted: Move[Status], key: str, work: Callable[[], Awaitable[object]]) -> None:
        await work()
        answer = await _again(lambda: self._desk.db.move(wanted, key, by=self._desk.me))
        if not answer.won:
            await self._desk.held_off("commands", key, answer)


def _work(desk: Desk, told: dict[str, Any]) -> Callable[[], Awaitable[object]]:
    """What has to be done about it: publish, or act on an answer."""
    if told["what"] == "sent":
        return lambda: desk.ask("publish", key=told["key"])
    return lambda: asyncio.sleep(random.uniform(0.002, 0.02))


async def _again(call: Callable[[], Awaitable[Any]]) -> Any:
    """The store may be away for a while."""
    while True:
        try:
            return await call()
        except sqlite3.OperationalError:
            await asyncio.sleep(0.3)


COMMANDS = Scenario(
    name="commands",
    title="A late SENT after the ACK",
    story="A device answers before the broker has confirmed the publish. The record of the sending comes last and"
    " overwrites the answer.",
    app="devices",
    unguarded=Unguarded,
    guarded=Guarded,
    done=("commands DONE", "SELECT count(*) FROM commands WHERE status = 'DONE'"),
    wrong={
        "answers overwritten": """
            SELECT count(*) FROM seen_statuses WHERE before = 'DONE' OR (before = 'ACK' AND after = 'SENT')
        """,
        "moved twice": "SELECT count(*) FROM seen_statuses WHERE before = after AND before <> 'DONE'",
    },
    held_off="late records refused",
)
