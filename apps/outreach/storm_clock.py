"""The store's clock in a storm: while nobody works, an hour passes in the rows.

The note's numbers are in force: a batch has 45 minutes, a marker holds its row for 60. After a power cut all times in the
rows are made earlier, which is what they look like when the store's clock has moved on.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy import select, update

from appkit.database import Database
from outreach.forms import Claiming, Form
from outreach.monitoring import Lock, locks, marked_at
from outreach.stages import STAGES
from outreach.tables import discoveries

_EARLIER = {
    "postgres": "{column} - make_interval(mins => {minutes:d})",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', {column}, '-{minutes:d} minutes')",
}


async def minutes_pass(database: Database, minutes: int, form: Form = Form.COLUMNS) -> None:
    """For all locks and all rests, in both forms and in markers of older versions."""
    async with database.transaction() as (connection, _):
        for stage in STAGES.values():
            columns = [f"{stage.name}_rests_until"]
            columns += [f"{stage.name}_claimed_until"] * (form is Form.COLUMNS)
            for column in columns:
                earlier = _EARLIER[database.dialect].format(column=column, minutes=minutes)
                await connection.exec_driver_sql(
                    f"UPDATE campaign_media_discoveries SET {column} = {earlier} WHERE {column} IS NOT NULL"  # noqa: S608
                )
            text = discoveries.c[stage.error]
            marked = select(discoveries.c.id, text).where(text.like(f"PROCESSING:{stage.kind}:%"))
            for key, marker in (await connection.execute(marked)).all():
                if (older := _earlier(marker, minutes)) is not None:
                    await connection.execute(
                        update(discoveries).where(discoveries.c.id == key).values({stage.error: older})
                    )


def _earlier(marker: str, minutes: int) -> str | None:
    """The marker as if it had been written earlier, in the same spelling; None for one that is malformed."""
    at = marked_at(marker)
    if at is None:
        return None
    *begin, _ = marker.split(":", 3)
    at -= timedelta(minutes=minutes)
    dated = "-" in marker.rpartition(":")[2] or marker.count(":") > 3
    written = at.astimezone(UTC).replace(tzinfo=None).isoformat() if dated else f"{at.timestamp():.6f}"
    return ":".join((*begin, written))


@dataclass
class PowerCuts:
    """Counts what was held when everybody died, and what of it was free when."""

    number: int = 0
    held: int = 0
    still_held: int = 0
    """By markers, 46 minutes later: a batch could have lasted so long."""
    wrong: int = 0
    """Locks that were free too early, or held too long."""

    async def pass_an_hour(self, database: Database, claiming: Claiming) -> None:
        """To be called when no worker is alive."""
        at_first = await _last_words(database, claiming)
        await minutes_pass(database, 46, claiming.form)
        after_the_cap = await _alive(database, claiming)
        await minutes_pass(database, 15, claiming.form)
        in_the_end = await _alive(database, claiming)
        by_marker = {one for one in at_first if _is_marker(one)}
        self.number += 1
        self.held += len(at_first)
        self.still_held += len(after_the_cap)
        self.wrong += len({_row(one) for one in by_marker} ^ {_row(one) for one in after_the_cap})
        self.wrong += len(in_the_end)


async def _last_words(database: Database, claiming: Claiming) -> list[Lock]:
    """What is held when the last statement that a dead worker had sent has come to its end in the server."""
    while True:
        found = await _alive(database, claiming)
        await asyncio.sleep(0.1)
        if not await _somebody_works(database) and await _alive(database, claiming) == found:
            return found


async def _somebody_works(database: Database) -> bool:
    if database.dialect == "sqlite":
        return False  # there is no server: a statement ends with its process
    busy = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'"
    )
    async with database.read() as connection:
        return bool((await connection.exec_driver_sql(busy)).scalar_one())


async def _alive(database: Database, claiming: Claiming) -> list[Lock]:
    return [one for one in await locks(database, claiming) if not one.why]


def _is_marker(lock: Lock) -> bool:
    return lock.lock.startswith("PROCESSING:")


def _row(lock: Lock) -> tuple[Any, ...]:
    return lock.stage, lock.discovery
