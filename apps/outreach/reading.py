"""What people and programs look at: campaigns, podcasts, matches and why they scored as they did, reviews, and figures."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.changes import Changes
from appkit.database import Database
from appkit.loops import Loop
from outreach.stages import STAGES
from outreach.tables import (
    ai_budget,
    campaigns,
    discoveries,
    episodes,
    kept_errors,
    match_suggestions,
    media,
    review_tasks,
    stages,
)

MOST = 200
POLL = 1.0
SILENCE = 15.0


async def overview(database: Database) -> dict[str, Any]:
    """Each stage with its counts and its switch, and what there is to decide."""
    async with database.read() as connection:
        switches = {row["name"]: row for row in await _rows(connection, select(stages))}
        told = []
        for stage in STAGES.values():
            column = discoveries.c[stage.status]
            counted = await connection.execute(select(column, func.count()).group_by(column))
            told.append(
                {
                    "stage": stage.name,
                    "counts": {str(one[0]): int(one[1]) for one in counted},
                    **_switch(switches[stage.name]),
                }
            )
        numbers = {
            name: (await connection.execute(select(func.count()).select_from(table))).scalar_one()
            for name, table in (("campaigns", campaigns), ("podcasts", media), ("matches", match_suggestions))
        }
        waiting = select(func.count()).where(review_tasks.c.status == "pending")
        numbers["reviews"] = (await connection.execute(waiting)).scalar_one()
        budget = (await _rows(connection, select(ai_budget)))[0]
    return {
        "stages": told,
        "numbers": numbers,
        "spent": budget["spent"] / 1_000_000,
        "calls": budget["calls"],
    }


def _switch(row: dict[str, Any]) -> dict[str, Any]:
    return {"paused": row["state"] == "paused", "changed_by": row["changed_by"], "reason": row["reason"]}


async def all_campaigns(database: Database) -> list[dict[str, Any]]:
    """Campaigns with how many podcasts they have found, and how many of these are matches."""
    found = select(func.count()).where(discoveries.c.campaign_id == campaigns.c.id).scalar_subquery()
    matched = select(func.count()).where(match_suggestions.c.campaign_id == campaigns.c.id).scalar_subquery()
    async with database.read() as connection:
        rows = await _rows(
            connection,
            select(campaigns, found.label("podcasts"), matched.label("matches"))
            .order_by(campaigns.c.id)
            .limit(MOST),
        )
    return [{**row, "keywords": json.loads(row["keywords"])} for row in rows]


async def page_of_discoveries(
    database: Database,
    *,
    campaign: int | None = None,
    podcast: int | None = None,
    failed: bool = False,
    after: int = 0,
    limit: int = 50,
) -> tuple[list[dict[str, Any]], int | None]:
    """What campaigns have found, in the order in which they found it; and where the next page begins."""
    wanted: list[ColumnElement[bool]] = [discoveries.c.id > after]
    if campaign is not None:
        wanted.append(discoveries.c.campaign_id == campaign)
    if podcast is not None:
        wanted.append(discoveries.c.media_id == podcast)
    if failed:
        is_failed = [discoveries.c[stage.status] == "failed" for stage in STAGES.values()]
        wanted.append(is_failed[0] | is_failed[1] | is_failed[2] | is_failed[3])
    limit = min(limit, MOST)
    async with database.read() as connection:
        rows = await _rows(
            connection, _discoveries().where(*wanted).order_by(discoveries.c.id).limit(limit + 1)
        )
    listed = [_shown(row) for row in rows[:limit]]
    return listed, listed[-1]["id"] if len(rows) > limit else None


async def one_discovery(database: Database, key: int) -> dict[str, Any] | None:
    """A discovery with why it scored as it did, its podcast, and every error that there was."""
    async with database.read() as connection:
        rows = await _rows(connection, _discoveries().where(discoveries.c.id == key))
        if not rows:
            return None
        kept = select(kept_errors.c.error_column, kept_errors.c.text, kept_errors.c.kept_at)
        told = _shown(rows[0])
        rows = await _rows(
            connection,
            kept.where(kept_errors.c.discovery_id == key).order_by(kept_errors.c.kept_at).limit(MOST),
        )
        told["errors"] = [one for one in rows if one["text"] != told["error"]]
        told["review"] = await _review(connection, told["match_suggestion_id"])
        told["podcast"] = await _podcast(connection, told["media_id"])
    return told


async def page_of_podcasts(
    database: Database, after: int = 0, limit: int = 50
) -> tuple[list[dict[str, Any]], int | None]:
    """Podcasts by id, and where the next page begins."""
    limit = min(limit, MOST)
    async with database.read() as connection:
        rows = await _rows(
            connection, select(media).where(media.c.id > after).order_by(media.c.id).limit(limit + 1)
        )
    listed = [_podcast_shown(row) for row in rows[:limit]]
    return listed, listed[-1]["id"] if len(rows) > limit else None


async def one_podcast(database: Database, key: int) -> dict[str, Any] | None:
    """A podcast with its newest episodes and the campaigns that found it."""
    async with database.read() as connection:
        found = await _podcast(connection, key)
    if found is not None:
        found["discoveries"], _ = await page_of_discoveries(database, podcast=key)
    return found


async def page_of_reviews(
    database: Database, *, status: str | None = "pending", after: int = 0, limit: int = 50
) -> tuple[list[dict[str, Any]], int | None]:
    """What waits for a person, the oldest first; or what was decided."""
    limit = min(limit, MOST)
    told = (
        select(
            review_tasks,
            match_suggestions.c.score,
            match_suggestions.c.reasoning,
            match_suggestions.c.discovery_id,
            media.c.name.label("podcast"),
            campaigns.c.name.label("campaign"),
        )
        .join(match_suggestions, match_suggestions.c.id == review_tasks.c.match_suggestion_id)
        .join(media, media.c.id == match_suggestions.c.media_id)
        .join(campaigns, campaigns.c.id == review_tasks.c.campaign_id)
        .where(review_tasks.c.id > after)
        .order_by(review_tasks.c.id)
        .limit(limit + 1)
    )
    if status is not None:
        told = told.where(review_tasks.c.status == status)
    async with database.read() as connection:
        rows = await _rows(connection, told)
    return rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None


class Follower:
    """Tells when something has changed; looks once for everybody who follows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changes = Changes()

    async def run(self, loop: Loop) -> None:
        seen, number = "", 0
        while True:
            loop.beat()
            if self._changes.followed:
                now = json.dumps(await overview(self._database), default=str)
                if now != seen:
                    seen, number = now, number + 1
                    await self._changes.tell(number)
            await asyncio.sleep(POLL)

    async def changes(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """A growing number, whenever something has changed; empty as a sign of life."""
        async with aclosing(self._changes.follow(SILENCE)) as told:
            async for number in told:
                yield ("", {}) if number is None else (str(number), {"changed": number})


def _discoveries() -> Any:
    return (
        select(discoveries, media.c.name.label("name"), campaigns.c.name.label("campaign"))
        .join(media, media.c.id == discoveries.c.media_id)
        .join(campaigns, campaigns.c.id == discoveries.c.campaign_id)
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A discovery for people: the stage where it stands, and its error, which is no lock."""
    told = dict(row)
    told["criteria"] = json.loads(row["vetting_criteria_met"] or "[]")
    told["stages"] = {stage.name: row[stage.status] for stage in STAGES.values()}
    told["at"] = next(
        (f"{name} {status}" for name, status in told["stages"].items() if status != "completed"), "done"
    )
    texts = (row[stage.error] for stage in STAGES.values())
    told["error"] = next((text for text in texts if text and not text.startswith("PROCESSING:")), None)
    return told


async def _review(connection: AsyncConnection, match: int | None) -> dict[str, Any] | None:
    if match is None:
        return None
    rows = await _rows(connection, select(review_tasks).where(review_tasks.c.match_suggestion_id == match))
    return rows[0] if rows else None


async def _podcast(connection: AsyncConnection, key: int) -> dict[str, Any] | None:
    rows = await _rows(connection, select(media).where(media.c.id == key))
    if not rows:
        return None
    newest = (
        select(episodes.c.title, episodes.c.summary, episodes.c.published_at, episodes.c.seconds)
        .where(episodes.c.media_id == key)
        .order_by(episodes.c.published_at.desc().nulls_last(), episodes.c.id)
        .limit(10)
    )
    return {**_podcast_shown(rows[0]), "episodes": await _rows(connection, newest)}


def _podcast_shown(row: dict[str, Any]) -> dict[str, Any]:
    return dict(row) | {name: json.loads(row[name]) for name in ("categories", "host_names", "quality_parts")}


async def _rows(connection: AsyncConnection, statement: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in (await connection.execute(statement)).mappings()]
