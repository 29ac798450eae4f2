"""Rows with the same ordering key run one after the other; where the store sorts, in its own order."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raceproof.testing.contract.claims_in_line import *
from raceproof.testing.contract.claims_in_line import in_order
from raceproof.testing.contract.grounds import SqlGround
from raceproof.testing.contract.jobs import jobs
from tests.promises.contract.grounds import asked_ground

VALUES = (None, 1, 2)


@pytest.fixture(params=["sqlite3", "psycopg"])
async def sql_ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlGround]:
    """The stores that sort."""
    async with asked_ground(request, tmp_path) as found:
        assert isinstance(found, SqlGround)
        yield found


@pytest.mark.parametrize("order", [["made_at"], ["made_at", "size"], ["job_id", "made_at"]], ids=str)
@pytest.mark.parametrize("tenant", [None, "shop"])
async def test_the_line_is_that_of_the_store_s_own_order(
    sql_ground: SqlGround, order: list[str], tenant: str | None
) -> None:
    """Every mixture of values and NULL in the columns that order it."""
    changes: dict[str, Any] = {"tenant": tenant} if tenant else {}
    claim = {"ordering_key": "owner", "order_by": order, "max_attempts": None, "dead_letter": None}
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
