"""Plain functions run in threads of the worker's own (L13, P13, P14): each has its time from when it begins."""

import asyncio
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from raceproof import Claim
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import DEADLINE, until
from tests.library.worker.working import put, statuses, worker

MANY = 40
"""More than the threads that a loop has for everybody, which are 32 at most."""


async def test_as_many_plain_items_run_at_once_as_may(ground: Ground) -> None:
    """None waits for a thread."""
    job = jobs(ground)
    keys = await put(ground, job, MANY)
    all_at_once = threading.Barrier(MANY, timeout=DEADLINE)

    def handle(_: Claim[Any, Any]) -> None:
        all_at_once.wait()

    mine = worker(ground, job, handle, parallel=MANY)
    await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"DONE": MANY}
    assert (mine.finished, mine.failed) == (MANY, 0)


async def test_items_that_hang_take_no_thread_from_the_others(ground: Ground) -> None:
    """However many have been given up: the next ones run, and cost one attempt."""
    job = jobs(ground)
    keys = await put(ground, job, MANY + 10)
    hanging, good = keys[:MANY], keys[MANY:]
    release = threading.Event()
    ended: list[str] = []

    def handle(claim: Claim[Any, Any]) -> None:
        if claim.key in hanging:
            release.wait(DEADLINE)
            ended.append(claim.key)

    mine = worker(ground, job, handle, parallel=MANY, max_batch=MANY, timeout=0.05)
    await mine.run(until_idle=True)
    assert not ended
    release.set()
    assert statuses(ground, job, good) == {"DONE": 10}
    assert {ground.get(job, key)["attempts"] for key in keys} == {"1"}
    assert statuses(ground, job, hanging) == {"QUEUED": MANY}


async def test_an_item_that_has_not_begun_is_not_overdue(ground: Ground) -> None:
    """Its thread comes late: the time counts from then on."""
    job = jobs(ground)
    keys = await put(ground, job, 1)
    busy = threading.Event()
    mine = worker(ground, job, lambda _: None, timeout=0.01)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(busy.wait, DEADLINE)
        mine._items._threads = threads  # type: ignore[attr-defined]
        running = asyncio.create_task(mine.run(until_idle=True))
        await until(lambda: len(mine._running) > 0, "the item has its turn")
        late = time.monotonic() + 0.1
        await until(lambda: time.monotonic() > late, "its time would be over")
        busy.set()
        await running
    assert statuses(ground, job, keys) == {"DONE": 1}
    assert mine.failed == 0


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_what_has_not_begun_when_the_time_of_a_batch_is_over_has_not_been_tried(
    ground: Ground, kind: str
) -> None:
    """It is given back; each attempt that is counted is one that began."""
    job = jobs(ground)
    keys = await put(ground, job, 4)
    began = Counter[str]()
    release = threading.Event()

    def plain(claim: Claim[Any, Any]) -> None:
        began[claim.key] += 1
        release.wait(DEADLINE)

    async def coroutine(claim: Claim[Any, Any]) -> None:
        began[claim.key] += 1
        await asyncio.Event().wait()

    mine = worker(ground, job, plain if kind == "plain" else coroutine, parallel=1, batch_timeout=0.1)
    mine._batch.size = 4
    await mine.run(until_idle=True)
    release.set()
    assert {key: ground.get(job, key)["attempts"] for key in keys} == {key: str(count) for key, count in began.items()}
    assert statuses(ground, job, keys) == {"QUEUED": 4}


@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_a_plain_item_that_goes_on_after_the_worker_is_left_to_its_lease(ground: Ground, how: str) -> None:
    """Its thread still runs, so nobody may have it at once; what was not begun anybody may have."""
    job = jobs(ground, claim={"lease": 3600})
    keys = await put(ground, job, 5)
    entered, release = threading.Event(), threading.Event()

    def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        release.wait(DEADLINE)

    mine = worker(ground, job, handle, parallel=1, drain=0.01)
    mine._batch.size = 5
    running = asyncio.create_task(mine.run())
    await until(lambda: entered.is_set() and mine._running.items == 4, "it has begun, and no claim is on its way")
    if how == "stopped":
        mine.stop()
        await running
    else:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert statuses(ground, job, keys) == {"RUNNING": 1, "QUEUED": 4}
    assert (ground.get(job, keys[0])["status"], ground.get(job, keys[0])["attempts"]) == ("RUNNING", "1")
    assert {ground.get(job, key)["attempts"] for key in keys[1:]} <= {"0", None}
    assert {one.key for one in await ground.db.claim(job.claims["work"], 10)} == set(keys[1:])
    after = datetime.now(UTC) + timedelta(seconds=3700)
    assert keys[0] in {one.key for one in await ground.db.claim(job.claims["work"], 10, now=after)}
    release.set()


async def test_a_plain_item_that_exits_has_failed(ground: Ground) -> None:
    """`sys.exit()` in a thread ends nothing but the item."""
    job = jobs(ground)
    keys = await put(ground, job, 6)

    def handle(claim: Claim[Any, Any]) -> None:
        if claim.key == keys[2]:
            sys.exit("enough")

    mine = worker(ground, job, handle)
    await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"DONE": 5, "QUEUED": 1}
    assert (mine.finished, mine.failed) == (5, 1)
