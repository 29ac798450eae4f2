"""What a worker promises (L13; P4, P5, P13), on every store that it can run on: items, handlers, and others beside it."""

import asyncio
import functools
import threading
from pathlib import Path
from typing import Any

import pytest

from raceproof import Claim, Inbox, Scheduler, Worker, connect
from raceproof.kernel.errors import CallError
from raceproof.run import Failure, Finished
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import until
from tests.library.worker.working import db, put, seen_by, statuses, worker


async def test_plain_functions_and_coroutines_finish_every_item_once(ground: Ground) -> None:
    """Whichever the handler is, every row is finished, each handled once."""
    for kind in ("plain", "coroutine"):
        job = jobs(ground)
        keys = await put(ground, job, 40)
        seen: list[str] = []

        async def handle(claim: Claim[Any, Any], seen: list[str] = seen) -> None:
            seen.append(claim.key)

        mine = worker(ground, job, seen_by(seen) if kind == "plain" else handle)
        await mine.run(until_idle=True)
        assert sorted(seen) == keys
        assert statuses(ground, job, keys) == {"DONE": 40}
        assert (mine.finished, mine.failed, mine.lost) == (40, 0, 0)


async def test_what_a_handler_returns_is_set_along_with_the_end(ground: Ground) -> None:
    """In the same write."""
    job = jobs(ground)
    keys = await put(ground, job, 5)

    def handle(claim: Claim[Any, Any]) -> dict[str, Any]:
        return {"result": f"of {claim.key}"}

    await worker(ground, job, handle).run(until_idle=True)
    assert [ground.get(job, key)["result"] for key in keys] == [f"of {key}" for key in keys]


async def test_an_item_that_fails_rests_and_does_not_hold_up_the_others(ground: Ground) -> None:
    """It is given back with its reason; after its last attempt it is set aside."""
    job = jobs(ground, claim={"backoff": [0.001, 0.001], "max_attempts": 3})
    keys = await put(ground, job, 6)

    async def handle(claim: Claim[Any, Any]) -> None:
        if claim.key == keys[0]:
            raise ValueError("bad picture")

    mine = worker(ground, job, handle)
    while ground.get(job, keys[0])["status"] != "DEAD":
        await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"DONE": 5, "DEAD": 1}
    assert mine.failed == 3


async def test_an_item_that_takes_too_long_is_given_back(ground: Ground) -> None:
    """Its timeout, for coroutines and for plain functions, whose thread cannot be stopped."""
    for kind in ("coroutine", "plain"):
        job = jobs(ground)
        keys = await put(ground, job, 1)
        release = threading.Event()

        async def sleepy(_: Claim[Any, Any]) -> None:
            await asyncio.Event().wait()

        def stuck(_: Claim[Any, Any], release: threading.Event = release) -> None:
            release.wait(30)

        await worker(ground, job, sleepy if kind == "coroutine" else stuck, timeout=0.05).run(until_idle=True)
        release.set()
        row = ground.get(job, keys[0])
        assert (row["status"], row["attempts"]) == ("QUEUED", "1")


async def test_no_more_items_run_at_once_than_may(ground: Ground) -> None:
    """Also while batches grow and the next is claimed before the last has ended, `parallel` holds."""
    job = jobs(ground)
    keys = await put(ground, job, 60)
    running = most = 0

    async def handle(claim: Claim[Any, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(1 + int(claim.key[1:]) % 7 * 5):
            await asyncio.sleep(0)
        running -= 1

    mine = worker(ground, job, handle, parallel=3)
    mine._batch.size = 24
    await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"DONE": 60}
    assert most == 3


async def test_long_items_keep_no_place_that_is_free(ground: Ground) -> None:
    """Three run and do not end; the fourth, which comes later, is run beside them."""
    job = jobs(ground)
    keys = await put(ground, job, 3)
    entered, release, done = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()

    async def handle(claim: Claim[Any, Any]) -> None:
        if claim.key not in keys:
            done.set()
            return
        entered.release()
        await release.wait()

    mine = worker(ground, job, handle, parallel=4, poll=3600)
    running = asyncio.create_task(mine.run())
    for _ in keys:
        await entered.acquire()
    ground.put(job, "later", "QUEUED", made_at=3)
    await ground.db.offer(job.claims["work"], ["later"])
    await until(done.is_set, "the fourth has run")
    release.set()
    mine.stop()
    await running
    assert statuses(ground, job, [*keys, "later"]) == {"DONE": 4}


async def test_two_workers_share_the_work_and_run_nothing_twice(ground: Ground) -> None:
    """Each row is one worker's."""
    job = jobs(ground)
    keys = await put(ground, job, 60)
    seen: list[str] = []
    one, two = (worker(ground, job, seen_by(seen), by=name) for name in ("one", "two"))
    await asyncio.gather(one.run(until_idle=True), two.run(until_idle=True))
    assert sorted(seen) == keys
    assert one.finished + two.finished == 60


async def test_a_late_worker_is_refused_and_the_work_of_the_current_one_stays(ground: Ground) -> None:
    """P4: the row was taken over while the handler ran; its end is not written."""
    job = jobs(ground, claim={"lease": 3600})
    (key,) = await put(ground, job, 1)

    async def handle(claim: Claim[Any, Any]) -> dict[str, Any]:
        await ground.db.release(claim)
        await ground.db.claim_one(job.claims["work"], key, by="somebody else")
        return {"result": "late"}

    mine = worker(ground, job, handle)
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.lost > 0, "the late end was refused")
    mine.stop()
    await running
    assert (ground.get(job, key)["status"], ground.get(job, key)["result"]) == ("RUNNING", None)


async def test_a_handler_can_say_how_its_item_is_given_back(ground: Ground) -> None:
    """`Failure` with a delay, or without counting the attempt."""
    job = jobs(ground)
    (key,) = await put(ground, job, 1)

    async def handle(_: Claim[Any, Any]) -> None:
        raise Failure("not yet", counted=False)

    mine = worker(ground, job, handle)
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.failed > 0, "the item failed")
    mine.stop()
    await running
    assert ground.get(job, key)["attempts"] == "0"


async def test_a_worker_that_cannot_work_is_not_made(ground: Ground) -> None:
    """The finishing move must lead from where claimed rows are."""
    job = jobs(ground)
    with pytest.raises(CallError, match="does not lead from RUNNING"):
        Worker(db(ground), job.claims["work"], seen_by([]), finish=job.moves["start"])
    with pytest.raises(CallError, match="is a move of"):
        Worker(db(ground), job.claims["work"], seen_by([]), finish=jobs(ground).moves["finish"])
    with pytest.raises(CallError, match="parallel=0 would run nothing"):
        worker(ground, job, seen_by([]), parallel=0)
    with pytest.raises(CallError, match="handler must be a callable that takes one Claim, got None"):
        worker(ground, job, None)


async def test_a_worker_needs_an_async_store(tmp_path: Path) -> None:
    """And says how to get one."""
    inbox = Inbox()
    with connect(f"sqlite:///{tmp_path / 'rows.db'}") as store:
        with pytest.raises(CallError, match="async with connect"):
            Worker(store, inbox.work, seen_by([]), finish=inbox.finish)  # type: ignore[arg-type]
        with pytest.raises(CallError, match="async with connect"):
            Scheduler(store)  # type: ignore[arg-type]


class Handling:
    """An object that is called, and awaited."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, claim: Claim[Any, Any]) -> None:
        self.seen.append(claim.key)


@pytest.mark.parametrize("bound", [False, True])
async def test_an_object_with_an_async_call_is_a_coroutine_handler(ground: Ground, bound: bool) -> None:
    """As it is, and behind functools.partial."""
    job = jobs(ground)
    keys = await put(ground, job, 3)
    handling = Handling()
    mine = worker(ground, job, functools.partial(handling) if bound else handling)
    await mine.run(until_idle=True)
    assert (sorted(handling.seen), mine.finished, mine.failed) == (keys, 3, 0)


async def test_a_handler_that_has_finished_its_item_itself_says_so(ground: Ground) -> None:
    """P6: its own writes and the end of the item were one transaction."""
    job = jobs(ground)
    keys = await put(ground, job, 3)

    async def handle(claim: Claim[Any, Any]) -> Any:
        assert (await ground.db.move(job.moves["finish"], claim, set={"result": "mine"})).won
        return Finished

    mine = worker(ground, job, handle)
    await mine.run(until_idle=True)
    assert (mine.finished, mine.lost) == (3, 0)
    assert [ground.get(job, key)["result"] for key in keys] == ["mine"] * 3
