"""Connections to SQLite that make datetimes of columns that are declared so, as Django's do: a fence is told as it is."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from raceproof import Claim, DeliveryRecorded, Lost, SendPermit
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Caller, SqliteGround
from raceproof.testing.contract.jobs import ALL_FORMS, jobs
from raceproof.testing.contract.pictures import BOTH, pictures
from tests.integrations.own.fix_connections import Own, Sqlite
from tests.integrations.own.fix_django import django_on_sqlite

DECLARED = {"sqlite3": "timestamp", "django": "datetime"}


def _opened(kind: str, path: Path) -> Own:
    if kind == "django":
        return django_on_sqlite(path)
    return Sqlite(sqlite3.connect(path, isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES))


@pytest.fixture(params=DECLARED)
async def ground(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SqliteGround]:
    """A ground whose times are columns that the connection converts."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # the tests themselves run in an event loop
    path = tmp_path / "converted.db"
    own = _opened(request.param, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as beside:
        found = SqliteGround(Caller(own.store), lambda text, params=(): beside.execute(text, params).fetchall())
        found.time = DECLARED[request.param]
        yield found
    await own.close()


@ALL_FORMS
async def test_a_claim_is_renewed_and_finished_by_its_fence(ground: SqliteGround, form: str) -> None:
    """P4, P5: the holder holds its row, and is not told that somebody else does."""
    job = jobs(ground, form)
    work = job.claims["work"]
    for number, key in enumerate("abc"):
        ground.put(job, key, "QUEUED", made_at=number)
    claims = await ground.db.claim(work, 2)
    told = await ground.db.claims(work)
    assert {one.key: one.fence for one in told} == {one.key: one.fence for one in claims}
    renewed = await ground.db.renew(await ground.db.renew(claims))
    assert all(isinstance(one, Claim) for one in renewed)
    first, second = renewed
    assert (await ground.db.move(job.moves["finish"], first, set={"result": "1"})).won
    assert [one.outcome for one in await ground.db.fail(second)] == ["released"]
    third = await ground.db.claim_one(work, "c")
    assert [one.outcome for one in await ground.db.release(third)] == ["released"]


async def test_who_has_lost_a_row_is_told_the_fence_that_it_has(ground: SqliteGround) -> None:
    """To the last digit, for it is somebody's."""
    job = jobs(ground, "timestamp")
    ground.put(job, "a", "QUEUED", made_at=1)
    (late,) = await ground.db.claim(job.claims["work"], now=NOON)
    (current,) = await ground.db.claim(job.claims["work"], now=after(40))
    (answer,) = await ground.db.renew(late, now=after(41))
    assert isinstance(answer, Lost)
    assert answer.fence == current.fence


@BOTH
async def test_a_delivery_is_marked_by_its_fence(ground: SqliteGround, told: bool) -> None:
    """P5: what was sent is delivered, also after a renewal."""
    delivery, picture = pictures(ground, told)
    permit = await ground.db.begin_delivery(delivery, "a")
    assert isinstance(permit, SendPermit)
    kept = await ground.db.sending(permit)
    assert isinstance(kept, SendPermit)
    assert isinstance(await ground.db.delivered(kept), DeliveryRecorded)
    assert ground.get(picture, "a")["delivered_at"] is not None
