"""The tables, as far as the application reads them or adds rows; every change of a status is a decision of raceproof."""

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table

from appkit.database import Moment
from appkit.migrating import guards
from imagebot.lifecycle import Job, TopUp, Watch, callbacks, notices, updates
from raceproof import Lease, ddl
from raceproof.run import Schedules

metadata = MetaData()


def _text(*names: str) -> list[Column[str]]:
    return [Column(name, String) for name in names]


def _moments(*names: str) -> list[Column[Any]]:
    return [Column(name, Moment()) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [Column(name, BigInteger) for name in names]


users = Table(
    "users",
    metadata,
    Column("user_id", BigInteger, primary_key=True),
    *_numbers("chat_id"),
    *_text("language"),
    *_moments("made_at"),
)
user_balances = Table(
    "user_balances",
    metadata,
    Column("user_id", BigInteger, primary_key=True),
    *_numbers("balance", "held"),
    *_text("currency"),
)
transactions = Table(
    "transactions",
    metadata,
    Column("number", BigInteger, primary_key=True),
    *_text("reference", "kind", "job_id", "made_by"),
    *_numbers("user_id", "amount", "held"),
    *_moments("made_at"),
)
generation_jobs = Table(
    "generation_jobs",
    metadata,
    Column("job_id", String, primary_key=True),
    *_numbers("user_id", "chat_id", "price", "progress_message"),
    *_text("status", "model", "aspect_ratio", "prompt", "external_task_id", "result_urls", "error_text"),
    *_moments("made_at", "confirmed_at", "submitted_at", "ready_at", "doubted_at", "ended_at"),
    *_text("claimed_by", "watch", "creation_state", "creation_error"),
    *_text("delivery_state", "delivered_by", "delivery_error"),
    *_moments("claimed_until", "creating_at", "task_created_at", "delivering_at", "delivered_at"),
    Column("claims", Integer),
    Column("delivery_attempts", Integer),
)
topups = Table(
    "topups",
    metadata,
    Column("topup_id", String, primary_key=True),
    *_numbers("user_id", "amount"),
    *_text("status", "ended_by"),
    *_moments("made_at", "requested_at", "ended_at"),
)
lock_heartbeat = Table(
    "lock_heartbeat",
    metadata,
    Column("instance", String, primary_key=True),
    *_text("role"),
    *_numbers("epoch"),
    *_moments("heartbeat_at"),
)
job_history = Table(
    "job_history",
    metadata,
    Column("id", BigInteger, primary_key=True),
    *_text("lifecycle", "key", "move", "outcome", "before", "after", "actor", "reason"),
    *_moments("at"),
)


_OF_SOURCE = """
CREATE INDEX IF NOT EXISTS telegram_updates_of_source ON telegram_updates (source, id)
WHERE status IN ('received', 'processing');
"""
"""So that the menu is found at once behind however many updates that wait for the ACTIVE instance."""


def own_tables(dialect: Any) -> list[str]:
    """The library's tables, indexes and guards: nothing but a declared move changes a status, not even by hand."""
    return [
        *ddl(Job, TopUp, updates, callbacks, notices, dialect=dialect, only="tables"),
        _OF_SOURCE,
        *ddl(Lease("any"), Schedules(), dialect=dialect),
        *ddl(Job, Watch, dialect=dialect, only="indexes"),
        *guards(Job, Watch, TopUp, dialect=dialect),
    ]
