"""What a lease promises on every store (L11; P10)."""

from dataclasses import replace
from typing import Any

import pytest

from raceproof import Lease, LeaseGranted, LeaseHeldByOther, Refused, column
from raceproof.kernel.errors import CallError
from raceproof.leases import LeaseReleased
from raceproof.leases.request import LeaseRequest
from raceproof.testing.contract.clock import NOON, after, answered_late
from raceproof.testing.contract.grounds import Caller, Ground, fresh_name
from raceproof.testing.contract.jobs import jobs
from raceproof.testing.contract.orders import orders


def a_lease(ground: Ground) -> Lease:
    lease = Lease("bot", 30, fresh_name("leases"))
    ground.lease_table(lease.table)
    return lease


async def test_one_leads_and_the_others_learn_who(ground: Ground) -> None:
    """Until the lease ends by the store's clock."""
    lease = a_lease(ground)
    assert (await ground.db.lease_holder(lease, now=NOON)).by is None
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    assert isinstance(ann, LeaseGranted)
    bob = await ground.db.acquire_lease(lease, "bob", now=after(29))
    assert isinstance(bob, LeaseHeldByOther)
    assert (bob.by, bob.epoch, bob.until) == ("ann", ann.epoch, after(30))


async def test_takeover_after_the_lease_raises_the_epoch_and_the_old_one_is_refused(ground: Ground) -> None:
    """P10: renewals match holder and epoch."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    bob = await ground.db.acquire_lease(lease, "bob", now=after(30.1))
    assert isinstance(bob, LeaseGranted)
    assert bob.epoch > ann.epoch
    for answer in (await ground.db.renew_lease(ann, now=after(31)), await ground.db.release_lease(ann, now=after(31))):
        assert isinstance(answer, LeaseHeldByOther)
        assert answer.by == "bob"
    assert isinstance(await ground.db.renew_lease(bob, now=after(40)), LeaseGranted)


async def test_only_the_holder_renews_and_steps_down(ground: Ground) -> None:
    """P10: knowing the epoch does not make a process the holder."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    eve = replace(ann, by="eve")
    for answer in (await ground.db.renew_lease(eve, now=after(1)), await ground.db.release_lease(eve, now=after(1))):
        assert isinstance(answer, LeaseHeldByOther)
        assert answer.by == "ann"
    assert (await ground.db.lease_holder(lease, now=after(29))).by == "ann"
    assert (await ground.db.lease_holder(lease, now=after(31))).by is None


async def test_a_lease_is_counted_from_before_the_question(ground: Ground) -> None:
    """P10: however late the answer comes, the holder's deadline is not after the store's."""
    lease = a_lease(ground)
    driver: Any = ground.db.store.driver
    leases = driver.programs.leases
    ann = await ground.db.acquire_lease(lease, "ann")
    other = Lease("other", 30, lease.table)
    for program in (leases.acquire(LeaseRequest(other, "ann")), leases.renew(LeaseRequest(lease, "ann", ann.epoch))):
        answer, sent = await Caller(driver).run(answered_late(program))
        assert isinstance(answer, LeaseGranted)
        assert answer.deadline <= sent + lease.seconds


async def test_a_renewed_lease_lasts_longer(ground: Ground) -> None:
    """The epoch stays the same."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    kept = await ground.db.renew_lease(ann, now=after(20))
    assert isinstance(kept, LeaseGranted)
    assert kept.epoch == ann.epoch
    assert isinstance(await ground.db.acquire_lease(lease, "bob", now=after(49)), LeaseHeldByOther)


async def test_who_steps_down_leaves_it_to_the_next_at_once_and_cannot_come_back_in_the_old_epoch(
    ground: Ground,
) -> None:
    """At once, with a new epoch."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    assert isinstance(await ground.db.release_lease(ann, now=after(1)), LeaseReleased)
    assert isinstance(await ground.db.release_lease(ann, now=after(1)), LeaseReleased), (
        "the same call again is the same answer"
    )
    assert isinstance(await ground.db.renew_lease(ann, now=after(2)), LeaseHeldByOther)
    bob = await ground.db.acquire_lease(lease, "bob", now=after(2))
    assert isinstance(bob, LeaseGranted)
    assert bob.epoch > ann.epoch


async def test_the_same_holder_gets_a_new_epoch_after_its_lease(ground: Ground) -> None:
    """A process that was away does not continue in its old epoch."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    again = await ground.db.acquire_lease(lease, "ann", now=after(31))
    assert isinstance(again, LeaseGranted)
    assert again.epoch > ann.epoch


async def test_an_epoch_grows_also_when_the_clock_of_the_store_goes_back(ground: Ground) -> None:
    """P10: otherwise a write of the old leader would pass for one of the new."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    await ground.db.release_lease(ann, now=NOON)
    bob = await ground.db.acquire_lease(lease, "bob", now=after(-3600))
    assert isinstance(bob, LeaseGranted)
    assert bob.epoch > ann.epoch


async def test_an_epoch_is_not_behind_the_clock_of_the_store(ground: Ground) -> None:
    """P10: after a failover that lost the last takeovers, their epochs do not come back."""
    lease = a_lease(ground)
    for seconds in (0, 31, 62):
        answer = await ground.db.acquire_lease(lease, "ann", now=after(seconds))
        assert isinstance(answer, LeaseGranted)
        assert answer.epoch >= after(seconds).timestamp() * 1_000_000


async def test_a_lock_takes_nothing_from_a_holder_that_has_none(ground: Ground) -> None:
    """Its advisory lock is free because it never had one, and it lives: only the end of its lease says it is gone."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    assert isinstance(
        await ground.db.acquire_lease(lease, "bob", now=after(1), session=True, locked=True), LeaseHeldByOther
    )
    await ground.db.renew_lease(ann, now=after(2))
    assert isinstance(
        await ground.db.acquire_lease(lease, "bob", now=after(3), session=True, locked=True), LeaseHeldByOther
    )


async def test_who_does_not_look_at_the_answer_cannot_use_the_epoch_of_the_leader(ground: Ground) -> None:
    """P10, P11: the answer carries the leader's epoch, with which one could write, renew and release in its name."""
    lease = a_lease(ground)
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    bob = await ground.db.acquire_lease(lease, "bob", now=after(1))
    looked = await ground.db.lease_holder(lease, now=after(1))
    for call in (ground.db.lease_guard, ground.db.renew_lease, ground.db.release_lease):
        for answer in (bob, looked):
            with pytest.raises(
                CallError, match=f"does not hold this lease: lease bot is held by ann in epoch {ann.epoch}"
            ):
                await call(answer)
    down = await ground.db.release_lease(ann, now=after(2))
    for call in (ground.db.lease_guard, ground.db.renew_lease, ground.db.release_lease):
        with pytest.raises(CallError, match=r"ann has given up lease bot .* isinstance\(answer, LeaseGranted\)"):
            await call(down)


async def test_a_bad_lease_is_an_error_of_the_call(ground: Ground) -> None:
    """Before anything is sent."""
    with pytest.raises(CallError, match="expected a lease, as in Lease"):
        await ground.db.acquire_lease("bot")


async def test_a_write_of_an_old_leader_is_refused_in_the_store(ground: Ground) -> None:
    """P10: the write carries the epoch; what the process believes does not matter."""
    lease = a_lease(ground)
    order = orders()
    ground.table(order)
    for key in "abcd":
        ground.put(order, key, "NEW")
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    guard = await ground.db.lease_guard(ann)
    assert (await ground.db.move(order.moves["pack"], "a", where=guard)).won
    bob = await ground.db.acquire_lease(lease, "bob", now=after(31))
    refused = await ground.db.move(order.moves["pack"], "b", where=guard)
    assert isinstance(refused, Refused)
    assert refused.unmet == (f"epoch {ann.epoch} of bot",)
    (bulk,) = await ground.db.move_many(order.moves["pack"], ["b"], where=[guard, column("order_id") == "b"])
    assert isinstance(bulk, Refused)
    assert ground.get(order, "b")["status"] == "NEW"
    assert (await ground.db.move(order.moves["pack"], "b", where=await ground.db.lease_guard(bob))).won


async def test_a_guard_looks_at_its_own_lease(ground: Ground) -> None:
    """P10: leases acquired at the same moment have the same epoch."""
    bot = a_lease(ground)
    order = orders()
    ground.table(order)
    ground.put(order, "a", "NEW")
    ann = await ground.db.acquire_lease(bot, "ann", now=NOON)
    eve = await ground.db.acquire_lease(Lease("other", 30, bot.table), "eve", now=NOON)
    assert ann.epoch == eve.epoch
    bob = await ground.db.acquire_lease(bot, "bob", now=after(31))
    old, own, new = [await ground.db.lease_guard(one) for one in (ann, eve, bob)]
    pack = order.moves["pack"]
    for guards in ([old], [old, own], [own, old]):
        assert isinstance(await ground.db.move(pack, "a", where=guards), Refused)
    assert (await ground.db.move(pack, "a", where=[own, new])).won


async def test_an_old_leader_claims_nothing(ground: Ground) -> None:
    """A claim can be guarded by an epoch too."""
    lease = a_lease(ground)
    job = jobs(ground)
    ground.put(job, "a", "QUEUED", made_at=1)
    await ground.db.offer(job.claims["work"], ["a"])
    ann = await ground.db.acquire_lease(lease, "ann", now=NOON)
    bob = await ground.db.acquire_lease(lease, "bob", now=after(31))
    old, new = await ground.db.lease_guard(ann), await ground.db.lease_guard(bob)
    assert await ground.db.claim(job.claims["work"], where=old, now=after(32)) == []
    assert [one.key for one in await ground.db.claim(job.claims["work"], where=new, now=after(32))] == ["a"]


async def test_only_a_lease_that_was_held_before_is_taken_over(ground: Ground) -> None:
    """The first leader takes over from no process; later leaders do, also after a release. A renewal does not."""
    lease = Lease("bot", 30, fresh_name("leases"))
    ground.lease_table(lease.table)
    first = await ground.db.acquire_lease(lease, "ann", now=NOON)
    assert (first.taken_over, first.outcome) == (False, "granted")
    assert not (await ground.db.renew_lease(first, now=after(1))).taken_over
    second = await ground.db.acquire_lease(lease, "bob", now=after(40))
    assert (second.taken_over, second.outcome) == (True, "took over")
    assert second.epoch > first.epoch
    await ground.db.release_lease(second, now=after(41))
    third = await ground.db.acquire_lease(lease, "ann", now=after(41))
    assert third.taken_over
    assert third.epoch > second.epoch
