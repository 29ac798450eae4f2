"""The stages over the note's own table, which has no column of ours: `migrate` leaves it as it is.

Two of the stages have no status there. A description is wanted where enrichment is completed and the podcast has none; a
match, where vetting is completed, the score is high enough and none was made. Their claims are texts in the error
columns, and rows stay at their status. Attempts and backoff are in `stage_attempts` beside the table, counted by
`attempts.py` before anything is paid. The note's own code may work on the same rows: whatever it holds or has in progress
is left alone.
"""

from outreach.lifecycle import COMPLETED, FAILED, IN_PROGRESS, PENDING, STALE, TABLE, Progress, not_paused
from raceproof import Lifecycle, claimable, move, sql
from raceproof.claims import TextMarker


class AdoptedEnrichment(Lifecycle[Progress], table=TABLE, key="id", column="enrichment_status", terminal=()):
    """Enrichment, and the description that follows it without a status of its own."""

    start = move(PENDING, to=IN_PROGRESS, stamp="updated_at")
    back = move(IN_PROGRESS, to=PENDING, stamp="updated_at")
    finish = move(
        IN_PROGRESS,
        to=COMPLETED,
        stamp=("enrichment_completed_at", "updated_at"),
        sets="enrichment_error",
    )
    share = move(PENDING, to=COMPLETED, stamp=("enrichment_completed_at", "updated_at"), sets="enrichment_error")
    give_up = move(PENDING, IN_PROGRESS, to=FAILED, stamp="updated_at", sets="enrichment_error")
    again = move(FAILED, to=PENDING, stamp="updated_at")
    anew = move(COMPLETED, to=PENDING, stamp="updated_at")

    enrichment = claimable(
        start,
        form=TextMarker("enrichment_error", "ENRICHMENT"),
        lease=STALE,
        back=back,
        ordering_key="media_id",
        where=[sql(not_paused("enrichment"))],
    )
    ai_description = claimable(
        at=COMPLETED,
        form=TextMarker("enrichment_error", "AI_DESC"),
        lease=STALE,
        ordering_key="media_id",
        where=[
            sql(not_paused("ai_description")),
            sql("EXISTS (SELECT 1 FROM media WHERE media.id = t.media_id AND COALESCE(media.ai_description, '') = '')"),
        ],
    )


class AdoptedVetting(Lifecycle[Progress], table=TABLE, key="id", column="vetting_status", terminal=()):
    """Vetting, and the match that follows it without a status of its own."""

    start = move(PENDING, to=IN_PROGRESS, stamp="updated_at")
    back = move(IN_PROGRESS, to=PENDING, stamp="updated_at")
    finish = move(
        IN_PROGRESS,
        to=COMPLETED,
        stamp=("vetted_at", "updated_at"),
        sets=(
            "vetting_score",
            "vetting_reasoning",
            "vetting_criteria_met",
            "topic_match_analysis",
            "vetting_error",
        ),
    )
    elsewhere = move(PENDING, to=COMPLETED, stamp=("vetted_at", "updated_at"))
    give_up = move(PENDING, IN_PROGRESS, to=FAILED, stamp="updated_at", sets="vetting_error")
    again = move(FAILED, to=PENDING, stamp="updated_at")
    anew = move(COMPLETED, to=PENDING, stamp="updated_at")

    vetting = claimable(
        start,
        form=TextMarker("vetting_error", "VETTING"),
        lease=STALE,
        back=back,
        where=[
            sql(not_paused("vetting")),
            sql("t.enrichment_status = 'completed'"),
            sql("EXISTS (SELECT 1 FROM media WHERE media.id = t.media_id AND media.ai_description <> '')"),
            sql(
                "EXISTS (SELECT 1 FROM campaigns WHERE campaigns.id = t.campaign_id"
                " AND campaigns.ideal_podcast_description <> '')"
            ),
        ],
    )
    matching = claimable(
        at=COMPLETED,
        form=TextMarker("vetting_error", "MATCHING"),
        lease=STALE,
        where=[
            sql(not_paused("matching")),
            sql("t.vetting_score >= 50 AND NOT COALESCE(t.match_created, FALSE)"),
        ],
    )
