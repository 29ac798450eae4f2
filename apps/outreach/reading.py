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
from outreach.lenient import criteria_in, hosts_in, words_in
from outreach.pauses import Pause, current_pause
from outreach.stages import STAGES
from outreach.tables import (
    ai_budget,
    ai_calls,
    campaigns,
    discoveries,
    discovery_stages,
    episodes,
    error_texts,
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
        paused = {name: await current_pause(connection, name) for name in ("ai", "feeds")}
        told = []
        for stage in STAGES.values():
            column = discovery_stages.c[stage.status]
            counted = await connection.execute(select(column, func.count()).group_by(column))
            told.append(
                {
                    "stage": stage.name,
                    "counts": {str(one[0]): int(one[1]) for one in counted},
                    **_switch(switches[stage.name], paused.get(stage.asks)),
                }
            )
        numbers = {
            name: (await connection.execute(select(func.count()).select_from(table))).scalar_one()
            for name, table in (("campaigns", campaigns), ("podcasts", media), ("matches", match_suggestions))
        }
        waiting = select(func.count()).where(review_tasks.c.status == "pending")
        numbers["reviews"] = (await connection.execute(waiting)).scalar_one()
        budget = (await _rows(connection, select(ai_budget)))[0]
        last = select(ai_calls.c.currency).order_by(ai_calls.c.id.desc()).limit(1)
        currency = (await connection.execute(last)).scalar_one_or_none() or ""
    return {
        "stages": told,
        "numbers": numbers,
        "spent": budget["spent"] / 1_000_000,
        "currency": currency,
        "calls": budget["calls"],
    }


def _switch(row: dict[str, Any], pause: Pause | None) -> dict[str, Any]:
    """Paused by a person until a person resumes it, or after failures until a moment."""
    if row["state"] == "paused":
        return {"paused": True, "changed_by": row["changed_by"], "reason": row["reason"], "until": None}
    if pause is not None:
        who = "the budget" if pause.kind == "budget" else "the AI" if pause.name == "ai" else "the network"
        return {"paused": True, "changed_by": who, "reason": pause.reason, "until": pause.until}
    return {"paused": False, "changed_by": None, "reason": None, "until": None}


async def calls(database: Database, limit: int = 50) -> list[dict[str, Any]]:
    """The latest AI calls, with what each has cost and for what."""
    async with database.read() as connection:
        rows = await _rows(connection, select(ai_calls).order_by(ai_calls.c.id.desc()).limit(min(limit, MOST)))
    return [{**row, "cost": row["cost"] / 1_000_000} for row in rows]


async def all_campaigns(database: Database) -> list[dict[str, Any]]:
    """Campaigns with how many podcasts they have found, and how many of these are matches."""
    found = select(func.count()).where(discoveries.c.campaign_id == campaigns.c.id).scalar_subquery()
    matched = select(func.count()).where(match_suggestions.c.campaign_id == campaigns.c.id).scalar_subquery()
    async with database.read() as connection:
        rows = await _rows(
            connection,
            select(campaigns, found.label("podcasts"), matched.label("matches")).order_by(campaigns.c.id).limit(MOST),
        )
    return [{**row, "keywords": words_in(row["keywords"])} for row in rows]


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
    wanted: list[ColumnElement[bool]] = [discovery_stages.c.id > after]
    if campaign is not None:
        wanted.append(discovery_stages.c.campaign_id == campaign)
    if podcast is not None:
        wanted.append(discovery_stages.c.media_id == podcast)
    if failed:
        is_failed = [discovery_stages.c[stage.status] == "failed" for stage in STAGES.values()]
        wanted.append(is_failed[0] | is_failed[1] | is_failed[2] | is_failed[3])
    limit = min(limit, MOST)
    async with database.read() as connection:
        rows = await _rows(connection, _discoveries().where(*wanted).order_by(discovery_stages.c.id).limit(limit + 1))
    listed = [_shown(row) for row in rows[:limit]]
    return listed, listed[-1]["id"] if len(rows) > limit else None


async def one_discovery(database: Database, key: int) -> dict[str, Any] | None:
    """A discovery with why it scored as it did, its podcast, and every error that there was."""
    async with database.read() as connection:
        rows = await _rows(connection, _discoveries().where(discovery_stages.c.id == key))
        if not rows:
            return None
        kept = select(error_texts.c.error_column, error_texts.c.text, error_texts.c.kept_at)
        told = _shown(rows[0])
        rows = await _rows(
            connection,
            kept.where(error_texts.c.discovery_id == key).order_by(error_texts.c.kept_at).limit(MOST),
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
        rows = await _rows(connection, select(media).where(media.c.id > after).order_by(media.c.id).limit(limit + 1))
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
        select(discovery_stages, media.c.name.label("name"), campaigns.c.name.label("campaign"))
        .join(media, media.c.id == discovery_stages.c.media_id)
        .join(campaigns, campaigns.c.id == discovery_stages.c.campaign_id)
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A discovery for people: the stage where it stands, and its error, which is no lock."""
    told = dict(row)
    told["criteria"] = criteria_in(row["vetting_criteria_met"])
    told["stages"] = {stage.name: row[stage.status] for stage in STAGES.values()}
    told["at"] = next((f"{name} {status}" for name, status in told["stages"].items() if status != "completed"), "done")
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
    return dict(row) | {
        "categories": words_in(row["categories"]),
        "host_names": hosts_in(row["host_names"]),
        "quality_parts": json.loads(row["quality_parts"] or "{}"),
    }


async def _rows(connection: AsyncConnection, statement: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in (await connection.execute(statement)).mappings()]
