"""What a worker promises (L13; P4, P5, P13, P14), on every store that it can run on."""

import asyncio
import threading
from typing import Any

import pytest

from raceproof import Arrival, CallError, Claim, Failure, Finished, Inbox, Limit, Worker, subscribed
from tests.contract.grounds import Ground
from tests.contract.jobs import jobs
from tests.fix_waiting import until
from tests.worker.working import db, put, statuses, worker


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


def seen_by(seen: list[str]) -> Any:
    def handle(claim: Claim[Any, Any]) -> None:
        seen.append(claim.key)

    return handle


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
    job = jobs(ground, claim={"backoff": [0.001, 0.001], "cap": 3})
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
    (before,) = await ground.db.claims(job.claims["work"])
    while True:
        (now,) = await ground.db.claims(job.claims["work"])
        assert now.holder == "first"
        if (now.until - before.until).total_seconds() > 0.6:
            break
        assert await ground.db.claim(job.claims["work"], by="thief") == []
        await asyncio.sleep(0)
    renewed.set()
    await running
    assert statuses(ground, job, keys) == {"DONE": 1}


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
    assert {
        ground.get(job, key)["attempts"] for key in keys if ground.get(job, key)["status"] == "QUEUED"
    } == {"0"}


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


async def test_a_cancelled_worker_leaves_every_row_claimable(ground: Ground) -> None:
    """P14: wherever the cancellation arrives."""
    job = jobs(ground, claim={"after": None})
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


async def test_an_offer_wakes_a_worker_that_would_not_poll_for_an_hour(ground: Ground) -> None:
    """On every store: in this process the offer itself wakes it."""
    job = jobs(ground)
    done = asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        done.set()

    mine = worker(ground, job, handle, poll=3600)
    running = asyncio.create_task(mine.run())
    await asyncio.sleep(0)
    await put(ground, job, 1)
    await ground.db.offer(job.claims["work"], ["j000"])
    await done.wait()
    mine.stop()
    await running


async def test_an_event_that_is_kept_wakes_a_worker_of_its_inbox(ground: Ground) -> None:
    """Without an offer: who receives it knows that there is work."""
    inbox = Inbox(table=f"{jobs(ground).table}_inbox")
    ground.inbox_table(inbox)
    heard = asyncio.Queue[str]()

    async def handle(claim: Claim[Any, Any]) -> None:
        heard.put_nowait(claim.row["event_id"])

    mine = Worker(db(ground), inbox.work, handle, finish=inbox.finish, poll=3600, returning=["event_id"])
    running = asyncio.create_task(mine.run())
    for number in range(3):
        await ground.db.receive(inbox, Arrival("shop", f"e-{number}", b"{}"))
        assert await heard.get() == f"e-{number}"
    mine.stop()
    await running


async def test_an_event_does_not_wake_the_worker_of_another_inbox(ground: Ground) -> None:
    """All inboxes have a lifecycle of the same name; what they are told apart by is their table."""
    woken: list[str] = []
    store = db(ground)
    one, other = (Inbox(table=f"{jobs(ground).table}_{name}") for name in ("one", "other"))
    ground.inbox_table(other)
    with (
        store._woken(one.work, lambda: woken.append("one")),
        store._woken(other.work, lambda: woken.append("other")),
    ):
        await store.receive(other, Arrival("shop", "e-1", b"{}"))
    assert set(woken) == {"other"}


async def test_a_worker_tells_for_how_long_the_store_has_been_silent(ground: Ground) -> None:
    """Nothing while items run or the store answers; a store that hangs makes it grow."""
    job = jobs(ground)
    mine = worker(ground, job, lambda _: None, poll=3600)
    before = mine.silent_for
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.silent_for < before or mine.silent_for < 0.001, "the store has answered")
    mine._answered -= 1000
    assert mine.silent_for > 999
    mine.wake()
    await until(lambda: mine.silent_for < 999, "the store has answered again")
    mine.stop()
    await running


async def test_a_limit_holds_over_all_workers(ground: Ground) -> None:
    """However many workers there are, only so many work at once, and all of the work is done."""
    job = jobs(ground)
    keys = await put(ground, job, 12)
    limit = Limit("vetting", 2, 30, job.table + "_lease")
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
    limit = Limit("vetting", 1, 600, job.table + "_lease")
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
    assert set(asked) == {"led"}


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
