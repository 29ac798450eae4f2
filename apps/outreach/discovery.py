"""Campaigns and what they find: feeds, lists of feeds and search results become discoveries, once for each campaign."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import ARRAY, Text, cast, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from outreach.feed_reader import FeedReader
from outreach.feeds import Found, read_list
from outreach.fetching import Fetcher, NotFetched
from outreach.tables import campaigns, discoveries, media, stored_feeds, upsert

SHIPPED = Path(__file__).parent / "feeds"
MOST_BYTES = 5_000_000


class NoCampaign(LookupError):
    """There is no such campaign."""


@dataclass
class Discovered:
    """What came of a source."""

    new: int = 0
    known: int = 0
    """In the campaign already."""
    skipped: list[str] = field(default_factory=list)


async def add_campaign(
    database: Database, name: str, keywords: Sequence[str], ideal: str, language: str | None = None
) -> int:
    """A campaign by its name; the same name is the same campaign, with what is told now.

    Without a `language` (such as fr or pt-BR) its own words tell which one it asks for.
    """
    async with database.transaction() as (connection, _):
        told: dict[str, Any] = {
            "keywords": await _as_the_column_has_it(connection, list(keywords)),
            "ideal_podcast_description": ideal,
            "language": language or None,
        }
        insert = upsert(database, campaigns).values(name=name, created_at=store_now(connection), **told)
        found = await connection.execute(
            insert.on_conflict_do_update(index_elements=["name"], set_=told).returning(campaigns.c.id)
        )
        return int(found.scalar_one())


async def _as_the_column_has_it(connection: AsyncConnection, keywords: list[str]) -> Any:
    """JSON in a text; in an adopted table they may be an array."""
    if connection.dialect.name == "postgresql":
        asked = (
            "SELECT atttypid = 'text[]'::regtype FROM pg_attribute"
            " WHERE attrelid = 'campaigns'::regclass AND attname = 'keywords'"
        )
        if (await connection.exec_driver_sql(asked)).scalar_one():
            return cast(keywords, ARRAY(Text))
    return json.dumps(keywords, ensure_ascii=False)


async def discover(
    database: Database, fetcher: Fetcher, campaign: int, source: str, keyword: str | None = None
) -> Discovered:
    """Everything that a source names: a file, `shipped:NAME`, or an https URL of a feed, an OPML list or search results."""
    done = Discovered()
    body = await _body(fetcher, source)
    entries = await asyncio.to_thread(read_list, body)
    if entries:
        for one in entries:
            if one.url.startswith("shipped:"):
                await _add(database, campaign, one, await _shipped(one.url), keyword, done)
            elif one.url.startswith("https://"):
                await _add(database, campaign, one, None, keyword, done)
            else:
                done.skipped.append(f"{one.name}: a feed is read from https://…, not from {one.url[:60]}")
    elif source.startswith("https://"):
        name = (await FeedReader().read(body)).name
        await _add(database, campaign, Found(source, name), None, keyword, done)
    else:
        url = source if source.startswith("shipped:") else _stored_url(source, body)
        await _add(database, campaign, Found(url, Path(source).stem), body, keyword, done)
    return done


async def _body(fetcher: Fetcher, source: str) -> bytes:
    if source.startswith(("https://", "http://")):
        return await fetcher.get(source)
    if source.startswith("shipped:"):
        return await _shipped(source)
    return await asyncio.to_thread(_file, Path(source))


def _file(path: Path) -> bytes:
    if not path.is_file():
        raise NotFetched(f"there is no file {path}")
    if path.stat().st_size > MOST_BYTES:
        raise NotFetched(f"{path} is larger than {MOST_BYTES} bytes")
    return path.read_bytes()


async def _shipped(url: str) -> bytes:
    """One of the feeds that come with the application, by its bare name."""
    name = url.removeprefix("shipped:")
    if name not in {path.name for path in SHIPPED.iterdir()}:
        raise NotFetched(f"no feed {name!r} comes with the application")
    return await asyncio.to_thread((SHIPPED / name).read_bytes)


def _stored_url(source: str, body: bytes) -> str:
    return f"stored:{Path(source).name}-{hashlib.sha256(body).hexdigest()[:12]}"


async def _add(
    database: Database, campaign: int, one: Found, body: bytes | None, keyword: str | None, done: Discovered
) -> None:
    """A podcast and its discovery. The row of the podcast is locked first, so that its discoveries are committed in the
    order of their ids: the first of a line is the first for everybody."""
    async with database.transaction() as (connection, _):
        if not await _there(connection, campaign):
            raise NoCampaign(f"there is no campaign {campaign}")
        now = store_now(connection)
        if body is not None:
            stored = upsert(database, stored_feeds).values(url=one.url, body=body, stored_at=now)
            await connection.execute(
                stored.on_conflict_do_update(index_elements=["url"], set_={"body": stored.excluded.body})
            )
        podcast = upsert(database, media).values(
            rss_url=one.url, name=one.name, audience=one.audience, created_at=now, updated_at=now
        )
        known = {"updated_at": now, "audience": func.coalesce(podcast.excluded.audience, media.c.audience)}
        media_id = (
            await connection.execute(
                podcast.on_conflict_do_update(index_elements=["rss_url"], set_=known).returning(media.c.id)
            )
        ).scalar_one()
        found = upsert(database, discoveries).values(
            campaign_id=campaign,
            media_id=media_id,
            discovery_keyword=keyword,
            discovered_at=now,
            created_at=now,
            updated_at=now,
            # an adopted table may have no defaults for these
            enrichment_status="pending",
            vetting_status="pending",
            match_created=False,
        )
        new = await connection.execute(found.on_conflict_do_nothing().returning(discoveries.c.id))
        if new.first() is None:
            done.known += 1
        else:
            done.new += 1


async def _there(connection: AsyncConnection, campaign: int) -> bool:
    return (await connection.execute(select(campaigns.c.id).where(campaigns.c.id == campaign))).first() is not None
