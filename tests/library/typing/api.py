"""The typed public API. Type-checked by mypy with the rest, never run."""

import sqlite3
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Literal, assert_never, assert_type

import asyncpg
import psycopg
import redis
import redis.asyncio
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from raceproof import (
    Already,
    AsyncStore,
    Conflict,
    Lifecycle,
    Lost,
    Missing,
    Moved,
    Refused,
    Store,
    Unknown,
    bind,
    connect,
    move,
)
from raceproof.declare import Move
from raceproof.moves import Answer


class Status(StrEnum):
    QUEUED = "QUEUED"
    SENT = "SENT"


class Command(Lifecycle[Status], table="commands", key="cmd_id"):
    send = move(Status.QUEUED, to=Status.SENT)


class PlainStatus(Enum):
    QUEUED = "queued"
    SENT = "sent"


class PlainCommand(Lifecycle[PlainStatus], table="commands", key="cmd_id", initial=PlainStatus.QUEUED):
    send = move(PlainStatus.QUEUED, to=PlainStatus.SENT)


class TextCommand(Lifecycle[Literal["queued", "sent"]], table="commands", key="cmd_id"):
    send = move("queued", to="sent")


@dataclass
class Row:
    cmd_id: str


def moves_have_the_type_of_their_statuses() -> None:
    assert_type(Command.send, Move[Status])
    assert_type(Command.send.target, Status)
    assert_type(PlainCommand.send, Move[PlainStatus])
    assert_type(PlainCommand.send.reaches, PlainStatus)
    assert_type(TextCommand.send, Move[str])


def a_connection_decides_between_sync_and_async(
    lite: sqlite3.Connection,
    sync_connection: psycopg.Connection[Any],
    session: Session,
    client: redis.Redis,
    pool: "asyncpg.Pool[Any]",
    async_connection: psycopg.AsyncConnection[Any],
    async_session: AsyncSession,
    async_client: redis.asyncio.Redis,
) -> None:
    assert_type(bind(lite), Store)
    assert_type(bind(sync_connection), Store)
    assert_type(bind(session), Store)
    assert_type(bind(client), Store)
    assert_type(bind(pool), AsyncStore)
    assert_type(bind(async_connection), AsyncStore)
    assert_type(bind(async_session), AsyncStore)
    assert_type(bind(async_client), AsyncStore)


def the_answer_is_exhaustive(db: Store) -> str:
    answer = db.move(Command.send, "c-1")
    assert_type(answer, Answer[Status, None])
    match answer:
        case Moved(before=before):
            return assert_type(before, Status)
        case Already() | Missing():
            return ""
        case Refused(status=status) | Lost(status=status):
            return assert_type(status, Status)
        case Unknown(call=call):
            return call or ""
        case Conflict(cause=cause):
            return str(cause)
        case _:
            assert_never(answer)


def returning_gives_its_own_type(db: Store) -> None:
    assert_type(db.move(Command.send, "c-1", returning=Row), Answer[Status, Row])
    assert_type(db.move(Command.send, "c-1", returning=["cmd_id"]), Answer[Status, dict[str, Any]])


async def connect_opens_both_kinds() -> None:
    with connect("sqlite:///x.db") as db:
        assert_type(db, Store)
    async with connect("sqlite:///x.db") as async_db:
        assert_type(async_db, AsyncStore)
        assert_type(await async_db.move(Command.send, "c-1"), Answer[Status, None])
    assert_type(await connect("sqlite:///x.db"), AsyncStore)


def mistakes_are_type_errors(db: Store) -> None:
    db.move(Command.send, "c-1", fence="7")  # type: ignore[call-overload]
    db.move("send", "c-1")  # type: ignore[call-overload]
    db.move(Command.send, "c-1", unknown=1)  # type: ignore[call-overload]
    move(Status.QUEUED, to=1)  # type: ignore[type-var]
