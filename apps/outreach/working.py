"""What each stage does with a row that it holds. A result is written under the row's fence, or not at all."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, store_now
from outreach import built_in
from outreach.ai import Ai, OpenAiCompatible
from outreach.built_in import MATCH, Podcast, Wanted
from outreach.calls import Subject
from outreach.failures import Paused, one_line
from outreach.feed_reader import FeedReader
from outreach.feeds import Feed, NotAFeed
from outreach.fetching import Fetcher, NoNetwork
from outreach.forms import Claiming
from outreach.lenient import hosts_in, words_in
from outreach.outcomes import finish
from outreach.pauses import Pauses
from outreach.stages import Stage
from outreach.tables import (
    campaigns,
    discoveries,
    episodes,
    match_suggestions,
    media,
    review_tasks,
    stored_feeds,
    upsert,
)
from outreach.transcribing import want_transcripts
from raceproof import AsyncStore, Claim

Work = Claim[Any, Any]
Result = dict[str, Any] | Any
"""Columns to set when the row is finished; or what came of finishing it along with other writes."""

FRESH = 24 * 3600.0
"""Seconds for which a podcast that was enriched need not be enriched again."""
HEARD = 800
"""Letters of a transcript that stand in for a summary, where a feed has none."""


class Working:
    """The stages' work, on one database."""

    def __init__(
        self,
        database: Database,
        claiming: Claiming,
        ai: Ai,
        fetcher: Fetcher,
        highest_score: float,
        pause: float,
    ) -> None:
        self._database = database
        self._claiming = claiming
        self._ai = ai
        self._fetcher = fetcher
        self._highest_score = highest_score
        self._network = Pauses(database, "feeds", pause)
        self._reader = FeedReader()

    @property
    def is_storing(self) -> bool:
        """An answer that was paid for waits for the database."""
        return isinstance(self._ai, OpenAiCompatible) and self._ai.storing

    async def run(self, stage: Stage, work: Work) -> Result:
        """The work of a stage on one row."""
        result: Result = await getattr(self, stage.name)(stage, work)
        return result

    async def enrichment(self, stage: Stage, work: Work) -> Result:
        """Read the feed, and write down what it says about the podcast and its episodes."""
        async with self._database.read() as connection:
            row = await _media(connection, work)
            now: datetime = (await connection.execute(select(store_now(connection)))).scalar_one()
            stored = (
                await connection.execute(select(stored_feeds.c.body).where(stored_feeds.c.url == row["rss_url"]))
            ).scalar()
        if row["enriched_at"] and (now - row["enriched_at"]).total_seconds() < FRESH:
            return {}
        body = bytes(stored) if stored is not None else await self._fetched(row["rss_url"] or "")
        feed = await self._reader.read(body)
        if not feed.episodes:
            raise NotAFeed("the feed has no episodes yet")

        async def write(connection: AsyncConnection, store: AsyncStore) -> None:
            await self._keep_feed(connection, work.row["media_id"], row, feed, now)
            await want_transcripts(connection, store, work.row["media_id"], feed)

        return await finish(self._database, self._claiming, stage, work, write)

    async def _fetched(self, url: str) -> bytes:
        """A feed; if no network can be reached at all, that is no fault of the feed's."""
        try:
            body = await self._fetcher.get(url)
        except NoNetwork as error:
            await self._network.failed("network", str(error))
            raise Paused(str(error), delay=5.0) from None
        await self._network.worked()
        return body

    async def ai_description(self, stage: Stage, work: Work) -> Result:
        """Describe the podcast, unless that was done for another campaign."""
        async with self._database.read() as connection:
            row = await _media(connection, work)
            if row["ai_description"]:
                return {}
            podcast = await _podcast(connection, row)
        subject = Subject(f"podcast-{row['id']}", stage.name, None, int(row["id"]), int(work.key))
        text = await self._ai.describe(podcast, subject)

        async def write(connection: AsyncConnection, _: AsyncStore) -> None:
            now = store_now(connection)
            described = {"ai_description": text, "ai_described_at": now, "ai_described_by": self._ai.name}
            await connection.execute(update(media).where(media.c.id == row["id"]).values(described))

        return await finish(self._database, self._claiming, stage, work, write)

    async def vetting(self, stage: Stage, work: Work) -> Result:
        """Score each criterion; the weighted mean is the score."""
        async with self._database.read() as connection:
            row = await _media(connection, work)
            podcast = await _podcast(connection, row)
            wanted = await _wanted(connection, work)
        campaign, podcast_id = int(work.row["campaign_id"]), int(row["id"])
        subject = Subject(f"discovery-{work.key}", stage.name, campaign, podcast_id, int(work.key))
        scored = await self._ai.score(podcast, row["ai_description"] or "", wanted, subject)
        criteria = [{**one, "why": one_line(str(one["why"]))} for one in scored]
        whole = built_in.total(criteria)
        topic = next(one for one in criteria if one["criterion"] == "topic")
        return {
            "vetting_score": min(whole, self._highest_score),
            "vetting_reasoning": built_in.reasoning(criteria, whole),
            "vetting_criteria_met": json.dumps(criteria, ensure_ascii=False),
            "topic_match_analysis": f"{topic['score']:g} of 100: {topic['why']}",
        }

    async def matching(self, stage: Stage, work: Work) -> Result:
        """A match and a review task, once for a campaign and a podcast."""
        async with self._database.read() as connection:
            found = await connection.execute(
                select(discoveries.c.vetting_score, discoveries.c.vetting_reasoning).where(discoveries.c.id == work.key)
            )
            score, reasoning = found.one()
        if score is None or score < MATCH:
            return {"match_created": False, "match_suggestion_id": None, "review_status": None}

        async def write(connection: AsyncConnection, _: AsyncStore) -> dict[str, Any]:
            return await self._suggest(connection, work, float(score), reasoning or "")

        return await finish(self._database, self._claiming, stage, work, write)

    async def _suggest(self, connection: AsyncConnection, work: Work, score: float, reasoning: str) -> dict[str, Any]:
        now = store_now(connection)
        told = {"campaign_id": work.row["campaign_id"], "media_id": work.row["media_id"]}
        insert = upsert(self._database, match_suggestions).values(
            **told, discovery_id=work.key, score=score, reasoning=reasoning, created_at=now
        )
        again = insert.on_conflict_do_update(
            index_elements=["campaign_id", "media_id"], set_={"score": score, "reasoning": reasoning}
        )
        match_id = (await connection.execute(again.returning(match_suggestions.c.id))).scalar_one()
        task = upsert(self._database, review_tasks).values(
            match_suggestion_id=match_id, campaign_id=told["campaign_id"], status="pending", created_at=now
        )
        await connection.execute(task.on_conflict_do_nothing())
        return {"match_created": True, "match_suggestion_id": match_id, "review_status": "pending"}

    async def _keep_feed(self, connection: AsyncConnection, media_id: int, row: Any, feed: Feed, now: datetime) -> None:
        dated = [one.published_at for one in feed.episodes if one.published_at and one.published_at <= now]
        latest = max(dated, default=None)
        whole, parts = built_in.quality(latest, dated, row["audience"], feed.social, now)
        await connection.execute(
            update(media)
            .where(media.c.id == media_id)
            .values(
                name=feed.name,
                description=feed.description,
                website=feed.website,
                language=feed.language,
                categories=json.dumps(feed.categories, ensure_ascii=False),
                host_names=json.dumps(feed.hosts, ensure_ascii=False),
                social=feed.social,
                episode_count=len(feed.episodes),
                latest_episode_at=latest,
                quality_score=whole,
                quality_parts=json.dumps(parts),
                enriched_at=now,
                updated_at=now,
            )
        )
        listed = {
            one.guid: {
                "media_id": media_id,
                "guid": one.guid,
                "title": one.title,
                "summary": one.summary,
                "published_at": one.published_at,
                "seconds": one.seconds,
            }
            for one in feed.episodes
        }
        insert = upsert(self._database, episodes)
        newer = {name: insert.excluded[name] for name in ("title", "summary", "published_at", "seconds")}
        await connection.execute(
            insert.on_conflict_do_update(index_elements=["media_id", "guid"], set_=newer),
            list(listed.values()),
        )


async def _media(connection: AsyncConnection, work: Work) -> Any:
    found = await connection.execute(select(media).where(media.c.id == work.row["media_id"]))
    return found.mappings().one()


async def _podcast(connection: AsyncConnection, row: Any) -> Podcast:
    newest = (
        select(episodes.c.title, episodes.c.summary, episodes.c.transcript)
        .where(episodes.c.media_id == row["id"])
        .order_by(episodes.c.published_at.desc().nulls_last(), episodes.c.id)
        .limit(10)
    )
    return Podcast(
        name=row["name"] or "",
        description=row["description"] or "",
        categories=words_in(row["categories"]),
        hosts=[one["name"] for one in hosts_in(row["host_names"]) if one["confidence"] >= 0.5],
        language=row["language"],
        quality=row["quality_score"] or 0.0,
        parts=json.loads(row["quality_parts"] or "{}"),
        episodes=[
            (title or "", summary or (transcript or "")[:HEARD])
            for title, summary, transcript in await connection.execute(newest)
        ],
    )


async def _wanted(connection: AsyncConnection, work: Work) -> Wanted:
    found = await connection.execute(
        select(campaigns.c.keywords, campaigns.c.ideal_podcast_description, campaigns.c.language).where(
            campaigns.c.id == work.row["campaign_id"]
        )
    )
    keywords, ideal, language = found.one()
    return Wanted(words_in(keywords), ideal, language)
