"""One podcast, paid for twice: a lock on the order instead of on the product."""

import asyncio
from contextlib import suppress
from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Lifecycle, claimable, move
from raceproof.claims import TextMarker
from raceproof.testing.explorer import Connection, Effect, World
from raceproof.testing.explorer.ground import Tables

EXHIBIT = Exhibit(
    title="The text that changes after it was approved",
    story=(
        "Two customers find the same podcast, and a language model is asked to describe it. The first customer reads "
        "the description and approves it. A minute later the text is another one, and the model was paid twice."
    ),
    follows=(
        "a field note, “Race condition protection”: the atomic batch over the discoveries, the marker in the error "
        "column, the release in any case, the clean-up. A batch is one row here, so that it is not too easy: a batch "
        "of 20 would hold both rows of the podcast by itself."
    ),
    quoted="""\
WITH candidates AS (
    SELECT id FROM campaign_media_discoveries
    WHERE status = 'pending'
    AND (lock_field IS NULL OR lock_field NOT LIKE 'PROCESSING:%')
    LIMIT 20
    FOR UPDATE SKIP LOCKED  -- Key: Skip rows locked by other workers
)
UPDATE campaign_media_discoveries
SET lock_field = 'PROCESSING:TYPE:UUID:TIMESTAMP'
FROM candidates
WHERE campaign_media_discoveries.id = candidates.id
RETURNING *;

- Always releases locks (success or failure)
- 45-minute timeout protection""",
    right=(
        "Taking work is right: the condition is in the write, and no two workers get the same row at the same moment. "
        "(SQLite has one writer at a time and needs no SKIP LOCKED.) The time-out of 45 minutes is shorter than the "
        "clean-up after 60, which keeps a worker that is merely slow away from a row that was given to another."
    ),
    schedule="worker-1*2 worker-2*5 worker-1*2",
    why=(
        "The lock is on the discovery, one for each customer, but what is made belongs to the podcast: two locks, one "
        "product."
    ),
    answer=(
        "Claim what you produce: the row of the podcast. The marker is the note's own, in the error column that is "
        "there already, so no migration is needed; and the write of the result names the marker, so that a worker "
        "which was given up cannot write over the result of its successor. Not promised: that the model is paid only "
        "once when a worker dies."
    ),
)


# gallery: stage
def stage(world: World) -> Effect:
    """A podcast without a description, which two campaigns have found; and a model that never says the same twice."""
    world.sql("""
        CREATE TABLE media (id INTEGER PRIMARY KEY, status TEXT, ai_description TEXT, ai_error TEXT);
        INSERT INTO media (id, status) VALUES (7, 'new');
        CREATE TABLE campaign_media_discoveries
            (id INTEGER PRIMARY KEY, campaign_id TEXT, media_id INTEGER, enrichment_error TEXT, updated_at TEXT);
        INSERT INTO campaign_media_discoveries (id, campaign_id, media_id) VALUES (1, 'ann', 7), (2, 'bob', 7)
    """)
    world.horizon = 2 * 3600  # seconds; a lock lasts for one hour
    model = world.effect("ask-the-model", lambda calls: f"text {len(calls)}")

    def stays(before: Tables, after: Tables) -> object:
        [old], [new] = before["media"], after["media"]
        return old["ai_description"] in (None, new["ai_description"])

    world.change("a description that is there stays as it is", stays)
    return model


# gallery: naive
async def acquire_ai_description_work_batch(db: Connection, uuid: str) -> list[tuple[int, int]]:
    rows = await db.execute(
        """
        UPDATE campaign_media_discoveries
        SET enrichment_error = 'PROCESSING:AI_DESC:' || ? || ':' || unixepoch('now'), updated_at = datetime('now')
        WHERE id IN (
            SELECT d.id FROM campaign_media_discoveries AS d JOIN media AS m ON m.id = d.media_id
            WHERE m.ai_description IS NULL
              AND (d.enrichment_error IS NULL OR d.enrichment_error NOT LIKE 'PROCESSING:%')
            LIMIT 1
        )
        RETURNING id, media_id
        """,
        uuid,
    )
    return [(discovery, media) for discovery, media in rows]


async def release_ai_description_lock(db: Connection, discovery: int) -> None:
    await db.execute("UPDATE campaign_media_discoveries SET enrichment_error = NULL WHERE id = ?", discovery)


def naive(world: World) -> None:
    model = stage(world)

    async def process_discovery(db: Connection, discovery: int, media: int) -> None:
        try:
            text = await model(media)
            await db.execute("UPDATE media SET ai_description = ? WHERE id = ?", text, media)
        finally:
            await release_ai_description_lock(db, discovery)

    @world.process(times=2)
    async def worker(db: Connection) -> None:
        batch = await acquire_ai_description_work_batch(db, "uuid")
        tasks = [process_discovery(db, discovery, media) for discovery, media in batch]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=45 * 60)


# gallery: guarded
class Status(StrEnum):
    NEW = "new"
    DESCRIBED = "described"


class Podcast(Lifecycle[Status], table="media"):
    describe = move(Status.NEW, to=Status.DESCRIBED, sets="ai_description")

    work = claimable(at=[Status.NEW], lease=3600, form=TextMarker("ai_error", "AI_DESC"))


def guarded(world: World) -> None:
    model = stage(world)

    @world.process(times=2)
    async def worker(db: Connection) -> None:
        for mine in await db.claim(Podcast.work, 20):
            text = await model(mine.key)
            await db.move(Podcast.describe, mine, set={"ai_description": text})

    world.sometimes("described by a second worker", lambda moment: len(moment.calls(model)) > 1)


# gallery: end
