"""The same on PostgreSQL 16, which cannot return what a row was before: one source and several sources (L3, L14)."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from raceproof import Moved
from raceproof.testing import PostgresServer, postgres
from raceproof.testing.contract.jobs import jobs
from raceproof.testing.contract.orders import orders
from tests.integrations.own.fix_kinds import Case, open_case

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
KINDS = (
    "asyncpg",
    "psycopg-autocommit",
    "psycopg-async",
    "sqlalchemy-psycopg-session",
    "sqlalchemy-asyncpg",
    "django-postgres",
)


@pytest.fixture(scope="module")
def postgres_16() -> Iterator[PostgresServer]:
    """The oldest PostgreSQL that we test."""
    with postgres(major=16) as server:
        yield server


@pytest.fixture(params=KINDS)
async def old_case(
    request: pytest.FixtureRequest,
    postgres_16: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Case]:
    """A caller's connection to it."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    async with open_case(request.param, lambda: postgres_16.url, tmp_path) as found:
        yield found


@pytest.mark.parametrize("history", [False, True])
async def test_moves_tell_where_the_row_was(old_case: Case, history: bool) -> None:
    """From the only source, from each of several, and in bulks."""
    order = orders(history=history)
    old_case.ground.table(order)
    for key, status in {"a": "NEW", "b": "RETURNED", "c": "NEW", "d": "RETURNED"}.items():
        old_case.ground.put(order, key, status)
    await old_case.own.begin()
    for key, before in (("a", "NEW"), ("b", "RETURNED")):
        answer = await old_case.db.move(order.moves["pack"], key, set={"packer": "ann"}, returning=["packer"])
        assert isinstance(answer, Moved)
        assert (answer.before, answer.revision, answer.row) == (before, 1, {"packer": "ann"})
    answer = await old_case.db.move(order.moves["send"], "a")
    assert isinstance(answer, Moved)
    assert (answer.before, answer.revision) == ("PACKED", 2)
    answers = await old_case.db.move_many(order.moves["pack"], ["c", "d", "a"])
    assert [answer.outcome for answer in answers] == ["moved", "moved", "refused"]
    assert [answer.before for answer in answers[:2]] == ["NEW", "RETURNED"]
    await old_case.own.commit()
    assert [old_case.ground.get(order, key)["status"] for key in "abcd"] == ["SENT"] + ["PACKED"] * 3


async def test_a_move_disappears_with_its_rollback(old_case: Case) -> None:
    """With its history."""
    order = orders(history=True)
    old_case.ground.table(order)
    old_case.ground.put(order, "a", "NEW")
    await old_case.own.begin()
    assert isinstance(await old_case.db.move(order.moves["pack"], "a"), Moved)
    await old_case.own.rollback()
    assert old_case.ground.get(order, "a")["status"] == "NEW"
    assert order.history is not None
    assert old_case.ground.run(f"SELECT * FROM {order.history.table}") == []


async def test_claims_are_taken_in_order_and_taken_over(old_case: Case) -> None:
    """Without the old row in RETURNING the claim joins what it found by the key."""
    job = jobs(old_case.ground, history=True)
    for number, key in enumerate("cab"):
        old_case.ground.put(job, key, "QUEUED", made_at=number)
    await old_case.own.begin()
    late = await old_case.db.claim(job.claims["work"], 2, by="late", now=NOON)
    assert [(one.key, one.before) for one in late] == [("c", "QUEUED"), ("a", "QUEUED")]
    again = await old_case.db.claim(job.claims["work"], 3, by="next", now=NOON + timedelta(seconds=31))
    assert [(one.key, one.before) for one in again] == [("c", "RUNNING"), ("a", "RUNNING"), ("b", "QUEUED")]
    told = await old_case.db.move_many(job.moves["finish"], [*late, again[2]])
    assert [one.outcome for one in told] == ["lost", "lost", "moved"]
    await old_case.own.commit()
