"""What people and programs look at: a command with its timeline, pages of commands, nodes, and what happens right now."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.changes import Changes
from appkit.database import Database
from appkit.loops import Loop
from devices.lifecycle import WAITING
from devices.submitting import DOUBTFUL, shown
from devices.tables import commands, evidence, history, nodes, refused_responses

MOST = 200
POLL = 0.3
SILENCE = 15.0
"""Seconds after which a follower gets a sign of life."""


async def one_command(database: Database, cmd_id: str) -> dict[str, Any] | None:
    """A command with all that is known about it."""
    async with database.read() as connection:
        row = (await connection.execute(select(commands).where(commands.c.cmd_id == cmd_id))).mappings().first()
        if row is None:
            return None
        told = shown(row)
        told["evidence"] = await _rows(
            connection,
            select(evidence).where(evidence.c.cmd_id == cmd_id).order_by(evidence.c.number).limit(MOST),
        )
        told["timeline"] = await _rows(
            connection,
            select(history).where(history.c.key == cmd_id).order_by(history.c.id).limit(MOST),
        )
        late = [one for one in told["evidence"] if one["outcome"] == "late"]
        told["late"] = late[-1]["status"] if late else None
        return told


async def page_of_commands(
    database: Database,
    *,
    node: str | None = None,
    status: Sequence[str] = (),
    before: int | None = None,
    limit: int = 50,
    person: bool = False,
) -> tuple[list[dict[str, Any]], int | None]:
    """The newest first, and where the next page begins: by a key, so that a page is the same whatever is added."""
    wanted: list[ColumnElement[bool]] = []
    if node is not None:
        wanted.append(commands.c.node == node)
    if status:
        wanted.append(commands.c.status.in_(status))
    if before is not None:
        wanted.append(commands.c.number < before)
    if person:
        wanted.append(needs_a_person())
    limit = min(limit, MOST)
    async with database.read() as connection:
        rows = (
            (
                await connection.execute(
                    select(commands).where(*wanted).order_by(commands.c.number.desc()).limit(limit + 1)
                )
            )
            .mappings()
            .all()
        )
        late = await _late(connection, [row["cmd_id"] for row in rows])
    listed = [{**shown(row), "late": late.get(row["cmd_id"])} for row in rows[:limit]]
    return listed, listed[-1]["number"] if len(rows) > limit else None


def needs_a_person() -> ColumnElement[bool]:
    """Held because it may have arrived, or answered after its end."""
    held = commands.c.status.in_(WAITING) & commands.c.publish_state.in_(DOUBTFUL) & (commands.c.permit == "WITHDRAWN")
    answered = select(evidence.c.cmd_id).where(
        evidence.c.cmd_id == commands.c.cmd_id, evidence.c.outcome == "late", evidence.c.status != "ACK"
    )
    return held | (commands.c.status.in_(("TIMEOUT", "SEND_FAILED")) & answered.exists())


async def _late(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, str]:
    """What nodes said last about commands that had ended."""
    said = select(evidence.c.cmd_id, evidence.c.status).where(evidence.c.cmd_id.in_(ids), evidence.c.outcome == "late")
    found = await connection.execute(said.order_by(evidence.c.number))
    return dict(found.all())


async def all_nodes(database: Database, limit: int = MOST, after: str = "") -> list[dict[str, Any]]:
    async with database.read() as connection:
        return await _rows(
            connection,
            select(nodes).where(nodes.c.path > after).order_by(nodes.c.path).limit(min(limit, MOST)),
        )


async def newest_refused(database: Database, limit: int = 20) -> list[dict[str, Any]]:
    """Messages that were not taken, with the reason."""
    async with database.read() as connection:
        found = await _rows(
            connection, select(refused_responses).order_by(refused_responses.c.number.desc()).limit(limit)
        )
    return [{**one, "body": bytes(one["body"]).decode(errors="replace")} for one in found]


async def counts(database: Database) -> dict[str, int]:
    """How many commands are at each status."""
    async with database.read() as connection:
        found = await connection.execute(select(commands.c.status, func.count()).group_by(commands.c.status))
        return dict(found.all())


class Follower:
    """Tells when something has happened; looks once for everybody who follows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes = Changes()

    async def run(self, loop: Loop) -> None:
        """Look now and then while somebody follows."""
        while True:
            loop.beat()
            if self._changes.followed:
                async with self._database.read() as connection:
                    last = (await connection.execute(select(func.max(history.c.id)))).scalar() or 0
                await self._changes.tell(last)
            await asyncio.sleep(POLL)

    async def changes(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """The number of the newest entry in the history, whenever there is a newer one; empty as a sign of life."""
        async with aclosing(self._changes.follow(SILENCE)) as told:
            async for last in told:
                yield ("", {}) if last is None else (str(last), {"last": last})

    async def of_command(
        self, cmd_id: str, after: int, once: bool = False
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """What has happened to one command since `after`, and what happens, until it has ended."""
        silent = 0.0
        while True:
            async with self._database.read() as connection:
                found = await _rows(
                    connection,
                    select(history)
                    .where(history.c.key == cmd_id, history.c.id > after)
                    .order_by(history.c.id)
                    .limit(MOST),
                )
                row = (await connection.execute(select(commands).where(commands.c.cmd_id == cmd_id))).mappings().first()
            for one in found:
                after = one["id"]
                yield str(after), one
            if once or row is None or (shown(row)["ended"] and not found):
                return
            silent = 0.0 if found else silent + POLL
            if silent > SILENCE:
                silent = 0.0
                yield "", {}
            await asyncio.sleep(POLL)


async def _rows(connection: AsyncConnection, statement: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in (await connection.execute(statement)).mappings()]
