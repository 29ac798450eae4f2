"""What users of other locks expect: redis-py, python-redis-lock, pals, pottery and sherlock."""

import math
from dataclasses import replace
from typing import Any

import pytest

from raceproof import DeclarationError, Lease, LeaseGranted, LeaseHeldByOther
from raceproof.leases import LeaseReleased
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Ground, fresh_name


def a_lock(ground: Ground, seconds: float = 10) -> Lease:
    lock = Lease("nightly", seconds, fresh_name("locks"))
    ground.lease_table(lock.table)
    return lock


async def test_of_competing_locks_one_is_acquired_and_after_its_release_the_other(ground: Ground) -> None:
    """redis-py test_competing_locks."""
    lock = a_lock(ground)
    first = await ground.db.acquire_lease(lock, "one", now=NOON)
    assert first.won
    assert not (await ground.db.acquire_lease(lock, "two", now=NOON)).won
    assert isinstance(await ground.db.release_lease(first, now=after(1)), LeaseReleased)
    second = await ground.db.acquire_lease(lock, "two", now=after(1))
    assert second.won
    assert not (await ground.db.acquire_lease(lock, "one", now=after(1))).won


async def test_a_lock_that_expired_and_belongs_to_another_cannot_be_released(ground: Ground) -> None:
    """redis-py test_releasing_lock_no_longer_owned_raises_error; here the answer names the owner."""
    lock = a_lock(ground)
    first = await ground.db.acquire_lease(lock, "one", now=NOON)
    second = await ground.db.acquire_lease(lock, "two", now=after(11))
    released = await ground.db.release_lease(first, now=after(12))
    assert isinstance(released, LeaseHeldByOther)
    assert (released.by, released.epoch, released.reached) == ("two", second.epoch, False)
    assert (await ground.db.lease_holder(lock, now=after(12))).by == "two"


async def test_the_token_of_an_earlier_acquisition_does_not_extend_a_later_one(ground: Ground) -> None:
    """redis-py test_extend_lock_not_owned, test_token: the epoch is the token, also for the same name."""
    lock = a_lock(ground)
    first = await ground.db.acquire_lease(lock, "one", now=NOON)
    again = await ground.db.acquire_lease(lock, "one", now=after(11))
    assert again.epoch > first.epoch
    assert isinstance(await ground.db.renew_lease(first, now=after(12)), LeaseHeldByOther)
    assert isinstance(await ground.db.renew_lease(replace(again, by="two"), now=after(12)), LeaseHeldByOther)
    assert isinstance(await ground.db.renew_lease(again, now=after(12)), LeaseGranted)


async def test_a_holder_that_acquires_again_is_refused_and_keeps_its_token(ground: Ground) -> None:
    """redis-py's lock is not reentrant either; two threads with one name must not both believe they won."""
    lock = a_lock(ground)
    first = await ground.db.acquire_lease(lock, "one", now=NOON)
    again = await ground.db.acquire_lease(lock, "one", now=after(1))
    assert isinstance(again, LeaseHeldByOther)
    assert (again.by, again.epoch, again.until) == ("one", first.epoch, after(10))


async def test_whether_a_lock_is_still_mine_can_be_asked_without_extending_it(ground: Ground) -> None:
    """redis-py test_owned, test_locked: holder and epoch tell; the lease does not get longer."""
    lock = a_lock(ground)

    async def owned(mine: LeaseGranted, seconds: float) -> bool:
        found = await ground.db.lease_holder(lock, now=after(seconds))
        return bool((found.by, found.epoch) == (mine.by, mine.epoch))

    first = await ground.db.acquire_lease(lock, "one", now=NOON)
    assert await owned(first, 5)
    assert (await ground.db.lease_holder(lock, now=after(5))).until == after(10)
    assert not await owned(first, 11)
    second = await ground.db.acquire_lease(lock, "one", now=after(11))
    assert not await owned(first, 12)
    assert await owned(second, 12)


async def test_extending_a_lock_begins_its_whole_time_again(ground: Ground) -> None:
    """redis-py test_reacquire_lock; extending by an additional time does not exist."""
    lock = a_lock(ground)
    held = await ground.db.acquire_lease(lock, "one", now=NOON)
    assert (await ground.db.renew_lease(held, now=after(9))).won
    assert (await ground.db.lease_holder(lock, now=after(9))).until == after(19)


async def test_a_loser_learns_until_when_it_would_have_to_wait(ground: Ground) -> None:
    """For callers that retry in a loop of their own: `acquire_lease` never blocks."""
    lock = a_lock(ground)
    await ground.db.acquire_lease(lock, "one", now=NOON)
    led = await ground.db.acquire_lease(lock, "two", now=after(4))
    assert isinstance(led, LeaseHeldByOther)
    assert led.until == after(10)
    assert (await ground.db.acquire_lease(lock, "two", now=after(10.1))).won


@pytest.mark.parametrize("seconds", [None, math.inf], ids=str)
def test_a_lock_without_a_timeout_is_refused_with_what_to_do_instead(seconds: Any) -> None:
    """redis-py's default; a dead holder would keep the lock for ever."""
    with pytest.raises(DeclarationError, match="with a dead holder for ever; give a time, such as 3600 "):
        Lease("nightly", seconds)
