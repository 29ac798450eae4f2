"""Rows a second through claim, work and finish, in both forms, beside the note's own SQL run by hand in the same run.

The work itself is nothing, so that what is measured is the way around it. The hand-written loop runs on a copy of the table
that has no guards and no triggers, as the note's would be; it acquires 20 rows, as the note says, and ends
each by itself, or all of them in one statement.
"""

import statistics
import time
import uuid
from typing import Any

import asyncpg

from appkit import commands as kit
from outreach.forms import Form
from outreach.metrics import Metrics
from outreach.opening import Purpose, opened
from outreach.service import prepared
from outreach.settings import Settings
from outreach.stages import AI_DESCRIPTION, ENRICHMENT, VETTING
from outreach.storm_rows import fill
from raceproof import Claim, Worker, sql
from raceproof.testing import postgres

ROUNDS = 3
HAND = "the note's SQL by hand"
TOGETHER = "the same, 20 ended together"
BY_HAND = """
WITH candidates AS (
    SELECT id FROM by_hand
    WHERE vetting_status = 'pending'
      AND (vetting_error IS NULL OR vetting_error NOT LIKE 'PROCESSING:%')
    ORDER BY id
    LIMIT 20
    FOR UPDATE SKIP LOCKED
)
UPDATE by_hand SET vetting_error = $1, updated_at = now()
FROM candidates WHERE by_hand.id = candidates.id
RETURNING by_hand.id
"""
END_BY_HAND = """
UPDATE by_hand
SET vetting_status = 'completed', vetting_score = $2, vetting_error = NULL, vetted_at = now(), updated_at = now()
WHERE id = $1
"""


END_TOGETHER = """
UPDATE by_hand
SET vetting_status = 'completed', vetting_score = $2, vetting_error = NULL, vetted_at = now(), updated_at = now()
WHERE id = ANY ($1)
"""


async def measure(rows: int, output: str) -> int:
    """Print the median of a few rounds of each, taken in turns."""
    figures: dict[str, list[float]] = {name: [] for name in (HAND, TOGETHER, "in columns", "in markers")}
    with postgres() as server:
        url = server.database()
        await _prepare(url, rows)
        for _ in range(ROUNDS):
            figures[HAND].append(rows / await _by_hand(url, together=False))
            figures[TOGETHER].append(rows / await _by_hand(url, together=True))
            figures["in columns"].append(rows / await _ours(url, Form.COLUMNS))
            figures["in markers"].append(rows / await _ours(url, Form.MARKER))
    kit.show(
        [
            {
                "loop": name,
                "rows a second": round(statistics.median(found)),
                "rounds": [round(one) for one in found],
            }
            for name, found in figures.items()
        ],
        output,
    )
    return kit.OK


async def _prepare(url: str, rows: int) -> None:
    async with prepared(Settings(database=url), Metrics(), Purpose.MIGRATE) as service:
        await fill(service, rows, 1)
        for stage in (ENRICHMENT, AI_DESCRIPTION):
            await service.database.store.move_many(stage.move("share"), where=sql("TRUE"))
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE by_hand AS SELECT * FROM campaign_media_discoveries")
    await connection.execute("ALTER TABLE by_hand ADD PRIMARY KEY (id)")
    await connection.execute("CREATE INDEX ON by_hand (id) WHERE vetting_status IN ('pending', 'in_progress')")
    await connection.close()


async def _by_hand(url: str, together: bool) -> float:
    connection = await asyncpg.connect(url)
    await connection.execute("UPDATE by_hand SET vetting_status = 'pending', vetting_score = NULL")
    await connection.execute("VACUUM ANALYZE by_hand")
    started = time.perf_counter()
    while found := await connection.fetch(BY_HAND, f"PROCESSING:VETTING:{uuid.uuid4()}:{time.time()}"):
        if together:
            await connection.execute(END_TOGETHER, [row["id"] for row in found], 50.0)
            continue
        for row in found:
            await connection.execute(END_BY_HAND, row["id"], 50.0)
    seconds = time.perf_counter() - started
    await connection.close()
    return seconds


async def _ours(url: str, form: Form) -> float:
    connection = await asyncpg.connect(url)
    # back to the start, past the guards: the recorded way would be measured as well
    await connection.execute("ALTER TABLE campaign_media_discoveries DISABLE TRIGGER USER")
    await connection.execute("UPDATE campaign_media_discoveries SET vetting_status = 'pending', vetting_attempts = 0")
    await connection.execute("ALTER TABLE campaign_media_discoveries ENABLE TRIGGER USER")
    await connection.execute("VACUUM ANALYZE campaign_media_discoveries")
    await connection.close()

    async def work(claim: Claim[Any, Any]) -> dict[str, Any]:
        return {"vetting_score": 50.0}

    settings = Settings(database=url, form=form)
    async with opened(settings, Purpose.WORK) as found:
        worker = Worker(
            found.database.store,
            found.claiming.of(VETTING),
            work,
            finish=VETTING.move("finish"),
            parallel=VETTING.parallel,
        )
        started = time.perf_counter()
        await worker.run(until_idle=True)
        return time.perf_counter() - started
