"""What a worker promises (L13; P4, P5, P13, P14), on every store that it can run on."""

import asyncio
import functools
import threading
from pathlib import Path
from typing import Any

import pytest

from raceproof import (
    Arrival,
    CallError,
    Claim,
    Failure,
    Finished,
    Inbox,
    Scheduler,
    Worker,
    connect,
)
from tests.contract.grounds import Ground
from tests.contract.jobs import jobs
from tests.fix_waiting import until
from tests.worker.working import db, put, statuses, until_renewed, worker


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


async def test_a_cancelled_worker_does_not_wait_for_what_runs(ground: Ground) -> None:
    """P14: nor for the time that `stop()` would give it."""
    job = jobs(ground, claim={"after": None})
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
    job = jobs(ground, claim={"after": None})
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
    with pytest.raises(CallError, match="None is no handler"):
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


async def test_until_idle_is_until_the_last_of_each_line(ground: Ground) -> None:
    """The end of one event lets the next of its ordering key be claimed."""
    inbox = Inbox(table=f"{jobs(ground).table}_inbox")
    ground.inbox_table(inbox)
    events = [Arrival("shop", f"e-{number}", b"{}", ordering_key="order-1") for number in range(5)]
    await ground.db.receive_many(inbox, events)
    for kind in ("plain", "coroutine"):
        seen: list[str] = []

        async def coroutine(claim: Claim[Any, Any], seen: list[str] = seen) -> None:
            seen.append(claim.key)

        handler = seen_by(seen) if kind == "plain" else coroutine
        mine = Worker(db(ground), inbox.work, handler, finish=inbox.finish)
        await mine.run(until_idle=True)
        assert (mine.finished, len(seen)) == (5, 5)
        more = [Arrival("shop", f"f-{number}", b"{}", ordering_key="order-1") for number in range(5)]
        await ground.db.receive_many(inbox, more)


async def test_who_runs_until_idle_asks_again_after_what_has_ended_meanwhile(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has said that there is nothing, and the answer is still on its way when the last item ends."""
    job = jobs(ground)
    (key,) = await put(ground, job, 1)
    store = db(ground)
    really_claim = store.claim
    asked = 0

    async def slowly(*args: Any, **options: Any) -> Any:
        nonlocal asked
        claims = await really_claim(*args, **options)
        asked += 1
        if asked == 2:
            await until(lambda: mine.failed == 1, "the last item has ended")
        return claims

    async def handle(claim: Claim[Any, Any]) -> None:
        if claim.attempt == 1:
            await until(lambda: asked == 2, "the store has been asked again")
            raise Failure("once more", delay=0)

    monkeypatch.setattr(store, "claim", slowly)
    mine = worker(ground, job, handle, parallel=2)
    await mine.run(until_idle=True)
    assert (mine.finished, ground.get(job, key)["status"]) == (1, "DONE")


async def test_a_call_that_cannot_be_right_ends_the_worker(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """Asking again mends nothing: it is no outage."""
    job = jobs(ground)
    await put(ground, job, 1)
    for until_idle in (True, False):
        with pytest.raises(CallError, match="by="):
            await worker(ground, job, seen_by([]), by=5, poll=0.001).run(until_idle=until_idle)
        assert "could not be asked" not in caplog.text


async def test_who_runs_until_idle_is_told_when_the_store_cannot_be_asked(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a few times in a row; one that answers in between begins them anew."""
    job = jobs(ground)
    keys = await put(ground, job, 1)
    store = db(ground)
    really_claim = store.claim
    asked = 0

    async def seldom(*args: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 4:
            return await really_claim(*args, **options)
        if asked > 20:
            mine.stop()
        raise ConnectionError("the store is away")

    monkeypatch.setattr(store, "claim", seldom)
    mine = worker(ground, job, seen_by([]), poll=0.001)
    with pytest.raises(ConnectionError, match="the store is away"):
        await mine.run(until_idle=True)
    assert asked == 9
    assert caplog.text.count("could not be asked") == 8
    assert statuses(ground, job, keys) == {"DONE": 1}


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
