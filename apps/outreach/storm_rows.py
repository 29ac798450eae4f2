"""The rows of a storm: podcasts with feeds, old errors and old locks to begin with; and what must hold in the end."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape

from sqlalchemy import and_, func, insert, or_, select, update

from appkit.database import Database, store_now
from appkit.storm import Report
from outreach.built_in import MATCH
from outreach.monitoring import locks
from outreach.service import Service
from outreach.stages import STAGES
from outreach.tables import (
    campaigns,
    discoveries,
    error_texts,
    match_suggestions,
    media,
    review_tasks,
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
            await connection.execute(
                insert(media).values([{"rss_url": url, "name": url, **stamps} for url in bodies])
            )
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
    keys = (
        (await connection.execute(select(discoveries.c.id).order_by(discoveries.c.id).limit(50)))
        .scalars()
        .all()
    )
    now = datetime.now(UTC)
    old = (now - timedelta(hours=2)).replace(tzinfo=None).isoformat()
    for place, key in enumerate(keys[:40]):
        text = (
            f"HTTPError: 502 from the host of feed {key}",
            "PROCESSING:AI_DESC:nonsense",
            "PROCESSING:AI_DESC::",
            f"PROCESSING:AI_DESC:{uuid.uuid4()}:{old}",
        )[place % 4]
        if place % 4 < 3:
            seeded.errors[key] = text
        await _set(connection, key, text)
    for key in keys[40:45]:
        await _set(
            connection, key, f"PROCESSING:ENRICHMENT:{uuid.uuid4()}:{now.replace(tzinfo=None).isoformat()}"
        )
        seeded.held_elsewhere.append(key)
    for key in keys[45:50]:
        await _set(connection, key, f"PROCESSING:ENRICHMENT:{uuid.uuid4().hex}:{now.timestamp() - 7200:.3f}")


async def _set(connection: Any, key: int, text: str) -> None:
    await connection.execute(update(discoveries).where(discoveries.c.id == key).values(enrichment_error=text))


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
    """A row has come to the end of the pipeline, or a stage has set it aside."""
    failed = [discoveries.c[stage.status] == "failed" for stage in STAGES.values()]
    return or_(*failed, discoveries.c.matching_status == "completed")


async def ended(database: Database) -> int:
    """How many rows have ended."""
    async with database.read() as connection:
        return int((await connection.execute(select(func.count()).where(_ended()))).scalar_one())


async def examine(service: Service, seeded: Seeded, ledger: dict[str, Any], report: Report) -> None:
    """Count, and check what must hold."""
    async with service.database.read() as connection:

        async def number(statement: Any) -> int:
            return int((await connection.execute(statement)).scalar_one())

        total = await number(select(func.count()).select_from(discoveries))
        done = await number(select(func.count()).where(_ended()))
        described = await number(select(func.count()).where(media.c.ai_description.is_not(None)))
        vetted = await number(select(func.count()).where(discoveries.c.vetting_status == "completed"))
        good = discoveries.c.vetting_score >= MATCH
        fitting = await number(select(func.count()).where(good))
        unmatched = await number(select(func.count()).where(good, discoveries.c.matching_status == "failed"))
        matched = await number(select(func.count()).select_from(match_suggestions))
        pairs = select(match_suggestions.c.campaign_id, match_suggestions.c.media_id).distinct().subquery()
        distinct = await number(select(func.count()).select_from(pairs))
        reviews = await number(select(func.count()).select_from(review_tasks))
        aside, silent = 0, 0
        for stage in STAGES.values():
            failed = discoveries.c[stage.status] == "failed"
            aside += await number(select(func.count()).where(failed))
            text = discoveries.c[stage.error]
            silent += await number(
                select(func.count()).where(failed, or_(text.is_(None), text.like("PROCESSING:%")))
            )
        lost = await _lost_texts(connection, seeded)
        broken = await number(
            select(func.count()).where(
                and_(
                    discoveries.c.enrichment_status == "failed",
                    discoveries.c.enrichment_error.like("NotAFeed%"),
                )
            )
        )
        of = await number(select(func.count()).select_from(campaigns))
    left = [
        f"{one.stage} {one.discovery}: {one.lock}" for one in await locks(service.database, service.claiming)
    ]
    needed = described + vetted
    report.counts |= {
        "podcasts": seeded.podcasts,
        "discoveries": total,
        "AI calls made": ledger["calls"],
        "AI calls needed": needed,
        "calls made for each that was needed": round(ledger["calls"] / max(needed, 1), 3),
        "AI calls that failed": ledger["failed"],
        "matches": matched,
        "set aside": aside,
    }
    report.check("every row ended", done == total, f"{done} of {total}")
    report.check("nothing was described or vetted twice at once", ledger["overlaps"] == 0, ledger["overlaps"])
    report.check(
        "nobody was charged twice for one intent", ledger["charged"] == ledger["answered"], ledger["charged"]
    )
    report.check(
        "no match twice, and none missing",
        matched == distinct == fitting - unmatched,
        f"{matched} of {fitting}, {unmatched} set aside",
    )
    report.check("each match has one review task", reviews == matched, reviews)
    report.check("rows that were set aside have their errors", silent == 0, f"{silent} of {aside} without")
    report.check("feeds that are none were set aside", broken == seeded.broken * of, f"{broken}")
    report.check("no error text was lost", not lost, lost[:3])
    report.check("no lock is left behind", not left, left[:3])


async def _lost_texts(connection: Any, seeded: Seeded) -> list[str]:
    """Texts from before the storm that are neither in their column nor among the kept ones."""
    kept = select(error_texts.c.discovery_id, error_texts.c.text)
    found = {tuple(row) for row in await connection.execute(kept)}
    current = select(discoveries.c.id, discoveries.c.enrichment_error).where(
        discoveries.c.id.in_(list(seeded.errors))
    )
    found |= {tuple(row) for row in await connection.execute(current)}
    return [f"{key}: {text}" for key, text in seeded.errors.items() if (key, text) not in found]
