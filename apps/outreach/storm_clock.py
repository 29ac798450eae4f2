"""The store's clock in a storm: while no worker is alive, an hour passes in the rows, and real claims say what is free.

The note's numbers are in force: a batch has 45 minutes, a marker holds its row for 60. All times in the rows are made
earlier, which is what they look like when the store's clock has moved on.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from typing import Any

from sqlalchemy import select, text, update

from appkit.database import Database
from outreach.forms import Claiming, Form
from outreach.monitoring import marked_at
from outreach.stages import STAGES
from outreach.storm_audit import Held, held_now
from outreach.tables import discoveries, pauses
from raceproof import sql

AFTER_THE_CAP, AFTER_STALE = 46, 61
"""Minutes after which a batch has surely ended, and after which a marker is surely stale."""
_EARLIER = {
    "postgres": "{column} - make_interval(mins => {minutes:d})",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', {column}, '-{minutes:d} minutes')",
}


async def minutes_pass(
    database: Database, minutes: int, form: Form = Form.COLUMNS, keys: Collection[int] | None = None
) -> None:
    """For all locks and all rests, in both forms and in markers of older versions; of all rows, or of these."""
    some = "" if keys is None else f" AND id IN ({', '.join(str(int(key)) for key in keys) or 'NULL'})"
    async with database.transaction() as (connection, _):
        for stage in STAGES.values():
            columns = [f"{stage.name}_rests_until"]
            columns += [f"{stage.name}_claimed_until"] * (form is Form.COLUMNS)
            for column in columns:
                earlier = _EARLIER[database.dialect].format(column=column, minutes=minutes)
                await connection.exec_driver_sql(
                    f"UPDATE campaign_media_discoveries SET {column} = {earlier} WHERE {column} IS NOT NULL{some}"  # noqa: S608
                )
            error = discoveries.c[stage.error]
            marked = select(discoveries.c.id, error).where(error.like(f"PROCESSING:{stage.kind}:%"))
            if some:
                marked = marked.where(text(some.removeprefix(" AND ")))
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


async def end_pauses(database: Database) -> None:
    """Of all stages, as if their time were over."""
    async with database.transaction() as (connection, _):
        await connection.execute(update(pauses).values(until=None))


@dataclass
class PowerCuts:
    """What was held when all workers died, and what of it real claims could take when."""

    number: int = 0
    held: int = 0
    by_marker: int = 0
    too_early: list[str] = field(default_factory=list)
    """Rows under a marker that a claim could have taken before it was stale."""
    too_late: list[str] = field(default_factory=list)
    """Rows that no claim could take although every lock on them was stale."""

    async def pass_an_hour(self, database: Database, claiming: Claiming) -> None:
        """To be called when no worker is alive."""
        held = await _last_words(database)
        await end_pauses(database)
        await minutes_pass(database, AFTER_THE_CAP, claiming.form)
        early = await claimable(database, claiming, held)
        await minutes_pass(database, AFTER_STALE - AFTER_THE_CAP, claiming.form)
        late = await claimable(database, claiming, held)
        self.number += 1
        self.held += len(held)
        self.by_marker += sum(one.by_marker for one in held)
        self.too_early += [str(one) for one in held if one.by_marker and one in early]
        self.too_late += [str(one) for one in held if one not in late]


async def claimable(database: Database, claiming: Claiming, held: Collection[Held]) -> set[Held]:
    """Which of these rows a claim of either form would take or dead-letter now; the claims are rolled back."""
    forms = [Form.MARKER] + [Form.COLUMNS] * (claiming.form is Form.COLUMNS)
    found: set[Held] = set()
    for form in forms:
        own = replace(claiming, form=form)
        for stage in STAGES.values():
            keys = {one.key: one for one in held if one.stage == stage.name}
            if not keys:
                continue
            try:
                async with database.transaction() as (connection, store):
                    some = sql(f"t.id IN ({', '.join(map(str, keys))})")
                    taken = {int(one.key) for one in await store.claim(own.of(stage), 1000, where=some)}
                    asked = select(discoveries.c.id).where(
                        discoveries.c.id.in_(list(keys)), discoveries.c[stage.status] == "failed"
                    )
                    taken |= set((await connection.execute(asked)).scalars())
                    found |= {keys[key] for key in taken}
                    raise _NotKept
            except _NotKept:
                pass
    return found


class _NotKept(Exception):
    """Rolls back what was only tried."""


async def _last_words(database: Database) -> list[Held]:
    """What is held when the last statement that a dead worker had sent has come to its end in the server."""
    while True:
        found = await held_now(database)
        await asyncio.sleep(0.1)
        if not await _is_busy(database) and await held_now(database) == found:
            return found


async def _is_busy(database: Database) -> bool:
    if database.dialect == "sqlite":
        return False  # there is no server: a statement ends with its process
    busy: Any = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND state <> 'idle'"
    )
    async with database.read() as connection:
        return bool((await connection.exec_driver_sql(busy)).scalar_one())
