"""Calls that do not fit the declaration or the database: refused before anything is sent, or with the driver's error."""

import sqlite3
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from raceproof import (
    Attempts,
    Claim,
    Delivery,
    Inbox,
    Lease,
    LeaseGranted,
    Lifecycle,
    Missing,
    Moved,
    SendPermit,
    bind,
    connect,
    move,
)
from raceproof.declare import Spec
from raceproof.deliveries import DeliveryState
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON
from raceproof.testing.contract.grounds import Ground, RedisGround, fresh_name
from raceproof.testing.contract.orders import DECLARATION, orders
from tests.fix_told import notes_of, says_nothing_was_kept, told


def rows(ground: Ground, **options: Any) -> Spec[str]:
    order = orders(**options)
    ground.table(order)
    for key in ("a", "b"):
        ground.put(order, key, "NEW")
    return order


def untouched(ground: Ground, order: Spec[str]) -> bool:
    return [ground.get(order, key)["rev"] for key in ("a", "b")] == ["0", "0"]


async def test_what_is_no_move_is_refused(any_ground: Ground) -> None:
    """A name, a lifecycle, and a move that belongs to none."""
    order = rows(any_ground)
    for wrong in ("pack", order, None, move("NEW", to="PACKED")):
        with pytest.raises(CallError, match="move"):
            await any_ground.db.move(wrong, "a")
    assert untouched(any_ground, order)


@pytest.mark.parametrize(
    "key",
    [None, 1.5, True, b"a", ["a"], {"a": 1}, ("a", "b"), (), (None,), "nul \0", Decimal(1), object()],
    ids=[
        "none",
        "float",
        "bool",
        "bytes",
        "list",
        "dict",
        "two",
        "empty",
        "tuple-none",
        "nul",
        "decimal",
        "object",
    ],
)
async def test_a_key_of_a_wrong_shape_is_refused(any_ground: Ground, key: Any) -> None:
    """Before anything is sent, with what a key looks like."""
    order = rows(any_ground)
    with pytest.raises(CallError, match="key"):
        await any_ground.db.move(order.moves["pack"], key)
    with pytest.raises(CallError, match="key"):
        await any_ground.db.read(order, key)
    assert untouched(any_ground, order)


async def test_many_keys_are_not_one_text(any_ground: Ground) -> None:
    """A text or bytes are iterable, and never meant so; neither is a number or a single UUID."""
    order = rows(any_ground)
    for wrong in ("ab", b"ab", 5, UUID(int=1)):
        with pytest.raises(CallError, match="keys"):
            await any_ground.db.move_many(order.moves["pack"], wrong)
    assert untouched(any_ground, order)
    assert await any_ground.db.move_many(order.moves["pack"], []) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "keys"),
        ({"keys": ["a"], "call": "x"}, "call="),
        ({"keys": {"a": {"packer": "x"}, "b": {"box": "y"}}}, "same columns"),
        ({"keys": {"a": {"packer": "x"}}, "set": {"packer": "y"}}, "not both"),
        ({"keys": {"a": {"nonsense": "x"}}}, "nonsense"),
        ({"keys": ["a", None]}, "key"),
    ],
    ids=["nothing", "call", "columns", "both", "unknown", "bad-key"],
)
async def test_a_bulk_that_cannot_be_meant_is_refused(
    any_ground: Ground, options: dict[str, Any], message: str
) -> None:
    """Each with what to do instead."""
    order = rows(any_ground)
    with pytest.raises(CallError, match=message):
        await any_ground.db.move_many(order.moves["pack"], **options)
    assert untouched(any_ground, order)


@pytest.mark.parametrize("name", ["fence", "revision"])
@pytest.mark.parametrize("value", [True, False, "7", 7.0], ids=repr)
async def test_a_fence_or_revision_is_a_number(any_ground: Ground, name: str, value: Any) -> None:
    """Anything else would be compared in a way of the store's own, or not at all."""
    order = orders(fence="fence")
    any_ground.table(order)
    any_ground.put(order, "a", "NEW", fence=7)
    with pytest.raises(CallError, match=name):
        await any_ground.db.move(order.moves["pack"], "a", **{name: value})
    assert any_ground.get(order, "a")["status"] == "NEW"


async def test_a_missing_table_is_named(ground: Ground) -> None:
    """With the note that tells how to compare; in Redis there are only missing rows."""
    order = orders(history=True)
    if isinstance(ground, RedisGround):
        assert isinstance(await ground.db.move(order.moves["pack"], "a"), Missing)
        return
    calls: list[Any] = [
        lambda: ground.db.move(order.moves["pack"], "a"),
        lambda: ground.db.move(order.moves["pack"], "a", call="x"),
        lambda: ground.db.move_many(order.moves["pack"], ["a"]),
    ]
    for call in calls:
        with pytest.raises(Exception, match=order.table) as failure:
            await call()
        assert any("raceproof verify" in note for note in failure.value.__notes__)
    with pytest.raises(Exception, match=order.table):
        await ground.db.read(order, "a")
    other = rows(ground)
    assert isinstance(await ground.db.move(other.moves["pack"], "a"), Moved)


async def test_a_missing_table_is_named_whatever_is_decided_on_it(ground: Ground) -> None:
    """Claims, deliveries, attempts, leases and events, with what was asked and that nothing is kept; not in Redis."""
    if isinstance(ground, RedisGround):
        return
    spec = jobs_of_nobody()
    claim, attempts = spec.claims["work"], Attempts(spec, owner="who", supersede=spec.moves["finish"])
    delivery, lease = Delivery("picture", spec.table), Lease("bot", table=spec.table)
    held = Claim("a", claim, 1, "ann", 1, "RUNNING", 0.0, None)
    permit = SendPermit("a", delivery, ("a",), NOON, "ann", 1, DeliveryState.SENDING, False, 0.0)
    leading = LeaseGranted(lease, "ann", 1, 0.0)
    db = ground.db
    calls: dict[str, Any] = {
        "any row": lambda: db.claim(claim, 5),
        "'b'": lambda: db.claim_one(claim, "b"),
        "'a'": lambda: db.renew(held),
        "Job.work of 'a'": lambda: db.release(held),
        "work of 'a'": lambda: db.fail(held),
        "picture of 'c'": lambda: db.begin_delivery(delivery, "c"),
        "picture of 'a'": lambda: db.delivered(permit),
        "picture of 'd'": lambda: db.resolve(delivery, "d", arrived=True),
        "'eve'": lambda: db.start_attempt(attempts, "eve", "e"),
        "bot of bob": lambda: db.acquire_lease(lease, "bob"),
        "bot of ann": lambda: db.renew_lease(leading),
        "of ann in": lambda: db.release_lease(leading),
        "event 'e-1'": lambda: db.receive(Inbox(spec.table), Arrival("shop", "e-1", b"{}", {}, None)),
    }
    for named, call in calls.items():
        error = await told(call())
        assert isinstance(error, Exception), named
        assert says_nothing_was_kept(error), named
        for part in (named, f"in table {spec.table}", "raceproof verify"):
            assert part in notes_of(error)
    error = await told(db.fail([held, replace(held, key="b")]))
    assert "2 rows" in notes_of(error)
    assert "what was changed stays so" in notes_of(error)


def jobs_of_nobody() -> Spec[str]:
    """Work in a table that does not exist."""
    return Lifecycle.from_dict(
        {
            "name": "Job",
            "table": fresh_name("nowhere"),
            "statuses": ["QUEUED", "RUNNING", "DONE"],
            "moves": {
                "start": {"from": ["QUEUED"], "to": "RUNNING"},
                "requeue": {"from": ["RUNNING"], "to": "QUEUED"},
                "finish": {"from": ["QUEUED", "RUNNING"], "to": "DONE"},
            },
            "claims": {"work": {"move": "start", "lease": 30, "back": "requeue"}},
        }
    )


@pytest.mark.parametrize("lacking", ["packed_at", "rev", "status", "order_id"])
async def test_a_missing_column_is_named(ground: Ground, lacking: str) -> None:
    """By one row, many rows and a search; in Redis a missing field is an empty one."""
    order = rows(ground)
    if isinstance(ground, RedisGround):
        return
    changed = Lifecycle.from_dict(
        {
            **order.to_dict(),
            "revision": "other" if lacking == "rev" else "rev",
            "column": "other" if lacking == "status" else "status",
            "key": "other" if lacking == "order_id" else "order_id",
            "moves": {
                "pack": {
                    **DECLARATION["moves"]["pack"],
                    "stamp": ["other" if lacking == "packed_at" else "packed_at"],
                },
                **{name: one for name, one in DECLARATION["moves"].items() if name != "pack"},
            },
        }
    )
    calls: list[Any] = [
        lambda: ground.db.move(changed.moves["pack"], "a"),
        lambda: ground.db.move_many(changed.moves["pack"], ["a"]),
    ]
    for call in calls:
        with pytest.raises(Exception, match="other"):
            await call()
    assert untouched(ground, order)
    assert isinstance(await ground.db.move(order.moves["pack"], "a"), Moved)


async def test_a_key_that_the_column_cannot_hold_is_an_error_or_no_row(ground: Ground) -> None:
    """Text for a number: the driver says so and the note names the key, or there is no such row."""
    order = orders(history=True)
    ground.table(order, {"order_id": "int"})
    ground.put(order, 1, "NEW")
    for keys in (["seventeen"], [1, "seventeen"]):
        answers = await told(ground.db.move_many(order.moves["take_back"], keys))
        assert order.table in notes_of(answers) if isinstance(answers, Exception) else answers[-1].outcome == "missing"
    answer = await told(ground.db.move(order.moves["pack"], "seventeen"))
    assert isinstance(answer, Missing) or "'seventeen'" in notes_of(answer)
    assert ground.get(order, 1)["status"] == "NEW"
    assert isinstance(await ground.db.move(order.moves["pack"], 1), Moved)


def test_a_closed_sqlite_connection_is_a_clear_error() -> None:
    """The module's own, with a note that names the row."""
    connection = sqlite3.connect(":memory:")
    db = bind(connection)
    connection.close()
    for options in ({}, {"history": True}):
        with pytest.raises(sqlite3.ProgrammingError, match="closed") as failure:
            db.move(orders(**options).moves["pack"], "a")
        assert any("'a'" in note for note in failure.value.__notes__)


@pytest.mark.parametrize("url", ["mysql://x", "nonsense", "", "sqlite://", "sqlite:///no/such/folder/x.db"])
async def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    """With the forms that can."""
    with pytest.raises(CallError, match=r"sqlite"):
        connect(url).open()
    with pytest.raises(CallError, match=r"sqlite"):
        await connect(url)


def test_what_is_no_connection_is_refused() -> None:
    """With the kinds that are."""
    for wrong in (None, "postgresql://x", object(), sqlite3.connect):
        with pytest.raises(CallError, match="asyncpg, psycopg, sqlite3"):
            bind(wrong)  # type: ignore[call-overload]
