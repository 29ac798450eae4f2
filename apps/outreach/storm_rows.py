"""The rows of a storm: podcasts with feeds, old errors and old locks to begin with; and what must hold in the end."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape

from sqlalchemy import func, insert, or_, select, text, update

from appkit.database import Database, store_now
from appkit.storm import Report
from outreach.service import Service
from outreach.stages import STAGES
from outreach.tables import (
    campaigns,
    discoveries,
    error_texts,
    media,
    stored_feeds,
)

TOPICS = (
    "startup",
    "pricing",
    "soil",
    "databases",
    "kitchen",
    "orbit",
    "health",
    "money",
    "music",
    "history",
)
HUGE = "".join(f" {number:x}{number * 7919 % 104729:x}" for number in range(3000))
"""As an older tool may have left it: 30 kB that do not compress to nothing."""
BROKEN = 97
"""Every so many-th feed is no feed, usually."""


@dataclass
class Seeded:
    """What the storm began with."""

    podcasts: int
    broken: int = 0
    errors: dict[int, str] = field(default_factory=dict)
    """Texts that stood in an error column before anybody worked, by discovery."""
    held_elsewhere: list[int] = field(default_factory=list)
    """Under a marker of an older version that is still alive."""


async def fill(service: Service, podcasts: int, of: int, broken: int = BROKEN) -> Seeded:
    """Campaigns, podcasts with their feeds, a discovery for each pair; and what older versions have left behind."""
    seeded = Seeded(podcasts)
    async with service.database.transaction() as (connection, _):
        now = store_now(connection)
        for number in range(of):
            topics = [TOPICS[number], TOPICS[number + 3], TOPICS[number + 5]]
            ideal = f"Interviews about {topics[0]} and {topics[1]}."
            await connection.execute(
                insert(campaigns).values(
                    name=f"Campaign {number}",
                    keywords=json.dumps(topics),
                    ideal_podcast_description=ideal,
                    created_at=now,
                )
            )
        for begin in range(0, podcasts, 500):
            numbers = range(begin, min(begin + 500, podcasts))
            bodies = {f"stored:storm-{number}": _feed(number, broken) for number in numbers}
            stamps = {"created_at": now, "updated_at": now}
            await connection.execute(
                insert(stored_feeds).values(
                    [{"url": url, "body": body, "stored_at": now} for url, body in bodies.items()]
                )
            )
            await connection.execute(insert(media).values([{"rss_url": url, "name": url, **stamps} for url in bodies]))
        seeded.broken = podcasts // broken
        for campaign in (await connection.execute(select(campaigns.c.id))).scalars().all():
            pairs = select(
                func.max(campaign, 0) if connection.dialect.name == "sqlite" else func.greatest(campaign, 0),
                media.c.id,
                now,
                now,
                now,
            ).order_by(media.c.id)
            columns = ["campaign_id", "media_id", "discovered_at", "created_at", "updated_at"]
            await connection.execute(insert(discoveries).from_select(columns, pairs))
        await _old_texts(connection, seeded)
    return seeded


async def _old_texts(connection: Any, seeded: Seeded) -> None:
    """Errors, malformed markers, a dead worker's marker, and markers of an older version that still works."""
    keys = (await connection.execute(select(discoveries.c.id).order_by(discoveries.c.id).limit(50))).scalars().all()
    now = datetime.now(UTC)
    old = (now - timedelta(hours=2)).replace(tzinfo=None).isoformat()
    for place, key in enumerate(keys[:40]):
        words = (
            f"HTTPError: 502 from the host of feed {key}" + HUGE * (place == 0),
            "PROCESSING:AI_DESC:nonsense",
            "PROCESSING:AI_DESC::",
            f"PROCESSING:AI_DESC:{uuid.uuid4()}:{old}",
        )[place % 4]
        if place % 4 < 3:
            seeded.errors[key] = words
        await _set(connection, key, words)
    for key in keys[40:45]:
        await _set(connection, key, f"PROCESSING:ENRICHMENT:{uuid.uuid4()}:{now.replace(tzinfo=None).isoformat()}")
        seeded.held_elsewhere.append(key)
    for key in keys[45:50]:
        await _set(connection, key, f"PROCESSING:ENRICHMENT:{uuid.uuid4().hex}:{now.timestamp() - 7200:.3f}")


async def _set(connection: Any, key: int, words: str) -> None:
    await connection.execute(update(discoveries).where(discoveries.c.id == key).values(enrichment_error=words))


def _feed(number: int, broken: int) -> bytes:
    if number % broken == broken - 1:
        return b"<html><body>503 Service Unavailable</body></html>"
    topics = [TOPICS[number % 10], TOPICS[(number // 10) % 10]]
    items = "".join(
        f"<item><title>{escape(topic)} with Guest {number}</title><guid>{number}-{place}</guid>"
        f"<description>Interviews about {topic}, part {place}.</description>"
        f"<pubDate>Mon, {9 - place:02d} Nov 2026 06:00:00 GMT</pubDate></item>"
        for place, topic in enumerate((*topics, topics[0]))
    )
    return (
        f'<?xml version="1.0"?><rss version="2.0"><channel><title>Show {number}</title><language>en</language>'
        f"<description>A show about {topics[0]} and {topics[1]}.</description>{items}</channel></rss>"
    ).encode()


def _ended() -> Any:
    """A row has come to the end of the pipeline, or a stage has dead-lettered it."""
    failed = [discoveries.c[stage.status] == "failed" for stage in STAGES.values()]
    return or_(*failed, discoveries.c.matching_status == "completed")


async def ended(database: Database) -> int:
    """How many rows have ended."""
    async with database.read() as connection:
        return int((await connection.execute(select(func.count()).where(_ended()))).scalar_one())


async def examine(service: Service, seeded: Seeded, report: Report) -> None:
    """What the storm began with, and that everything has ended."""
    async with service.database.read() as connection:

        async def number(statement: Any) -> int:
            return int((await connection.execute(statement)).scalar_one())

        total = await number(select(func.count()).select_from(discoveries))
        done = await number(select(func.count()).where(_ended()))
        not_a_feed = discoveries.c.enrichment_error.like("NotAFeed%")
        broken = await number(select(func.count()).where(discoveries.c.enrichment_status == "failed", not_a_feed))
        of = await number(select(func.count()).select_from(campaigns))
        lost = await _lost_texts(connection, seeded)
        left = await _locks_left(connection)
    report.counts |= {"podcasts": seeded.podcasts, "discoveries": total}
    report.check("every row has ended", done == total, f"{done} of {total}", "every-row-ended")
    what = "only what is not a feed was dead-lettered, and all of it"
    report.check(what, broken == seeded.broken * of, f"{broken} of {seeded.broken * of}", "broken-feeds")
    report.check("no error text was lost", not lost, "; ".join(lost[:3]), "no-error-text-lost")
    report.check("no lock is left behind", not left, "; ".join(left[:3]), "no-lock-left")


async def _locks_left(connection: Any) -> list[str]:
    """By hand: rows in work, and markers in any error column; a dead worker's name beside an end holds nothing."""
    left = []
    rows = await connection.execute(text("SELECT * FROM campaign_media_discoveries"))
    for row in rows.mappings():
        for name, value in row.items():
            is_mark = name.endswith("_error") and str(value or "").startswith("PROCESSING:")
            if is_mark or (name.endswith("_status") and value == "in_progress"):
                left.append(f"{row['id']} {name}: {value}")
    return left


async def _lost_texts(connection: Any, seeded: Seeded) -> list[str]:
    """Texts from before the storm that are neither in their column nor among the kept ones."""
    kept = select(error_texts.c.discovery_id, error_texts.c.text)
    found = {tuple(row) for row in await connection.execute(kept)}
    current = select(discoveries.c.id, discoveries.c.enrichment_error).where(discoveries.c.id.in_(list(seeded.errors)))
    found |= {tuple(row) for row in await connection.execute(current)}
    return [f"{key}: {words[:80]}" for key, words in seeded.errors.items() if (key, words) not in found]
