"""The note's nine functions on every store: its own test, and every pair of updates that race."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from appkit.database import open_database
from devices import marks
from devices.lifecycle import ENDED, OPEN, Command, Status
from devices.service import MIGRATIONS
from devices.tables import own_tables
from raceproof import AsyncStore, connect

Mark = Callable[[str, AsyncStore], Awaitable[marks.Marked]]

MARKS: dict[str, tuple[Mark, tuple[Status, ...], Status]] = {
    "sent": (
        lambda key, db: marks.mark_command_sent(key, db=db),
        (Status.QUEUED, Status.SEND_FAILED),
        Status.SENT,
    ),
    "sent once": (
        lambda key, db: marks.mark_command_sent(key, allow_resend=False, db=db),
        (Status.QUEUED,),
        Status.SENT,
    ),
    "ack": (lambda key, db: marks.mark_command_ack(key, db=db), (Status.QUEUED, Status.SENT), Status.ACK),
    "done": (lambda key, db: marks.mark_command_done(key, 730, 0, db=db), OPEN, Status.DONE),
    "no effect": (lambda key, db: marks.mark_command_no_effect(key, 5, db=db), OPEN, Status.NO_EFFECT),
    "failed": (
        lambda key, db: marks.mark_command_failed(key, "overcurrent", "too much", 3, db=db),
        OPEN,
        Status.ERROR,
    ),
    "invalid": (
        lambda key, db: marks.mark_command_invalid(key, "unknown", "what", 4, db=db),
        OPEN,
        Status.INVALID,
    ),
    "busy": (lambda key, db: marks.mark_command_busy(key, "busy", "later", 5, db=db), OPEN, Status.BUSY),
    "timeout": (lambda key, db: marks.mark_command_timeout(key, db=db), OPEN, Status.TIMEOUT),
    "send failed": (
        lambda key, db: marks.mark_command_send_failed(key, "no route", db=db),
        (Status.QUEUED,),
        Status.SEND_FAILED,
    ),
}
"""Each function, the statuses that the note lets it leave, and where it leads."""


@pytest.fixture(params=["sqlite", "postgres", "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[AsyncStore, AsyncStore, Any]]:
    """Two stores of their own on the same rows, and how to make a row."""
    if request.param == "redis":
        url = request.getfixturevalue("valkey_server").url
        async with connect(url) as one, connect(url) as other:
            import redis.asyncio

            client = redis.asyncio.from_url(url)

            async def made(rows: dict[str, Status]) -> None:
                async with client.pipeline(transaction=False) as pipeline:
                    for key, status in rows.items():
                        pipeline.delete(f"commands:{key}")
                        pipeline.hset(f"commands:{key}", mapping={"status": status})
                    await pipeline.execute()

            yield one, other, made
            await client.aclose()
        return
    url = f"sqlite:///{tmp_path / 'marks.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("empty_postgres")
    async with (
        open_database(url, MIGRATIONS, lambda dialect: own_tables(dialect)[:1]) as database,
        connect(url) as other,
    ):

        async def inserted(rows: dict[str, Status]) -> None:
            from devices.tables import commands

            async with database.transaction() as (connection, _):
                await connection.execute(commands.insert(), [_row(key, status) for key, status in rows.items()])

        yield database.store, other, inserted


def _row(key: str, status: Status) -> dict[str, Any]:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    return {
        "cmd_id": key,
        "node": "gh/z/n",
        "channel": "pump",
        "cmd": "dose",
        "params": "{}",
        "status": status,
        "permit": "ALLOWED",
        "rank": 1,
        "line": "gh/z/n/pump",
        "made_at": now,
        "valid_until": now,
        "claims": 0,
        "publishes": 0,
    }


async def test_a_late_sent_does_not_overwrite_an_ack(stores: Any) -> None:
    """The note's own test."""
    db, _, made = stores
    await made({"c-1": Status.ACK})
    marks.use(db)
    answer = await marks.mark_command_sent("c-1")
    assert (answer.outcome, answer.won) == ("refused", False)
    row = await db.read(Command, "c-1")
    assert row["status"] == "ACK"


async def test_each_function_moves_from_where_the_note_says_and_from_nowhere_else(stores: Any) -> None:
    db, _, made = stores
    rows = {f"{name}/{status}": status for name in MARKS for status in Status}
    await made(rows)
    for name, (mark, sources, target) in MARKS.items():
        for status in Status:
            key = f"{name}/{status}"
            answer = await mark(key, db)
            expected = "moved" if status in sources else "already" if status == target else "refused"
            assert answer.outcome == expected, key
            row = await db.read(Command, key)
            assert row["status"] == (target if status in sources else status), key


async def test_whatever_races_one_order_explains_the_end(stores: Any) -> None:
    """Every pair of functions at once, from every status, on two connections."""
    one, other, made = stores
    pairs = list(product(MARKS, MARKS, Status))
    rows = {f"{first}+{second}/{status}": status for first, second, status in pairs}
    await made(rows)

    async def race(first: str, second: str, status: Status) -> None:
        key = f"{first}+{second}/{status}"
        answers = await asyncio.gather(MARKS[first][0](key, one), MARKS[second][0](key, other))
        row = await one.read(Command, key)
        told = [answer.outcome for answer in answers]
        assert (row["status"], told) in list(_orders(first, second, status)), f"{key}: {row['status']}, {told}"

    for begin in range(0, len(pairs), 50):
        await asyncio.gather(*(race(*pair) for pair in pairs[begin : begin + 50]))


def _orders(first: str, second: str, status: Status) -> Any:
    """The end and the answers of both orders."""
    for order in ((0, 1), (1, 0)):
        told = ["", ""]
        at = status
        for place in order:
            _, sources, target = MARKS[(first, second)[place]]
            told[place] = "moved" if at in sources else "already" if at == target else "refused"
            at = target if at in sources else at
        yield at, told


async def test_a_refused_update_changes_nothing(stores: Any) -> None:
    """Not a single column, also of those that it would set."""
    db, _, made = stores
    for status in (*ENDED, Status.SEND_FAILED):
        await made({f"ended/{status}": status})
        before = await db.read(Command, f"ended/{status}")
        for name, (mark, sources, target) in MARKS.items():
            if status not in sources:
                await mark(f"ended/{status}", db)
                assert await db.read(Command, f"ended/{status}") == before, (name, target)


async def test_a_command_that_nobody_knows_is_missing(stores: Any) -> None:
    db, _, _ = stores
    assert {(await mark("nobody", db)).outcome for mark, _, _ in MARKS.values()} == {"missing"}


async def test_what_a_function_is_told_stands_in_the_row(stores: Any) -> None:
    db, _, made = stores
    await made({"c-done": Status.SENT, "c-error": Status.ACK})
    await MARKS["done"][0]("c-done", db)
    await MARKS["failed"][0]("c-error", db)
    done, error = await db.read(Command, "c-done"), await db.read(Command, "c-error")
    assert (str(done["duration_ms"]), str(done["result_code"])) == ("730", "0")
    assert (error["error_code"], error["error_message"]) == ("overcurrent", "too much")
