"""Leases and delays end at a moment that every store can represent (P3, P13); others are errors of the call."""

from datetime import datetime
from math import inf, nan
from typing import Any

import pytest

from raceproof import Claim, DeclarationError, Lifecycle, Released
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put

CENTURY = 100 * 365 * 86400.0
ENDLESS = pytest.mark.parametrize("seconds", [inf, nan, 1e12, -inf, -5.0], ids=str)


@ENDLESS
async def test_a_lease_without_an_end_is_refused(ground: Ground, seconds: float) -> None:
    """Otherwise the store might see the row as free, and two processes would hold it."""
    job = jobs(ground)
    await put(ground, job, "a", "b")
    work = job.claims["work"]
    (mine,) = await ground.db.claim(work, now=NOON)
    before = ground.get(job, "a")
    for call in (
        ground.db.claim(work, lease=seconds),
        ground.db.claim_one(work, "b", lease=seconds),
        ground.db.renew(mine, lease=seconds),
    ):
        with pytest.raises(CallError, match="lease="):
            await call
    assert ground.get(job, "a") == before
    assert ground.get(job, "b")["status"] == "QUEUED"


async def test_a_renewal_for_no_time_is_refused(ground: Ground) -> None:
    """It does not mean the usual lease."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    with pytest.raises(CallError, match="is not a time"):
        await ground.db.renew(mine, lease=0)


@ENDLESS
async def test_a_rest_without_an_end_is_refused(ground: Ground, seconds: float) -> None:
    """Otherwise the row might not back off at all."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    with pytest.raises(CallError, match="delay="):
        await ground.db.fail(mine, delay=seconds)
    (kept,) = await ground.db.renew(mine, now=NOON)
    assert isinstance(kept, Claim)


@ALL_FORMS
async def test_a_lease_and_a_rest_of_a_century_hold(ground: Ground, form: str) -> None:
    """The longest allowed ones do end."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    (mine,) = await ground.db.claim(work, lease=CENTURY, now=NOON)
    assert await ground.db.claim(work, lease=CENTURY, now=after(CENTURY - 1)) == []
    (kept,) = await ground.db.renew(mine, lease=CENTURY, now=after(1))
    (given,) = await ground.db.fail(kept, delay=CENTURY, now=after(2))
    assert isinstance(given, Released)
    assert await ground.db.claim(work, now=after(CENTURY)) == []
    (again,) = await ground.db.claim(work, now=after(CENTURY + 3))
    assert again.attempt == 2


async def test_a_row_can_rest_for_no_time(ground: Ground) -> None:
    """The row can be claimed again at once, and the attempt counts."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    await ground.db.fail(mine, delay=0, now=NOON)
    (again,) = await ground.db.claim(job.claims["work"], now=NOON)
    assert again.attempt == 2


async def test_a_time_without_a_zone_is_refused_at_the_end_of_a_claim_too(ground: Ground) -> None:
    """As in other calls: without a zone the moment is ambiguous."""
    job = jobs(ground)
    await put(ground, job, "a")
    (mine,) = await ground.db.claim(job.claims["work"], now=NOON)
    naive = datetime(2030, 1, 1)  # noqa: DTZ001
    for call in (ground.db.renew, ground.db.release, ground.db.fail):
        with pytest.raises(CallError, match="time zone"):
            await call(mine, now=naive)


@pytest.mark.parametrize(
    "settings",
    [{"lease": seconds} for seconds in (0, -1, inf, nan, 1e12)]
    + [{"backoff": [first, 1]} for first in (-1, inf, nan)]
    + [{"backoff": [1, most]} for most in (-1, inf, nan, 1e12)],
    ids=str,
)
def test_what_has_no_end_cannot_be_declared(settings: dict[str, Any]) -> None:
    """A lease, and the delay after a failure."""
    moves = {"start": {"from": ["QUEUED"], "to": "RUNNING"}, "finish": {"from": ["RUNNING"], "to": "DONE"}}
    declared = {"name": "Job", "table": "jobs", "statuses": ["QUEUED", "RUNNING", "DONE"], "moves": moves}
    with pytest.raises(DeclarationError, match="a hundred years at most"):
        Lifecycle.from_dict({**declared, "claims": {"work": {"move": "start", "lease": 30, **settings}}})
