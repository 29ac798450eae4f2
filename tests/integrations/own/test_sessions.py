"""SQLAlchemy sessions: an unflushed change of the guarded column is refused, loaded objects show the move (L3)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ForeignKey, create_engine, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from raceproof import Lifecycle, Moved, Refused, bind, sql
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer
from raceproof.testing.contract.grounds import Caller

ORDER = Lifecycle.from_dict(
    {
        "name": "Order",
        "table": "session_orders",
        "statuses": ["NEW", "PACKED", "SENT"],
        "revision": "rev",
        "moves": {
            "pack": {"from": ["NEW"], "to": "PACKED", "sets": ["packer"], "stamp": ["packed_at"]},
            "send": {"from": ["PACKED"], "to": "SENT"},
        },
    }
)
PACK = ORDER.moves["pack"]


class Base(DeclarativeBase):
    pass


class Order(Base):
    """The caller's model, with an attribute that is not called like its column."""

    __tablename__ = "session_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column("status")
    rev: Mapped[int] = mapped_column(default=0)
    packer: Mapped[str | None]
    packed_at: Mapped[str | None]
    address: Mapped[str | None]
    kind: Mapped[str] = mapped_column(default="order")

    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "order"}  # noqa: RUF012


class Gift(Order):
    """A model in a table of its own that is joined to the guarded one."""

    __tablename__ = "session_gifts"
    id: Mapped[int] = mapped_column(ForeignKey("session_orders.id"), primary_key=True)
    ribbon: Mapped[str | None]

    __mapper_args__ = {"polymorphic_identity": "gift"}  # noqa: RUF012


class Slip(Base):
    """A model that maps a part of the guarded table's columns."""

    __table__ = Order.__table__
    __mapper_args__ = {"include_properties": ["id", "address"]}  # noqa: RUF012


SCHEMES = ("sqlite://", "sqlite+aiosqlite://", "postgresql+psycopg://", "postgresql+asyncpg://")


class Sessions:
    """A session, sync or async, always called with await."""

    def __init__(self, session: Session | AsyncSession) -> None:
        self.session = session
        self.db = Caller(bind(session))
        self.call = Caller(session)  # type: ignore[arg-type]


@pytest.fixture(params=SCHEMES)
async def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sessions]:
    """A session on tables with the orders 1 and 2, both NEW."""
    url = f"{request.param}/{tmp_path}/session.db"
    if "postgresql" in request.param:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = request.param + server.url.partition("://")[2]
    plain = create_engine(url.replace("+aiosqlite", "").replace("+asyncpg", "+psycopg"))
    Base.metadata.drop_all(plain)
    Base.metadata.create_all(plain)
    with Session(plain) as first:
        first.add_all([Order(id=1, state="NEW"), Order(id=2, state="NEW"), Gift(id=3, state="NEW")])
        first.commit()
    plain.dispose()
    if "aiosqlite" in url or "asyncpg" in url:
        engine = create_async_engine(url)
        async with AsyncSession(engine) as session:
            yield Sessions(session)
        await engine.dispose()
    else:
        sync_engine = create_engine(url)
        with Session(sync_engine) as sync_session:
            yield Sessions(sync_session)
        sync_engine.dispose()


async def test_an_unflushed_change_of_the_status_is_refused(sessions: Sessions) -> None:
    """The flush would overwrite the move; nothing was moved, and the message says what to do."""
    order = await sessions.call.get(Order, 1)
    order.state = "SENT"
    with pytest.raises(CallError, match=r"status of 1 that is not flushed .* expire the object first"):
        await sessions.db.move(PACK, 1)
    await sessions.call.refresh(order)
    assert order.state == "NEW"
    assert isinstance(await sessions.db.move(PACK, 1), Moved)


async def test_an_unflushed_change_of_the_status_is_refused_for_bulks(sessions: Sessions) -> None:
    """By key and by predicate, for the flush would overwrite these as well."""
    order = await sessions.call.get(Order, 1)
    order.state = "SENT"
    with pytest.raises(CallError, match="not flushed"):
        await sessions.db.move_many(PACK, [2, 1])
    with pytest.raises(CallError, match="not flushed"):
        await sessions.db.move_many(PACK, where=sql("id > {n}", n=0))


async def test_an_unrelated_unflushed_change_is_kept(sessions: Sessions) -> None:
    """Other columns of the row, and other rows, are the caller's business; both end up in the database."""
    order = await sessions.call.get(Order, 1)
    other = await sessions.call.get(Order, 2)
    order.address = "Main Street"
    other.state = "SENT"
    assert isinstance(await sessions.db.move(PACK, 1, set={"packer": "ann"}), Moved)
    await sessions.call.commit()
    rows = await sessions.call.execute(select(Order.state, Order.packer, Order.address).order_by(Order.id))
    assert [tuple(row) for row in rows][:2] == [("PACKED", "ann", "Main Street"), ("SENT", None, None)]


async def test_a_changed_object_of_another_row_is_no_obstacle_after_a_commit(sessions: Sessions) -> None:
    """A commit expires the objects; one whose key is not loaded is still another row."""
    other = await sessions.call.get(Order, 2)
    await sessions.call.commit()
    other.state = "SENT"
    assert isinstance(await sessions.db.move(PACK, 1), Moved)


async def test_after_a_move_the_loaded_object_shows_it(sessions: Sessions) -> None:
    """Status, revision and the columns that were set, without a query of the caller's own."""
    order = await sessions.call.get(Order, 1)
    assert (order.state, order.rev) == ("NEW", 0)
    assert isinstance(await sessions.db.move(PACK, 1, set={"packer": "ann"}), Moved)
    assert (order.state, order.rev, order.packer) == ("PACKED", 1, "ann")
    assert order.packed_at is not None


async def test_after_a_bulk_the_loaded_objects_show_it(sessions: Sessions) -> None:
    """The same for many rows in one statement."""
    order = await sessions.call.get(Order, 1)
    assert order.state == "NEW"
    assert [answer.won for answer in await sessions.db.move_many(PACK, [1, 2])] == [True, True]
    assert (order.state, order.rev) == ("PACKED", 1)


async def test_after_a_refused_move_the_loaded_object_shows_what_was_found(sessions: Sessions) -> None:
    """The caller's idea of the row was old, or it would not have asked."""
    await sessions.db.move(PACK, 1)
    answer = await sessions.db.move(PACK, 1)
    order = await sessions.call.get(Order, 1)
    assert (answer.outcome, order.state) == ("already", "PACKED")
    refused = await sessions.db.move(ORDER.moves["send"], 2)
    assert isinstance(refused, Refused)


async def test_a_joined_model_is_recognised(sessions: Sessions) -> None:
    """The guarded column is in the table of its parent."""
    gift = await sessions.call.get(Gift, 3)
    gift.state = "SENT"
    with pytest.raises(CallError, match="not flushed"):
        await sessions.db.move(PACK, 3)


async def test_a_model_of_some_columns_is_no_obstacle(sessions: Sessions) -> None:
    """It cannot overwrite what it does not map."""
    slip = await sessions.call.get(Slip, 1)
    slip.address = "Main Street"
    assert isinstance(await sessions.db.move(PACK, 1), Moved)


async def test_a_new_object_that_is_not_flushed_yet_is_refused(sessions: Sessions) -> None:
    """The row is not there before the flush."""
    new: Any = Order(id=9, state="NEW")
    sessions.session.add(new)
    with pytest.raises(CallError, match="not flushed"):
        await sessions.db.move(PACK, 9)
    await sessions.call.flush()
    assert isinstance(await sessions.db.move(PACK, 9), Moved)
