"""Deliveries, attempts, sessions and statuses on tables that an ORM maps (L3, L9, L10, L24; P9)."""

from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from raceproof import (
    AlreadyActive,
    Attempts,
    Claim,
    Delivery,
    Lifecycle,
    Moved,
    SendPermit,
    Started,
    bind,
    column,
)
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer

FIRST, SECOND, THIRD, OWNER = (UUID(int=0xABC000 + number) for number in range(4))


class Base(DeclarativeBase):
    pass


class Checked(sa.TypeDecorator[Any]):
    """JSON that a project looks at before it is written."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Any) -> Any:
        if value and "bad" in value:
            raise ValueError("badly formed")
        return value


class Login(Base):
    """An attempt, with an owner and a key that only the ORM's types can spell."""

    __tablename__ = "orm_logins"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    user_id: Mapped[UUID]
    status: Mapped[str]
    superseded_by: Mapped[UUID | None]
    detail: Mapped[dict[str, Any] | None] = mapped_column(Checked)
    delivering_at: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), nullable=True)
    delivered_at: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), nullable=True)
    claimed_by: Mapped[str | None]
    claimed_until: Mapped[Any] = mapped_column(sa.DateTime(timezone=True), nullable=True)
    fence: Mapped[int | None] = mapped_column(sa.BigInteger)


LOGIN = Lifecycle.from_dict(
    {
        "name": "Login",
        "table": "orm_logins",
        "statuses": ["open", "running", "done", "superseded"],
        "moves": {
            "start": {"from": ["open"], "to": "running"},
            "finish": {"from": ["open", "running"], "to": "done", "sets": ["detail"]},
            "supersede": {"from": ["open", "running"], "to": "superseded", "sets": ["superseded_by"]},
        },
        "claims": {"work": {"move": "start", "lease": 30}},
    }
)
LOGINS = Attempts(LOGIN, owner="user_id", supersede=LOGIN.moves["supersede"], link="superseded_by")
NOTICE = Delivery("notice", "orm_logins")


@pytest.fixture(params=["aiosqlite", "asyncpg", "psycopg"])
async def session(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, tmp_path: Path
) -> AsyncIterator[AsyncSession]:
    """A session of FastAPI's kind, with the table made by the ORM."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'orm.db'}"
    if request.param != "aiosqlite":
        url = postgres_server.url.replace("postgresql://", f"postgresql+{request.param}://")
    engine = create_async_engine(url)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.run_sync(Base.metadata.create_all)
        async with AsyncSession(engine) as found:
            yield found
    finally:
        await engine.dispose()


async def test_an_owner_has_one_attempt_however_the_orm_spells_it(session: AsyncSession) -> None:
    """P9: started, kept and superseded by the ORM's keys; the link reads as a key."""
    db = bind(session)
    columns = {"detail": {"browser": "ü"}}
    assert isinstance(await db.start_attempt(LOGINS, OWNER, FIRST, columns=columns), Started)
    again = await db.start_attempt(LOGINS, OWNER, FIRST)
    assert isinstance(again, Started)
    assert again.replayed
    kept = await db.start_attempt(LOGINS, OWNER, SECOND, when_open="keep")
    assert isinstance(kept, AlreadyActive)
    assert (kept.key, kept.owner) == (FIRST, OWNER)
    started = await db.start_attempt(LOGINS, OWNER, SECOND)
    assert isinstance(started, Started)
    assert (started.key, started.owner, started.superseded) == (SECOND, OWNER, FIRST)
    current = await db.current_attempt(LOGINS, OWNER)
    assert current is not None
    assert (current["id"], current["user_id"], current["detail"]) == (SECOND, OWNER, None)
    first = await session.get_one(Login, FIRST)
    assert (first.status, first.superseded_by, first.detail) == ("superseded", SECOND, {"browser": "ü"})


async def test_a_delivery_has_the_same_idempotency_key_as_without_the_orm(session: AsyncSession) -> None:
    """P7: the receiver must not see another one because the caller binds a session."""
    db = bind(session)
    session.add(Login(id=FIRST, user_id=OWNER, status="open"))
    await session.flush()
    permit = await db.begin_delivery(NOTICE, FIRST, by="ann", returning=["id", "user_id"])
    assert isinstance(permit, SendPermit)
    assert (permit.key, permit.row) == (FIRST, {"id": FIRST, "user_id": OWNER})
    assert permit.idempotency_key == NOTICE.idempotency_key(FIRST)
    assert not (await db.begin_delivery(NOTICE, FIRST, by="bob")).won
    assert [one.key for one in await db.deliveries(NOTICE)] == [FIRST]
    assert (await db.delivered(permit)).won
    assert (await session.get_one(Login, FIRST)).delivered_at is not None


async def test_a_claim_of_a_session_finishes_with_json(session: AsyncSession) -> None:
    """The usual worker of a web application: claim, work, finish with a dict; a guard by another UUID column."""
    db = bind(session)
    session.add(Login(id=FIRST, user_id=OWNER, status="open"))
    await session.flush()
    assert await db.claim(LOGIN.claims["work"], where=column("user_id") == SECOND) == []
    (claim,) = await db.claim(LOGIN.claims["work"], where=column("user_id") == OWNER)
    assert isinstance(claim, Claim)
    answer = await db.move(LOGIN.moves["finish"], claim, set={"detail": {"ok": True}}, returning=["detail"])
    assert isinstance(answer, Moved)
    assert answer.row == {"detail": {"ok": True}}
    assert (await session.get_one(Login, FIRST)).detail == {"ok": True}


async def test_the_dirty_object_of_a_mapped_key_is_still_noticed(session: AsyncSession) -> None:
    """The session's objects are known by the caller's keys, not by what the column stores."""
    db = bind(session)
    login = Login(id=FIRST, user_id=OWNER, status="open")
    session.add(login)
    await session.flush()
    login.status = "done"
    with pytest.raises(CallError, match="not flushed"):
        await db.move(LOGIN.moves["finish"], FIRST)


class Phase(StrEnum):
    WAITING = "waiting"
    OVER = "over"


class ByName(Base):
    """SQLAlchemy's Enum stores the names of its members, unless it is asked for values."""

    __tablename__ = "orm_phases"
    id: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[Phase] = mapped_column(sa.Enum(Phase, native_enum=False))
    phase: Mapped[Phase] = mapped_column(
        sa.Enum(Phase, native_enum=False, values_callable=lambda kind: [one.value for one in kind])
    )


async def test_a_status_column_that_stores_names_is_refused_by_name(session: AsyncSession) -> None:
    """No row would ever match: a silent empty claim. The same column by value works."""
    declared = {
        "name": "Phase",
        "table": "orm_phases",
        "statuses": ["waiting", "over"],
        "moves": {"end": {"from": ["waiting"], "to": "over"}},
    }
    by_name, by_value = (Lifecycle.from_dict({**declared, "column": name}) for name in ("status", "phase"))
    session.add(ByName(id=1, status=Phase.WAITING, phase=Phase.WAITING))
    await session.flush()
    db = bind(session)
    with pytest.raises(CallError, match=r"orm_phases\.status stores 'WAITING' for status 'waiting'"):
        await db.move(by_name.moves["end"], 1)
    assert isinstance(await db.move(by_value.moves["end"], 1), Moved)


async def test_a_type_that_does_not_take_a_value_says_which_column(session: AsyncSession) -> None:
    """The ORM's own error, with the column."""
    db = bind(session)
    with pytest.raises(ValueError, match="badly formed") as failure:
        await db.move(LOGIN.moves["finish"], FIRST, set={"detail": {"bad": 1}})
    assert any("column 'detail'" in note for note in failure.value.__notes__)
