"""When a worker asks the store: on an offer, until it is idle, and when the store is silent (L13; P13)."""

import asyncio
from typing import Any

import pytest

from raceproof import Claim, Inbox, Worker
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.run import Failure
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import until
from tests.library.worker.working import db, put, seen_by, statuses, worker


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
        store.driver.woken(one.work, lambda: woken.append("one")),
        store.driver.woken(other.work, lambda: woken.append("other")),
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


async def test_a_call_that_cannot_be_right_ends_the_worker(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
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
