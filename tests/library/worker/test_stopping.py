"""How a worker keeps what it runs, and how it stops (L13; P13, P14): renewals go on until the last item has ended."""

import asyncio
from typing import Any

import pytest

from raceproof import Claim
from raceproof.kernel.errors import CallError
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import until
from tests.library.worker.working import db, put, seen_by, statuses, until_renewed, worker


async def test_a_long_item_keeps_its_row_by_renewing(ground: Ground) -> None:
    """The lease is short, the work is not; nobody else gets the row."""
    job = jobs(ground, claim={"lease": 0.6})
    keys = await put(ground, job, 1)
    renewed = asyncio.Event()
    entered = asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        await renewed.wait()

    running = asyncio.create_task(worker(ground, job, handle, by="first").run(until_idle=True))
    await entered.wait()
    await until_renewed(ground, job, keys[0])
    renewed.set()
    await running
    assert statuses(ground, job, keys) == {"DONE": 1}


async def test_the_heartbeat_goes_on_while_a_worker_drains(ground: Ground) -> None:
    """P13: it stops last. What runs is nobody else's before it has ended, however long that takes."""
    job = jobs(ground, claim={"lease": 0.6})
    keys = await put(ground, job, 1)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        await go_on.wait()

    mine = worker(ground, job, handle)
    running = asyncio.create_task(mine.run())
    await entered.wait()
    mine.stop()
    await until_renewed(ground, job, keys[0])
    go_on.set()
    await running
    assert statuses(ground, job, keys) == {"DONE": 1}
    assert (mine.finished, mine.lost) == (1, 0)


async def test_a_renewal_that_hangs_is_not_the_last(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """P13: it is given up in time for the next one to keep the row."""
    job = jobs(ground, claim={"lease": 1.5})
    keys = await put(ground, job, 1)
    store = db(ground)
    really_renew = store.renew
    hanging, renewed = asyncio.Event(), asyncio.Event()

    async def hanging_at_first(claims: Any) -> Any:
        if not hanging.is_set():
            hanging.set()
            await asyncio.Event().wait()
        answers = await really_renew(claims)
        renewed.set()
        return answers

    async def handle(_: Claim[Any, Any]) -> None:
        await until(renewed.is_set, "it is renewed")

    monkeypatch.setattr(store, "renew", hanging_at_first)
    mine = worker(ground, job, handle)
    await mine.run(until_idle=True)
    assert (mine.finished, mine.failed, mine.lost) == (1, 0, 0)
    assert statuses(ground, job, keys) == {"DONE": 1}


async def test_a_run_whose_row_somebody_else_has_is_cancelled(ground: Ground) -> None:
    """P14: the heartbeat learns of it; what it still did would be in vain."""
    job = jobs(ground, claim={"lease": 0.6})
    (key,) = await put(ground, job, 1)
    cancelled = asyncio.Event()

    async def handle(claim: Claim[Any, Any]) -> None:
        await ground.db.release(claim)
        await ground.db.claim_one(job.claims["work"], key, by="somebody else", lease=3600)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    mine = worker(ground, job, handle)
    running = asyncio.create_task(mine.run())
    await until(cancelled.is_set, "the run is cancelled")
    mine.stop()
    await running
    assert (ground.get(job, key)["status"], mine.lost) == ("RUNNING", 1)


async def test_stopping_lets_running_items_end_and_gives_the_rest_back(ground: Ground) -> None:
    """Graceful drain: begun ones are finished, the others can be claimed at once and cost no attempt."""
    job = jobs(ground)
    keys = await put(ground, job, 10)
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        await go_on.wait()

    mine = worker(ground, job, handle, parallel=2)
    mine._batch.size = 10
    running = asyncio.create_task(mine.run())
    await entered.wait()
    mine.stop()
    go_on.set()
    await running
    assert statuses(ground, job, keys) == {"DONE": 2, "QUEUED": 8}
    assert {ground.get(job, key)["attempts"] for key in keys[2:]} <= {"0", "1", None}
    assert {ground.get(job, key)["attempts"] for key in keys if ground.get(job, key)["status"] == "QUEUED"} == {"0"}


async def test_a_cancelled_worker_leaves_every_row_claimable(ground: Ground) -> None:
    """P14: wherever the cancellation arrives."""
    job = jobs(ground, claim={"not_before": None})
    keys = await put(ground, job, 6)
    entered = asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(worker(ground, job, handle, parallel=2).run())
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert statuses(ground, job, keys) == {"QUEUED": 6}
    assert len(await ground.db.claim(job.claims["work"], 10)) == 6


async def test_a_cancelled_worker_does_not_wait_for_what_runs(ground: Ground) -> None:
    """P14: nor for the time that `stop()` would give it."""
    job = jobs(ground, claim={"not_before": None})
    keys = await put(ground, job, 1)
    entered = asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(worker(ground, job, handle, drain=3600).run())
    await entered.wait()
    running.cancel()
    await until(running.done, "the worker has ended")
    assert running.cancelled()
    assert statuses(ground, job, keys) == {"QUEUED": 1}


async def test_a_worker_that_is_cancelled_twice_still_ends_in_good_order(ground: Ground) -> None:
    """P14: the second cancellation waits until every row is written."""
    job = jobs(ground, claim={"not_before": None})
    keys = await put(ground, job, 6)
    entered, cleaning, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go_on.wait()

    running = asyncio.create_task(worker(ground, job, handle, parallel=2).run())
    await entered.wait()
    running.cancel()
    await cleaning.wait()
    running.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert statuses(ground, job, keys) == {"QUEUED": 6}


async def test_a_worker_that_was_stopped_is_not_run_again(ground: Ground) -> None:
    """One that is stopped before it begins does nothing; one that was stopped says so, instead of doing nothing."""
    job = jobs(ground)
    keys = await put(ground, job, 2)
    mine = worker(ground, job, seen_by([]))
    mine.stop()
    await mine.run()
    with pytest.raises(CallError, match="was stopped; make another one"):
        await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"QUEUED": 2}
