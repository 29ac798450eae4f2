"""Lines are worked on one row after the other, whatever stands in the columns that order them (L8)."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raceproof import Spec
from tests.contract.grounds import Ground, SqlGround, asked_ground
from tests.contract.jobs import jobs
from tests.contract.noon import NOON

VALUES = (None, 1, 2)


@pytest.fixture(params=["sqlite3", "psycopg"])
async def sql_ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlGround]:
    """The stores that sort."""
    async with asked_ground(request, tmp_path) as found:
        assert isinstance(found, SqlGround)
        yield found


async def in_order(ground: Ground, job: Spec[str]) -> list[str]:
    """The rows of one line as they are claimed and finished; never two at once, and by key only the same one."""
    work, found = job.claims["work"], []
    while claims := await ground.db.claim(work, 10, now=NOON):
        (mine,) = claims
        assert await ground.db.claim(work, 10, now=NOON) == []
        assert (await ground.db.move(job.moves["finish"], mine)).won
        found.append(mine.key)
    return found


async def test_a_row_that_has_no_place_in_the_order_waits_as_the_others_do(ground: Ground) -> None:
    """NULL is before or after everything, as the store sorts it, and not beside it."""
    job = jobs(ground, claim={"serial": "owner"})
    places = {"a": None, "b": 5, "c": None, "d": 4}
    for key, place in places.items():
        ground.put(job, key, "QUEUED", made_at=place, owner="ann")
        await ground.db.offer(job.claims["work"], [key])
    assert sorted(await in_order(ground, job)) == sorted(places)


@pytest.mark.parametrize("order", [["made_at"], ["made_at", "size"], ["job_id", "made_at"]], ids=str)
@pytest.mark.parametrize("tenant", [None, "shop"])
async def test_the_line_is_that_of_the_store_s_own_order(
    sql_ground: SqlGround, order: list[str], tenant: str | None
) -> None:
    """Every mixture of values and NULL in the columns that order it."""
    changes: dict[str, Any] = {"tenant": tenant} if tenant else {}
    claim = {"serial": "owner", "order_by": order, "cap": None, "exhausted": None}
    job = jobs(sql_ground, claim=claim, **changes)
    sql_ground.run(f"ALTER TABLE {job.table} ADD COLUMN size integer")
    for number, (made_at, size) in enumerate(itertools.product(VALUES, VALUES)):
        for key in (f"{number}-x", f"{9 - number}-y"):
            for whole in (("red", key), ("blue", key)) if tenant else (key,):
                sql_ground.put(job, whole, "QUEUED", made_at=made_at, size=size, owner="ann")
    if tenant:
        sql_ground.db = sql_ground.db.for_tenant("red")
    only = "WHERE shop = 'red'" if tenant else ""
    wanted = sql_ground.run(f"SELECT job_id FROM {job.table} {only} ORDER BY {', '.join([*order, 'job_id'])}")
    assert await in_order(sql_ground, job) == [key for (key,) in wanted]
