"""Interleavings without sleeping: look again until the other session is seen waiting; the deadline is a safety net."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

DEADLINE = 20.0


async def until(condition: Callable[[], bool], what: str) -> None:
    """Let others run until the condition holds."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up waiting until {what}")
        await asyncio.sleep(0)


def blocked(run: Callable[[str], list[tuple[Any, ...]]], table: str) -> int:
    """How many sessions wait for a lock in a statement that names the table, as PostgreSQL sees it."""
    ((count,),) = run(
        "SELECT count(*) FROM pg_stat_activity "
        f"WHERE wait_event_type = 'Lock' AND pid <> pg_backend_pid() AND query LIKE '%{table}%'"
    )
    return int(count)


async def until_blocked(run: Callable[[str], list[tuple[Any, ...]]], table: str, sessions: int = 1) -> None:
    """Wait until that many sessions are seen waiting for a lock on the table's rows."""
    await until(lambda: blocked(run, table) >= sessions, f"{sessions} sessions wait for {table}")
