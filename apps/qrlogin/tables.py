"""The tables, as far as the application reads them or adds rows; every change of a status is a decision of raceproof."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table
from sqlalchemy.dialects import postgresql, sqlite

from appkit.database import Database, Moment
from appkit.migrating import guards
from qrlogin.lifecycle import Attempt, SavedSession, attempts, current_sessions
from raceproof import ddl

metadata = MetaData()


def _text(*names: str) -> list[Column[str]]:
    return [Column(name, String) for name in names]


def _moments(*names: str) -> list[Column[datetime]]:
    return [Column(name, Moment()) for name in names]


sessions = Table(
    Attempt.spec.table,
    metadata,
    *_text("user_id", "unix", "nonce", "session_id", "status", "superseded_by", "reason", "claimed_by"),
    *_moments("created_at", "saved_at", "ended_at", "superseded_at", "claimed_until"),
    Column("fence", BigInteger),
    Column("ttl_seconds", Integer),
)
shown = Table("qr_shown", metadata, *_text("session_id", "sealed"), Column("fence", BigInteger), *_moments("until"))
passwords = Table("qr_passwords", metadata, *_text("session_id", "sealed"), *_moments("until"))
held_sessions = Table(
    "held_sessions",
    metadata,
    *_text("session_id", "user_id", "account_id", "key_id", "sealed"),
    *_moments("held_at"),
)
saved_sessions = Table(
    "saved_sessions",
    metadata,
    *_text("session_id", "user_id", "account_id", "key_id", "sealed", "status", "replaced_by", "reason"),
    *_moments("saved_at", "ended_at"),
)
history = Table(
    "qr_history",
    metadata,
    Column("id", BigInteger, primary_key=True),
    *_text("lifecycle", "key", "move", "outcome", "before", "after", "actor", "reason"),
    *_moments("at"),
)


def own_tables(dialect: Any) -> list[str]:
    """The library's tables, indexes and guards: nothing but a declared move changes a status, not even by hand."""
    return [
        *ddl(Attempt, SavedSession, attempts, current_sessions, dialect=dialect, only="tables"),
        *ddl(Attempt, SavedSession, attempts, current_sessions, dialect=dialect, only="indexes"),
        *guards(Attempt, SavedSession, dialect=dialect),
    ]


def insert_into(database: Database, table: Table) -> Any:
    """An INSERT that can say what to do about a row that is there, which SQLAlchemy has for each dialect apart."""
    return postgresql.insert(table) if database.dialect == "postgres" else sqlite.insert(table)
