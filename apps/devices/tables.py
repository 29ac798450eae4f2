"""The tables, as far as the application reads them or adds rows; every change of a status is a decision of raceproof."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table

from appkit.database import Moment
from appkit.migrating import guards
from devices.lifecycle import Command, Node, Permit, responses, schedules
from raceproof import ddl

metadata = MetaData()


def _text(*names: str) -> list[Column[str]]:
    return [Column(name, String) for name in names]


def _moments(*names: str) -> list[Column[datetime]]:
    return [Column(name, Moment()) for name in names]


commands = Table(
    "commands",
    metadata,
    Column("number", BigInteger, primary_key=True),
    *_text("cmd_id", "node", "channel", "cmd", "params", "status", "permit", "why", "overridden_by", "line"),
    *_text("error_code", "error_message", "claimed_by", "publish_state", "published_by"),
    *_text("publish_error"),
    *_moments("made_at", "valid_until", "sent_at", "ack_at", "ended_at", "claimed_until"),
    *_moments("rests_until", "publishing_at", "published_at"),
    Column("rank", Integer),
    Column("duration_ms", BigInteger),
    Column("result_code", BigInteger),
    Column("claims", Integer),
    Column("publishes", Integer),
)
evidence = Table(
    "evidence",
    metadata,
    Column("number", BigInteger, primary_key=True),
    *_text("cmd_id", "status", "body", "outcome", "event_id"),
    Column("told_at_ms", BigInteger),
    *_moments("at"),
)
doubts = Table("doubts", metadata, Column("cmd_id", String, primary_key=True), *_moments("since"))
refused_responses = Table(
    "refused_responses",
    metadata,
    Column("number", BigInteger, primary_key=True),
    *_text("topic", "why"),
    Column("body", LargeBinary),
    *_moments("at"),
)
nodes = Table(
    "nodes",
    metadata,
    Column("path", String, primary_key=True),
    *_text("state", "details"),
    *_moments("changed_at", "heard_at", "booted_at"),
)
history = Table(
    "command_history",
    metadata,
    Column("id", BigInteger, primary_key=True),
    *_text("lifecycle", "key", "move", "outcome", "before", "after", "actor", "reason"),
    *_moments("at"),
)


def own_tables(dialect: Any) -> list[str]:
    """The library's tables, indexes and guards: nothing but a declared move changes a status, not even by hand."""
    return [
        *ddl(Command, responses, schedules, dialect=dialect, only="tables"),
        *ddl(Command, dialect=dialect, only="indexes"),
        *guards(Command, Permit, Node, dialect=dialect),
    ]
