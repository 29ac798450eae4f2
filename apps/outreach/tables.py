"""The tables, as far as the application reads them or adds rows; every change of a status is a decision of raceproof."""

from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, Moment
from appkit.migrating import OwnTables, guards
from outreach import triggers
from outreach.forms import Form
from outreach.lifecycle import STALE, TABLE, Review, StageSwitch, Transcription
from outreach.stages import STAGES, Layout
from raceproof import Lease, ddl
from raceproof.run import Schedules

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
    *_text("name", "keywords", "ideal_podcast_description", "language"),
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
discovery_stages = Table(
    "discovery_stages",
    metadata,
    _key(),
    *_numbers("campaign_id", "media_id", "match_suggestion_id"),
    *_text("discovery_keyword", "review_status", "vetting_reasoning", "vetting_criteria_met"),
    *_text("topic_match_analysis", "enrichment_error", "vetting_error", "matching_error"),
    *_text(*(stage.status for stage in STAGES.values())),
    *_numbers(*(f"{name}_attempts" for name in STAGES)),
    *_moments("discovered_at", "created_at", "updated_at", "enrichment_completed_at", "vetted_at"),
    Column("vetting_score", Float),
    Column("match_created", Boolean),
)
"""A view: each discovery with what every stage has come to, in both layouts."""
stage_attempts = Table(
    "stage_attempts",
    metadata,
    *_text("stage", "error"),
    *_numbers("subject_id", "attempts"),
    *_moments("rests_until"),
)
error_texts = Table(
    "error_texts",
    metadata,
    _key(),
    *_numbers("discovery_id"),
    *_text("error_column", "text"),
    *_moments("kept_at"),
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
    *_text("state", "changed_by", "reason", "asks"),
    *_moments("changed_at"),
)
pauses = Table(
    "pauses",
    metadata,
    *_text("name", "kind", "reason"),
    *_numbers("failures", "times"),
    *_moments("since", "until"),
)
outreach_facts = Table("outreach_facts", metadata, *_text("name", "value"))
ai_budget = Table("ai_budget", metadata, *_text("name"), *_numbers("spent", "calls"), Column("next_at", Float))
ai_calls = Table(
    "ai_calls",
    metadata,
    _key(),
    *_text("intent", "kind", "stage", "model", "made_by", "outcome", "currency", "message"),
    *_numbers("campaign_id", "media_id", "discovery_id", "tokens_in", "tokens_out", "cost"),
    *_moments("began_at", "doubted_at", "ended_at"),
)
ai_answers = Table(
    "ai_answers",
    metadata,
    *_text("intent", "subject", "text", "finish", "refusal", "unusable"),
    *_moments("stored_at"),
)
history = Table(
    "outreach_history",
    metadata,
    Column("id", BigInteger, primary_key=True),
    *_text("lifecycle", "key", "move", "outcome", "before", "after", "actor", "reason"),
    *_moments("at"),
)


def upsert(of: Database | AsyncConnection, table: Any) -> Any:
    """INSERT … ON CONFLICT of the dialect."""
    name = of.dialect if isinstance(of, Database) else of.dialect.name
    return (sqlite if name == "sqlite" else postgresql).insert(table)


def own_tables(
    form: Form,
    stale: float = STALE,
    layout: Layout = Layout.OWN,
    theirs: frozenset[str] = frozenset(),
) -> OwnTables:
    """The library's tables, indexes and guards, and triggers that keep error texts; nothing on tables that are theirs."""

    def statements(dialect: Any) -> list[str]:
        guarded = [one.spec for one in (Review, StageSwitch, Transcription) if one.spec.table not in theirs]
        found = [
            *ddl(Review, Schedules(), Lease("any"), dialect=dialect, only="tables"),
            *guards(*guarded, dialect=dialect),
        ]
        if Transcription.spec.table not in theirs:
            found += ddl(Transcription, dialect=dialect, only="indexes")
        if layout is Layout.ADOPTED:
            return found
        # the same rows are looked for in both forms, so one index serves both
        found += ddl(*(stage.columns for stage in STAGES.values()), dialect=dialect, only="indexes")
        found += guards(*(stage.lifecycle for stage in STAGES.values()), dialect=dialect)
        found += triggers.keeping(dialect)
        return found + list(triggers.passing_over(dialect, stale)) if form is Form.COLUMNS else found

    return statements
