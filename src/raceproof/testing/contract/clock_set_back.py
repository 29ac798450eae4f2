"""After a store's clock is set back, a dead holder's row, lease or send permit stays reachable (A2; P3, P13)."""

import pytest

from raceproof import Lease, LeaseGranted, LeaseHeldByOther, Lost, SendPermit, Taken
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.jobs import ALL_FORMS, jobs, put
from raceproof.testing.contract.pictures import BOTH, pictures

HOUR = 3600.0


@ALL_FORMS
@pytest.mark.parametrize("how", ["claim", "claim_one"])
async def test_a_row_of_a_dead_holder_can_be_claimed_after_the_clock_was_set_back(
    ground: Ground, form: str, how: str
) -> None:
    """Its lease ends an hour from now, longer than any lease; a holder that lives after all is fenced off."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    (late,) = await ground.db.claim(work, by="dead", now=NOON)
    now = after(-HOUR)
    if how == "claim":
        (claim,) = await ground.db.claim(work, by="next", now=now)
    else:
        claim = await ground.db.claim_one(work, "a", by="next", now=now)
    assert (claim.key, claim.by, claim.taken_over) == ("a", "next", True)
    assert isinstance(await ground.db.move(job.moves["finish"], late, now=after(1 - HOUR)), Lost)
    # the new holder has its whole lease, by the clock as it is now
    assert await ground.db.claim(work, by="third", now=after(1 - HOUR)) == []
    assert (await ground.db.move(job.moves["finish"], claim, now=after(2 - HOUR))).won


@ALL_FORMS
async def test_a_holder_that_lives_renews_and_keeps_its_row(ground: Ground, form: str) -> None:
    """Another process can take the row only between the step and the next renewal."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    claims = await ground.db.claim(work, by="ann", now=NOON)
    (claim,) = await ground.db.renew(claims, now=after(-HOUR))
    assert await ground.db.claim(work, by="bob", now=after(1 - HOUR)) == []
    assert isinstance(await ground.db.claim_one(work, "a", by="bob", now=after(1 - HOUR)), Taken)
    assert (await ground.db.move(job.moves["finish"], claim, now=after(2 - HOUR))).won


@ALL_FORMS
async def test_a_small_step_back_leaves_the_holder_alone(ground: Ground, form: str) -> None:
    """Clocks are corrected by small steps all the time; up to one lease, the claim just lasts longer."""
    job = jobs(ground, form)
    await put(ground, job, "a")
    work = job.claims["work"]
    (claim,) = await ground.db.claim(work, by="ann", now=NOON)
    assert await ground.db.claim(work, by="bob", now=after(-20)) == []
    assert isinstance(await ground.db.claim_one(work, "a", by="bob", now=after(-20)), Taken)
    assert (await ground.db.move(job.moves["finish"], claim, now=after(-20))).won


async def test_a_longer_lease_than_one_s_own_is_respected(ground: Ground) -> None:
    """P3: a longer lease, from a newer release or a call, is not cut short by others."""
    job = jobs(ground)
    await put(ground, job, "a")
    work = job.claims["work"]
    (claim,) = await ground.db.claim(work, by="ann", lease=HOUR, now=NOON)
    assert await ground.db.claim(work, by="bob", now=after(1)) == []
    assert isinstance(await ground.db.claim_one(work, "a", by="bob", now=after(1)), Taken)
    (renewed,) = await ground.db.renew(claim, lease=HOUR, now=after(2))
    assert await ground.db.claim(work, by="bob", now=after(3)) == []
    assert (await ground.db.move(job.moves["finish"], renewed, now=after(4))).won


async def test_rows_that_rest_for_long_hide_no_dead_holder_s_row(ground: Ground) -> None:
    """P13: they wait for longer than a lease too, there may be many of them, and they are ready before its lease ends."""
    job = jobs(ground, claim={"max_attempts": None, "dead_letter": None, "attempts": None})
    resting = [f"r{number:02}" for number in range(25)]
    await put(ground, job, "a", *resting)
    work = job.claims["work"]
    claims = await ground.db.claim(work, 26, by="dead", now=NOON)
    dead = next(one for one in claims if one.key == "a")
    await ground.db.fail([one for one in claims if one is not dead], delay=9, now=after(1))
    found = []
    for moment in range(200):
        found += await ground.db.claim(work, 5, by="next", now=after(0.001 * moment - HOUR))
    assert [one.key for one in found] == ["a"]


async def test_the_lease_of_a_dead_leader_is_free_after_the_clock_was_set_back(ground: Ground) -> None:
    lease = Lease("bot", 30, fresh_name("leases"))
    ground.lease_table(lease.table)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    assert isinstance(await ground.db.acquire_lease(lease, "bob", now=after(-20)), LeaseHeldByOther)
    assert (await ground.db.lease_holder(lease, now=after(-20))).by == "ann"
    assert (await ground.db.lease_holder(lease, now=after(-HOUR))).by is None
    bob = await ground.db.acquire_lease(lease, "bob", now=after(-HOUR))
    assert isinstance(bob, LeaseGranted)
    assert bob.epoch > ann.epoch
    assert isinstance(await ground.db.renew_lease(ann, now=after(1 - HOUR)), LeaseHeldByOther)
    assert isinstance(await ground.db.acquire_lease(lease, "eve", now=after(1 - HOUR)), LeaseHeldByOther)
    assert isinstance(await ground.db.renew_lease(bob, now=after(2 - HOUR)), LeaseGranted)


async def test_a_longer_lease_of_a_newer_release_is_respected(ground: Ground) -> None:
    """P10: during a rolling deploy two releases declare different leases; the shorter one does not take over."""
    long = Lease("bot", 300, fresh_name("leases"))
    ground.lease_table(long.table)
    short = Lease("bot", 30, long.table)
    assert isinstance(await ground.db.acquire_lease(long, "new", now=NOON), LeaseGranted)
    assert isinstance(await ground.db.acquire_lease(short, "old", now=after(1)), LeaseHeldByOther)
    assert (await ground.db.lease_holder(short, now=after(1))).by == "new"


@BOTH
async def test_a_turn_of_a_dead_sender_is_free_after_the_clock_was_set_back(ground: Ground, told: bool) -> None:
    """Its outcome is in doubt, as after the usual time."""
    delivery, _ = pictures(ground, told)
    first = await ground.db.begin_delivery(delivery, "a", by="dead", now=NOON)
    assert not (await ground.db.begin_delivery(delivery, "a", by="next", now=after(-200))).won
    permit = await ground.db.begin_delivery(delivery, "a", by="next", now=after(-HOUR))
    assert isinstance(permit, SendPermit)
    assert (permit.in_doubt, permit.idempotency_key) == (True, first.idempotency_key)
    assert not (await ground.db.delivered(first, now=after(1 - HOUR))).won
    # the new permit lasts its whole time, by the clock as it is now
    assert not (await ground.db.begin_delivery(delivery, "a", by="third", now=after(1 - HOUR))).won
    assert (await ground.db.delivered(permit, now=after(2 - HOUR))).won
