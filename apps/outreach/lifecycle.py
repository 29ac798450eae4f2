"""What may happen to a discovery (a podcast that a campaign has found): the whole machine, in one file.

Each stage has a status column of its own and a claim in two forms: a text in the error column that is there already,
`PROCESSING:AI_DESC:<uuid>:<seconds>`, and columns of its own. Both forms make the same moves, and a stage that is done
leaves no text in its error column. Enrichment and description are
work for the podcast, not for the campaign: the discoveries of one podcast stand in one line, so it is done once (B7).
"""

from enum import StrEnum
from typing import Any

from raceproof import Backoff, Lifecycle, claimable, move, sql
from raceproof.claims import ClaimColumns, TextMarker
from raceproof.declare import Claimable, History, Move

TABLE = "campaign_media_discoveries"
HISTORY = History("outreach_history", losers=True)

STALE = 3600.0
"""Seconds after which a marker counts as left behind, unless settings say otherwise; more than the cap of a batch."""
LEASE = 60.0
"""Seconds of a claim in columns, which its worker renews."""
ATTEMPTS = 5
BATCH = 20
"""Rows that are acquired together."""
REST = Backoff(30.0, 3600.0)
"""How long a row backs off after a failure, unless settings say otherwise: twice as long each time."""


class Progress(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


PENDING, IN_PROGRESS, COMPLETED, FAILED = Progress


def not_paused(stage: str) -> str:
    """Neither a person nor the provider's failures have paused it, by the store's clock."""
    return f"NOT EXISTS (SELECT 1 FROM paused_stages WHERE paused_stages.stage = '{stage}')"  # noqa: S608


def _both_forms(
    stage: str,
    marker: TextMarker,
    start: Move[Progress],
    back: Move[Progress],
    give_up: Move[Progress],
    *where: str,
    ordering_key: str | None = None,
) -> tuple[Claimable[Progress], Claimable[Progress]]:
    """The claim of a stage as a marker and as columns; a stage that is paused gives out nothing."""
    running = not_paused(stage)
    common: dict[str, Any] = {
        "back": back,
        "dead_letter": give_up,
        "attempts": f"{stage}_attempts",
        "max_attempts": ATTEMPTS,
        "not_before": f"{stage}_rests_until",
        "backoff": REST,
        "ordering_key": ordering_key,
        "where": [sql(running), *(sql(one) for one in where)],
    }
    columns = ClaimColumns(f"{stage}_claimed_by", f"{stage}_claimed_until", f"{stage}_fence")
    return claimable(start, form=marker, lease=STALE, **common), claimable(start, form=columns, lease=LEASE, **common)


class Enrichment(Lifecycle[Progress], table=TABLE, key="id", column="enrichment_status", terminal=(COMPLETED,)):
    """The feed is read: who hosts, how often, how good."""

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
    give_up_too = move(PENDING, to=FAILED, stamp="updated_at", sets="enrichment_error")
    again = move(FAILED, to=PENDING, stamp="updated_at", sets=("enrichment_attempts", "enrichment_rests_until"))

    enrichment_marker, enrichment = _both_forms(
        "enrichment",
        TextMarker("enrichment_error", "ENRICHMENT"),
        start,
        back,
        give_up,
        ordering_key="media_id",
    )


class Description(Lifecycle[Progress], table=TABLE, key="id", column="ai_description_status", terminal=(COMPLETED,)):
    """The podcast is described in at most 200 words."""

    start = move(PENDING, to=IN_PROGRESS, stamp="updated_at")
    back = move(IN_PROGRESS, to=PENDING, stamp="updated_at")
    finish = move(IN_PROGRESS, to=COMPLETED, stamp="updated_at", sets="enrichment_error")
    share = move(PENDING, to=COMPLETED, stamp="updated_at", sets="enrichment_error")
    give_up = move(PENDING, IN_PROGRESS, to=FAILED, stamp="updated_at", sets="enrichment_error")
    give_up_too = move(PENDING, to=FAILED, stamp="updated_at", sets="enrichment_error")
    again = move(FAILED, to=PENDING, stamp="updated_at", sets=("ai_description_attempts", "ai_description_rests_until"))

    ai_description_marker, ai_description = _both_forms(
        "ai_description",
        TextMarker("enrichment_error", "AI_DESC"),
        start,
        back,
        give_up,
        "t.enrichment_status = 'completed'",
        ordering_key="media_id",
    )


class Vetting(Lifecycle[Progress], table=TABLE, key="id", column="vetting_status", terminal=(COMPLETED,)):
    """The podcast is measured against what the campaign wants."""

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
    """As the note's own code ends it, which claims by a text alone and leaves the row pending."""
    give_up = move(PENDING, IN_PROGRESS, to=FAILED, stamp="updated_at", sets="vetting_error")
    again = move(FAILED, to=PENDING, stamp="updated_at", sets=("vetting_attempts", "vetting_rests_until"))

    vetting_marker, vetting = _both_forms(
        "vetting",
        TextMarker("vetting_error", "VETTING"),
        start,
        back,
        give_up,
        "t.ai_description_status = 'completed'",
        "EXISTS (SELECT 1 FROM campaigns WHERE campaigns.id = t.campaign_id"
        " AND campaigns.ideal_podcast_description <> '')",
    )


class Matching(Lifecycle[Progress], table=TABLE, key="id", column="matching_status", terminal=(COMPLETED,)):
    """A score of 50 or more becomes a match, and a task for a person to review it."""

    start = move(PENDING, to=IN_PROGRESS, stamp="updated_at")
    back = move(IN_PROGRESS, to=PENDING, stamp="updated_at")
    finish = move(
        IN_PROGRESS,
        to=COMPLETED,
        stamp="updated_at",
        sets=("match_created", "match_suggestion_id", "review_status", "matching_error"),
    )
    give_up = move(PENDING, IN_PROGRESS, to=FAILED, stamp="updated_at", sets="matching_error")
    again = move(FAILED, to=PENDING, stamp="updated_at", sets=("matching_attempts", "matching_rests_until"))

    matching_marker, matching = _both_forms(
        "matching",
        TextMarker("matching_error", "MATCHING"),
        start,
        back,
        give_up,
        "t.vetting_status = 'completed'",
    )


class Transcript(StrEnum):
    NONE = "none"
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class Transcription(
    Lifecycle[Transcript],
    table="episodes",
    key="id",
    column="transcription_status",
    terminal=(Transcript.COMPLETED, Transcript.FAILED),
):
    """A transcript that a feed names is fetched; an episode without one needs nothing."""

    want = move(Transcript.NONE, to=Transcript.PENDING, sets="transcript_url")
    start = move(Transcript.PENDING, to=Transcript.IN_PROGRESS)
    back = move(Transcript.IN_PROGRESS, to=Transcript.PENDING)
    finish = move(Transcript.IN_PROGRESS, to=Transcript.COMPLETED, sets=("transcript", "transcription_error"))
    give_up = move(Transcript.PENDING, Transcript.IN_PROGRESS, to=Transcript.FAILED)

    transcribe = claimable(
        start,
        lease=LEASE,
        attempts="attempts",
        max_attempts=ATTEMPTS,
        not_before="rests_until",
        backoff=REST,
        back=back,
        dead_letter=give_up,
        where=sql(not_paused("transcription")),
    )


class Verdict(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"


class Review(
    Lifecycle[Verdict],
    table="review_tasks",
    key="id",
    terminal=(Verdict.APPROVED, Verdict.REJECTED),
    history=HISTORY,
):
    """A person decides about a match, once."""

    approve = move(Verdict.PENDING, to=Verdict.APPROVED, stamp="decided_at", sets=("decided_by", "decided_because"))
    reject = move(Verdict.PENDING, to=Verdict.REJECTED, stamp="decided_at", sets=("decided_by", "decided_because"))


class Switch(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"


class StageSwitch(Lifecycle[Switch], table="stages", key="name", column="state", terminal=(), history=HISTORY):
    """A stage can be paused; what it holds is finished, and nothing more is begun."""

    pause = move(Switch.RUNNING, to=Switch.PAUSED, stamp="changed_at", sets=("changed_by", "reason"))
    resume = move(Switch.PAUSED, to=Switch.RUNNING, stamp="changed_at", sets=("changed_by", "reason"))
