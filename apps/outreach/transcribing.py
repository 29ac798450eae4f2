"""Transcripts that feeds name (`podcast:transcript`): fetched by two workers at most over all processes, kept as text.

Where a feed has no summary of an episode, the AI is given the beginning of its transcript instead.
"""

import asyncio
import logging
import re
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database
from outreach.feeds import Feed, without_tags
from outreach.fetching import Fetcher, NoNetwork, NotFetched
from outreach.lifecycle import Transcription
from outreach.pauses import Pauses
from outreach.settings import Settings
from outreach.tables import episodes
from raceproof import AsyncStore, Claim, ConcurrencyLimit, Worker
from raceproof.run import Failure, Finished

log = logging.getLogger("outreach.transcribing")

TASK = "transcription_pipeline"
AT_ONCE = 2
_BESIDE = re.compile(r"WEBVTT|NOTE\b|\d{1,9}$|[\d:.,]{1,30}\s{0,9}-->")
EVERY = 1800.0
LONGEST = 200_000


async def want_transcripts(connection: AsyncConnection, store: AsyncStore, media_id: int, feed: Feed) -> None:
    """Episodes whose feed names a transcript wait for it from now on; those that have it, or failed, stay as they are."""
    named = {one.guid: one.transcript_url for one in feed.episodes if one.transcript_url}
    if not named:
        return
    found = await connection.execute(
        select(episodes.c.id, episodes.c.guid).where(episodes.c.media_id == media_id, episodes.c.guid.in_(list(named)))
    )
    wanted = {key: {"transcript_url": named[guid]} for key, guid in found}
    await store.move_many(Transcription.want, wanted)


def transcriber(database: Database, settings: Settings, fetcher: Fetcher) -> Worker:
    """The loop that fetches them."""
    pauses = Pauses(database, "feeds", settings.ai_pause)

    async def fetch(work: Claim[Any, Any]) -> Any:
        try:
            body = await fetcher.get(work.row["transcript_url"])
        except NoNetwork as error:
            await pauses.failed("network", str(error))
            raise Failure(str(error), counted=False) from None
        except NotFetched as error:
            await _failed(database, work, str(error))
            return Finished
        text = await asyncio.to_thread(plain, body.decode(errors="replace"))
        return {"transcript": text, "transcription_error": None}

    return Worker(
        database.store,
        Transcription.transcribe,
        fetch,
        finish=Transcription.finish,
        by=settings.instance,
        parallel=3,
        max_batch=settings.batch,
        timeout=settings.item_timeout,
        batch_timeout=settings.batch_timeout,
        poll=settings.poll,
        drain=settings.drain,
        returning=["transcript_url"],
        limit=ConcurrencyLimit(TASK, AT_ONCE, settings.slot),
    )


async def _failed(database: Database, work: Claim[Any, Any], error: str) -> None:
    async with database.transaction() as (connection, store):
        [answer] = await store.fail(work, reason=error[:500])
        if answer.won:
            told = update(episodes).where(episodes.c.id == work.key)
            await connection.execute(told.values(transcription_error=error[:2000]))
    log.warning("[%s] episode %s, attempt %d: %s", TASK, work.key, work.attempt, error)


def plain(text: str) -> str:
    """What is said, without the times and numbers of WebVTT and SubRip."""
    lines = (line.strip() for line in text.replace("\0", " ").splitlines())
    said = [line for line in lines if line and not _BESIDE.match(line[:100])]
    return " ".join(without_tags(" ".join(said)[: 2 * LONGEST]).split())[:LONGEST]
