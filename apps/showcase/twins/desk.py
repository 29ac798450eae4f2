"""What a piece of code works with: its name, its database, and the world outside."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from raceproof import AsyncStore, Store, bind

BUSY = 1.0
"""Seconds to wait for a database that somebody else writes to, on both sides."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Desk:
    """Of one process."""

    me: str
    database: Path
    db: AsyncStore
    """Raceproof on the same file; only the guarded side uses it."""
    ask: Callable[..., Awaitable[dict[str, Any]]]
    """Call somebody outside, and wait for the answer: `await ask("send_picture", key="p-1")`."""
    tell: Callable[..., Awaitable[None]]
    """Say something that nobody answers."""

    async def sql(self, text: str, *parameters: object) -> list[tuple[Any, ...]]:
        """One statement, committed by itself."""
        return await asyncio.to_thread(execute, self.database, text, parameters)

    async def transaction(self, work: Callable[[Store, sqlite3.Connection], T]) -> T:
        """Raceproof's decisions and one's own statements, all or nothing."""

        def run() -> T:
            with closing(opened(self.database)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    made = work(bind(connection), connection)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                return made

        return await asyncio.to_thread(run)

    async def held_off(self, scenario: str, key: object, why: object) -> None:
        """Raceproof has said no; for the page."""
        await self.tell("held_off", scenario=scenario, key=str(key), actor=self.me, why=str(why))


def opened(database: Path, busy: float = BUSY) -> sqlite3.Connection:
    return sqlite3.connect(database, timeout=busy, isolation_level=None)


def execute(
    database: Path, text: str, parameters: tuple[object, ...] = (), busy: float = BUSY
) -> list[tuple[Any, ...]]:
    with closing(opened(database, busy)) as connection:
        return connection.execute(text, parameters).fetchall()
