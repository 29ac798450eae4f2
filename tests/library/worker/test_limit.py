"""A limit over processes (L13): so many workers at once, each with a slot that it keeps, loses or frees."""

import asyncio
from typing import Any

import pytest

from raceproof import Claim, ConcurrencyLimit, Leader, Lease, LeaseGranted
from raceproof.kernel.events import subscribed
from raceproof.run import Role
from raceproof.testing.contract.grounds import Ground, fresh_name
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import DEADLINE, until
from tests.library.worker.working import db, put, statuses, worker


def a_limit(ground: Ground, seconds: float = 600) -> ConcurrencyLimit:
    limit = ConcurrencyLimit("vetting", 1, seconds, fresh_name("leases"))
    ground.lease_table(limit.table)
    return limit


def slot_of(limit: ConcurrencyLimit) -> Lease:
    return Lease(f"{limit.name}/0", limit.seconds, limit.table)


async def until_free(ground: Ground, limit: ConcurrencyLimit) -> None:
    """Somebody else gets the slot; its own seconds would last for longer than a test."""
    async with asyncio.timeout(DEADLINE):
        while await limit.take(db(ground), "other") is None:
            await ground.db.lease_holder(slot_of(limit))


async def take_away(ground: Ground, slot: Lease) -> LeaseGranted:
    """Another process has the slot from now on, for longer than a test."""
    long = Lease(slot.name, 3600, slot.table)
    async with asyncio.timeout(DEADLINE):
        while True:
            held = await ground.db.lease_holder(slot)
            await ground.db.release_lease(LeaseGranted(slot, held.by or "", held.epoch, 0.0))
            other = await ground.db.acquire_lease(long, "other")
            if isinstance(other, LeaseGranted):
                return other


class Working:
    """A handler whose items wait until they may go on, and how many have begun."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, claim: Claim[Any, Any]) -> None:
        self.begun.append(claim.key)
        self.entered.set()
        await self.go_on.wait()


async def test_a_limit_holds_over_all_workers(ground: Ground) -> None:
    """However many workers there are, only so many work at once, and all of the work is done."""
    job = jobs(ground)
    keys = await put(ground, job, 12)
    limit = ConcurrencyLimit("vetting", 2, 30, job.table + "_lease")
    ground.lease_table(limit.table)
    now, most = 0, 0

    async def handle(_: Claim[Any, Any]) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    workers = [worker(ground, job, handle, by=f"w{n}", parallel=1, limit=limit, poll=0.01) for n in range(4)]
    tasks = [asyncio.create_task(one.run()) for one in workers]
    await until(lambda: statuses(ground, job, keys) == {"DONE": 12}, "all is done")
    for one in workers:
        one.stop()
    await asyncio.gather(*tasks)
    assert most <= 2


async def test_a_worker_that_is_woken_without_a_slot_asks_once(ground: Ground) -> None:
    """And then it rests until it is woken again: the store is not asked without end."""
    job = jobs(ground)
    limit = ConcurrencyLimit("vetting", 1, 600, job.table + "_lease")
    ground.lease_table(limit.table)
    assert await limit.take(db(ground), "other")
    mine = worker(ground, job, print, by="me", limit=limit, poll=600)
    asked: list[str] = []
    with subscribed(lambda event: asked.append(event.outcome) if event.by == "me/0" else None):
        running = asyncio.create_task(mine.run())
        await until(lambda: bool(asked), "the slot is asked for")
        mine.wake()
        for _ in range(50):
            await ground.db.read(job, "nobody")
        mine.stop()
        await running
    # when it begins, when it begins to listen for offers, and when it is woken
    assert 2 <= len(asked) <= 3
    assert set(asked) == {"held by another"}


async def test_who_waits_for_a_slot_is_not_silent(ground: Ground) -> None:
    """The store answers: all slots are taken."""
    job, limit = jobs(ground), a_limit(ground)
    assert await limit.take(db(ground), "other")
    mine = worker(ground, job, print, limit=limit, poll=0.001)
    running = asyncio.create_task(mine.run())
    mine._answered -= 1000
    await until(lambda: mine.silent_for < 999, "the store has answered")
    mine.stop()
    await running


async def test_a_slot_is_kept_for_as_long_as_there_is_work(ground: Ground) -> None:
    """Longer than its seconds, and nobody else gets it."""
    job, limit = jobs(ground), a_limit(ground, 0.6)
    await put(ground, job, 1)
    working = Working()
    mine = worker(ground, job, working, by="me", limit=limit)
    running = asyncio.create_task(mine.run())
    await working.entered.wait()
    before = await ground.db.lease_holder(slot_of(limit))
    while True:
        now = await ground.db.lease_holder(slot_of(limit))
        assert now.by == "me/0"
        if (now.until - before.until).total_seconds() > limit.seconds:
            break
        assert await limit.take(db(ground), "other") is None
        await asyncio.sleep(0)
    working.go_on.set()
    mine.stop()
    await running


async def test_without_its_slot_a_worker_begins_nothing_and_with_another_it_goes_on(ground: Ground) -> None:
    """Somebody else has it: what waits is given back at once, untried; what runs goes on."""
    job, limit = jobs(ground), a_limit(ground, 0.6)
    keys = await put(ground, job, 8)
    working = Working()
    mine = worker(ground, job, working, limit=limit, parallel=1, poll=0.001)
    mine._batch.size = 8
    running = asyncio.create_task(mine.run())
    await until(lambda: mine._running.items == 8, "all are held")
    other = await take_away(ground, slot_of(limit))
    await until(lambda: mine._running.items < 8, "it has learned of it")
    working.go_on.set()
    await until(lambda: statuses(ground, job, keys) == {"DONE": 1, "QUEUED": 7}, "nothing is held")
    assert working.begun == keys[:1]
    assert {ground.get(job, key)["attempts"] for key in keys[1:]} == {"0"}
    await ground.db.release_lease(other)
    await until(lambda: mine.finished == 8, "it has a slot again")
    mine.stop()
    await running


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_who_hears_nothing_of_its_slot_begins_nothing_when_its_time_is_over(
    ground: Ground, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else may have it by then; the local clock is enough to know that."""
    job, limit = jobs(ground), a_limit(ground, 0.3)
    keys = await put(ground, job, 8)
    store = db(ground)
    begun: list[str] = []

    async def hang(*_: Any) -> Any:
        await asyncio.Event().wait()

    def plain(claim: Claim[Any, Any]) -> None:
        begun.append(claim.key)
        while mine._admission.may_begin():
            """Busy for as long as the slot lasts."""

    async def coroutine(claim: Claim[Any, Any]) -> None:
        begun.append(claim.key)
        await until(lambda: not mine._admission.may_begin(), "the time of the slot is over")

    monkeypatch.setattr(store, "renew_lease", hang)
    mine = worker(ground, job, plain if kind == "plain" else coroutine, limit=limit, parallel=1, poll=600)
    mine._batch.size = 8
    running = asyncio.create_task(mine.run())
    await until(lambda: statuses(ground, job, keys) == {"DONE": 1, "QUEUED": 7}, "nothing is held")
    mine.stop()
    await running
    assert begun == keys[:1]
    assert {ground.get(job, key)["attempts"] for key in keys[1:]} == {"0"}


async def test_an_idle_worker_leaves_its_slot_to_others(ground: Ground) -> None:
    """At once, and not after its seconds."""
    job, limit = jobs(ground), a_limit(ground)
    await put(ground, job, 1)
    mine = worker(ground, job, lambda _: None, limit=limit, poll=600)
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.finished == 1, "its work is done")
    await until_free(ground, limit)
    mine.stop()
    await running


async def test_a_worker_that_ends_leaves_its_slot_to_others(ground: Ground) -> None:
    """However it ends."""
    job, limit = jobs(ground), a_limit(ground)
    await put(ground, job, 1)
    await worker(ground, job, lambda _: None, limit=limit).run(until_idle=True)
    slot = await limit.take(db(ground), "other")
    assert slot is not None
    await slot.free()
    job, working = jobs(ground), Working()
    await put(ground, job, 1)
    running = asyncio.create_task(worker(ground, job, working, limit=limit).run())
    await working.entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await limit.take(db(ground), "another")


async def test_a_worker_without_the_lead_leaves_its_slot_to_others(ground: Ground) -> None:
    """When what it had begun has ended, and not before."""
    job, limit = jobs(ground), a_limit(ground)
    await put(ground, job, 1)
    working = Working()
    async with Leader(db(ground), Lease("bot", 600, limit.table), by="me") as leader:
        await leader.wait_for(Role.ACTIVE)
        mine = worker(ground, job, working, limit=limit, leader=leader, poll=600)
        running = asyncio.create_task(mine.run())
        await working.entered.wait()
        await leader.resign()
        assert await limit.take(db(ground), "other") is None
        working.go_on.set()
        await until_free(ground, limit)
        mine.stop()
        await running
    assert mine.finished == 1
