"""Who works on what, and what is stuck: the note's queries for each kind of lock, in both forms.

For people who look. Nothing here is needed for work to go on: what is stuck is taken over by the next worker that asks.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select

from appkit.database import Database, store_now
from outreach.forms import Claiming, Form
from outreach.stages import STAGES, Stage
from outreach.tables import discoveries, media

MOST = 500
_DATED = re.compile(r"^PROCESSING:[^:]+:[^:]+:(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on a row. `why` is empty for one that is alive, and says otherwise why it is not."""

    stage: str
    discovery: int
    podcast: str
    holder: str | None
    lock: str
    until: datetime | None
    updated_at: datetime | None
    why: str = ""

    def shown(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


async def active_processing(database: Database, claiming: Claiming) -> list[Lock]:
    """Rows that are being worked on now."""
    return [one for one in await locks(database, claiming) if not one.why]


async def stuck_locks(database: Database, claiming: Claiming) -> list[Lock]:
    """Locks that hold nothing any more: of dead workers, and texts that no worker wrote."""
    return [one for one in await locks(database, claiming) if one.why]


async def locks(database: Database, claiming: Claiming) -> list[Lock]:
    """All locks, alive or not, by stage and row."""
    found: dict[tuple[str, int], Lock] = {}
    for stage in claiming.stages.values():
        for one in await _markers(database, stage, claiming):
            found[stage.name, one.discovery] = one
        if claiming.form is Form.COLUMNS:
            for one in await _claims(database, stage, claiming):
                found[stage.name, one.discovery] = one
    return [found[key] for key in sorted(found, key=lambda key: (list(STAGES).index(key[0]), key[1]))]


async def _claims(database: Database, stage: Stage, claiming: Claiming) -> list[Lock]:
    held = await database.store.claims(claiming.of(stage), MOST)
    async with database.read() as connection:
        rows = await connection.execute(_rows(stage).where(discoveries.c.id.in_([one.key for one in held])))
        told = {row["id"]: row for row in rows.mappings()}
    return [
        Lock(
            stage.name,
            one.key,
            told[one.key]["name"],
            one.holder,
            str(one.fence),
            one.until,
            told[one.key]["updated_at"],
            "its worker has not renewed it" if one.stale else "",
        )
        for one in held
        if one.key in told
    ]


async def _markers(database: Database, stage: Stage, claiming: Claiming) -> list[Lock]:
    marked = discoveries.c[stage.error].like(f"PROCESSING:{stage.kind}:%")
    async with database.read() as connection:
        rows = (await connection.execute(_rows(stage).where(marked).limit(MOST))).mappings().all()
        now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
    found = []
    for row in rows:
        since = marked_at(row["lock"])
        if since is None or since > now + timedelta(days=1):
            until, why = None, "malformed: it holds nothing"
        else:
            until = since + timedelta(seconds=claiming.stale)
            why = "" if until > now else "its worker has died"
        found.append(Lock(stage.name, row["id"], row["name"], None, row["lock"], until, row["updated_at"], why))
    return found


def marked_at(text: str) -> datetime | None:
    """When a marker was written: in seconds, or as an older version wrote it; None for one that is malformed."""
    last = text.rpartition(":")[2]
    try:
        if re.fullmatch(r"PROCESSING:[^:]+:[^:]+:\d{1,12}(\.\d{1,9})?", text):
            return datetime.fromtimestamp(float(last), UTC)
        dated = _DATED.match(text)
        return datetime.fromisoformat(dated[1]).replace(tzinfo=UTC) if dated else None
    except (ValueError, OverflowError, OSError):
        return None


def _rows(stage: Stage) -> Any:
    return (
        select(
            discoveries.c.id,
            media.c.name,
            discoveries.c[stage.error].label("lock"),
            discoveries.c.updated_at,
        )
        .join(media, media.c.id == discoveries.c.media_id)
        .order_by(discoveries.c.id)
    )
