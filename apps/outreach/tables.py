"""The tables, as far as the application reads them or adds rows; every change of a status is a decision of raceproof."""

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, MetaData, String, Table

from appkit.database import Moment, OwnTables
from outreach import triggers
from outreach.forms import Form
from outreach.lifecycle import TABLE, Review, StageSwitch, Transcription
from outreach.stages import STAGES
from raceproof import claim_index_ddl, guard_ddl, history_ddl, lease_ddl, schedule_ddl

metadata = MetaData()


def _key() -> Column[int]:
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def _text(*names: str) -> list[Column[str]]:
    return [Column(name, String) for name in names]


def _moments(*names: str) -> list[Column[Any]]:
    return [Column(name, Moment) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger) for name in names]


campaigns = Table(
    "campaigns",
    metadata,
    _key(),
    *_text("name", "keywords", "ideal_podcast_description"),
    *_moments("created_at"),
)
media = Table(
    "media",
    metadata,
    _key(),
    *_text("rss_url", "name", "description", "website", "language", "categories", "host_names"),
    *_text("quality_parts", "ai_description", "ai_described_by"),
    *_numbers("audience", "social", "episode_count"),
    Column("quality_score", Float),
    *_moments("latest_episode_at", "enriched_at", "ai_described_at", "created_at", "updated_at"),
)
episodes = Table(
    "episodes",
    metadata,
    _key(),
    *_numbers("media_id", "seconds"),
    *_text("guid", "title", "summary", "transcript_url", "transcript"),
    *_text("transcription_status", "transcription_error"),
    *_moments("published_at"),
)
stored_feeds = Table(
    "stored_feeds",
    metadata,
    Column("url", String, primary_key=True),
    Column("body", LargeBinary),
    *_moments("stored_at"),
)
discoveries = Table(
    TABLE,
    metadata,
    _key(),
    *_numbers("campaign_id", "media_id", "match_suggestion_id"),
    *_text("discovery_keyword", "enrichment_error", "vetting_error", "matching_error", "review_status"),
    *_text(*(stage.status for stage in STAGES.values())),
    *_text("vetting_reasoning", "vetting_criteria_met", "topic_match_analysis"),
    *_moments("discovered_at", "created_at", "updated_at", "enrichment_completed_at", "vetted_at"),
    *_moments(*(f"{name}_rests_until" for name in STAGES)),
    *_numbers(*(f"{name}_attempts" for name in STAGES)),
    Column("vetting_score", Float),
    Column("match_created", Boolean),
)
kept_errors = Table(
    "kept_errors", metadata, *_numbers("discovery_id"), *_text("error_column", "text"), *_moments("kept_at")
)
match_suggestions = Table(
    "match_suggestions",
    metadata,
    _key(),
    *_numbers("campaign_id", "media_id", "discovery_id"),
    Column("score", Float),
    *_text("reasoning"),
    *_moments("created_at"),
)
review_tasks = Table(
    "review_tasks",
    metadata,
    _key(),
    *_numbers("match_suggestion_id", "campaign_id"),
    *_text("status", "decided_by", "decided_because"),
    *_moments("decided_at", "created_at"),
)
stages = Table(
    "stages",
    metadata,
    Column("name", String, primary_key=True),
    *_text("state", "changed_by", "reason"),
    *_moments("changed_at"),
)
ai_budget = Table("ai_budget", metadata, *_text("name"), *_numbers("spent", "calls"))
history = Table(
    "outreach_history",
    metadata,
    Column("id", BigInteger, primary_key=True),
    *_text("lifecycle", "key", "move", "outcome", "before", "after", "actor", "reason"),
    *_moments("at"),
)


def own_tables(form: Form) -> OwnTables:
    """The library's tables, indexes and guards, and the triggers that keep error texts."""

    def ddl(dialect: str) -> list[str]:
        found = [
            history_ddl(Review.spec, dialect),  # type: ignore[arg-type]
            schedule_ddl(dialect),
            lease_ddl(dialect),
            # the same rows are looked for in both forms, so one index serves both
            *(claim_index_ddl(stage.columns, dialect) for stage in STAGES.values()),  # type: ignore[arg-type]
            *(guard_ddl(stage.lifecycle, dialect) for stage in STAGES.values()),  # type: ignore[arg-type]
            claim_index_ddl(Transcription.transcribe, dialect),  # type: ignore[arg-type]
            *(guard_ddl(one.spec, dialect) for one in (Review, StageSwitch, Transcription)),  # type: ignore[arg-type]
            *triggers.keeping(dialect),
        ]
        return found + list(triggers.passing_over(dialect)) if form is Form.COLUMNS else found

    return ddl
