"""What is written of the end of an item (P4, P5, P14): by its own claim only, and whatever the others have to write."""

import asyncio
import math
import sys
from collections import Counter
from typing import Any

import pytest

from raceproof import Claim, Worker, connect
from raceproof.run import Failure, Finished
from raceproof.testing.contract.grounds import Ground
from raceproof.testing.contract.jobs import ALL_FORMS, jobs
from tests.fix_waiting import until
from tests.library.worker.working import db, put, statuses, until_renewed, worker
from tests.promises.race.beside import beside
from tests.promises.race.places import Place

BAD_ENDS: dict[str, Any] = {
    "a value that no store takes": {"result": {1, 2}},
    "a column that is not declared": {"size": 3},
    "no mapping": True,
    "nothing, but not None": False,
    "a failure that cannot be written": Failure("\0 and \udc80", delay="soon"),  # type: ignore[arg-type]
}


@ALL_FORMS
@pytest.mark.parametrize("stale", ["is done", "has failed", "ends together with the other"])
async def test_a_stale_run_is_lost_also_when_the_same_worker_has_the_row_again(
    ground: Ground, form: str, stale: str
) -> None:
    """P4: what counts is the claim that a run was begun with, not that the worker holds its row."""
    job = jobs(ground, form)
    (key,) = await put(ground, job, 1)
    runs = 0
    taken_again, go_on = asyncio.Event(), asyncio.Event()

    async def handle(claim: Claim[Any, Any]) -> dict[str, Any]:
        nonlocal runs
        runs += 1
        if runs == 1:
            await ground.db.release(claim)  # as after a lease that was not renewed: anybody may have it
            mine.wake()
            await taken_again.wait()
            if stale == "has failed":
                raise ValueError("too late")
            return {"result": "of the stale run"}
        taken_again.set()
        if stale != "ends together with the other":
            await go_on.wait()
        return {"result": "of the current run"}

    mine = worker(ground, job, handle, parallel=2)
    running = asyncio.create_task(mine.run())
    await until(lambda: mine.lost > 0, "the stale run is lost")
    if not go_on.is_set() and stale != "ends together with the other":
        assert ground.get(job, key)["status"] == "RUNNING"
    go_on.set()
    await until(lambda: mine.finished > 0, "the current run is finished")
    mine.stop()
    await running
    assert (ground.get(job, key)["status"], ground.get(job, key)["result"]) == ("DONE", "of the current run")
    assert (runs, mine.finished, mine.failed, mine.lost) == (2, 1, 0, 1)


@ALL_FORMS
@pytest.mark.parametrize("end", ["done", "failed"])
async def test_an_item_that_ends_while_it_is_renewed_ends_with_the_new_fence(
    ground: Ground, form: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has renewed it, and the answer is still on its way."""
    job = jobs(ground, form)
    (key,) = await put(ground, job, 1)
    store = db(ground)
    really_renew = store.renew
    entered, renewed, go_on, arrives = (asyncio.Event() for _ in range(4))

    async def slowly(claims: Any) -> Any:
        answers = await really_renew(claims)
        renewed.set()
        await arrives.wait()
        return answers

    async def handle(_: Claim[Any, Any]) -> None:
        entered.set()
        await go_on.wait()
        if end == "failed":
            raise ValueError("bad picture")

    monkeypatch.setattr(store, "renew", slowly)
    mine = worker(ground, job, handle)
    running = asyncio.create_task(mine.run())
    await entered.wait()
    renewing = asyncio.create_task(mine._held.renew(math.inf))
    await renewed.wait()
    go_on.set()
    await until(lambda: not mine._running, "the item has ended")
    arrives.set()
    await renewing
    mine.stop()
    await running
    assert (mine.finished, mine.failed, mine.lost) == ((1, 0, 0) if end == "done" else (0, 1, 0))
    assert ground.get(job, key)["status"] == ("DONE" if end == "done" else "QUEUED")


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("bad", BAD_ENDS)
async def test_an_end_that_cannot_be_written_is_the_failure_of_its_item_alone(
    ground: Ground, bad: str, kind: str
) -> None:
    """The others of its batch are finished, and none of them is run again."""
    job = jobs(ground, history=True)
    keys = await put(ground, job, 9)
    runs = Counter[str]()

    def plain(claim: Claim[Any, Any]) -> Any:
        runs[claim.key] += 1
        if claim.key != keys[4]:
            return {"result": "fine"} if claim.key > keys[2] else None
        if isinstance(BAD_ENDS[bad], Failure):
            raise BAD_ENDS[bad]
        return BAD_ENDS[bad]

    async def coroutine(claim: Claim[Any, Any]) -> Any:
        return plain(claim)

    mine = worker(ground, job, plain if kind == "plain" else coroutine, parallel=9)
    await mine.run(until_idle=True)
    assert runs == dict.fromkeys(keys, 1)
    assert statuses(ground, job, keys) == {"DONE": 8, "QUEUED": 1}
    assert (mine.finished, mine.failed, mine.lost) == (8, 1, 0)
    assert ground.get(job, keys[4])["attempts"] == "1"
    given_back = (await ground.db.history(job, keys[4]))[0]
    assert (given_back.move, bool(given_back.reason)) == ("requeue", True)


async def test_a_text_that_postgresql_refuses_fails_its_item_alone(ground: Ground) -> None:
    """A NUL, as it comes with texts from outside; where a store takes it, nothing fails."""
    job = jobs(ground)
    keys = await put(ground, job, 9)

    async def handle(claim: Claim[Any, Any]) -> dict[str, Any]:
        return {"result": "text with \0 in it" if claim.key == keys[4] else "fine"}

    mine = worker(ground, job, handle)
    await mine.run(until_idle=True)
    assert mine.finished + mine.failed == 9
    assert statuses(ground, job, [key for key in keys if key != keys[4]]) == {"DONE": 8}


async def test_a_handler_that_raises_a_cancellation_fails_its_item_and_holds_up_no_other(
    ground: Ground,
) -> None:
    """It awaited what somebody else has cancelled: an error like others, after which it rests as declared."""
    job = jobs(ground, claim={"backoff": [3600, 3600], "max_attempts": 100})
    keys = await put(ground, job, 6)

    async def handle(claim: Claim[Any, Any]) -> None:
        if claim.key == keys[0]:
            raise asyncio.CancelledError

    mine = worker(ground, job, handle, parallel=1)
    mine._batch.size = 6
    await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"DONE": 5, "QUEUED": 1}
    assert [ground.get(job, key)["attempts"] for key in keys] == ["1"] * 6


class Abort(BaseException):
    """Neither an Exception nor the end of the process."""


class Wordless(Exception):
    """One whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
@pytest.mark.parametrize("error", [Abort, Wordless])
async def test_whatever_a_handler_raises_is_the_failure_of_its_item_alone(
    ground: Ground, error: type[BaseException], kind: str
) -> None:
    """It has cost an attempt, and neither it nor the others of its share stay held."""
    job = jobs(ground)
    keys = await put(ground, job, 6)

    def plain(claim: Claim[Any, Any]) -> None:
        if claim.key == keys[0]:
            raise error

    async def coroutine(claim: Claim[Any, Any]) -> None:
        plain(claim)

    mine = worker(ground, job, plain if kind == "plain" else coroutine, parallel=1)
    mine._batch.size = 6
    await mine.run(until_idle=True)
    assert (mine.finished, mine.failed, mine.lost) == (5, 1, 0)
    assert statuses(ground, job, keys) == {"DONE": 5, "QUEUED": 1}
    assert [ground.get(job, key)["attempts"] for key in keys] == ["1"] * 6


def test_a_coroutine_that_exits_its_process_costs_an_attempt(place: Place) -> None:
    """P13: an item that ends every process is set aside after its last attempt; the others have not been tried."""
    with beside(place) as ground:
        job = jobs(ground, claim={"backoff": [0.001, 0.001], "max_attempts": 2})
        for key in ("poison", "good"):
            ground.put(job, key, "QUEUED", made_at=len(key))

    async def handle(claim: Claim[Any, Any]) -> None:
        if claim.key == "poison":
            sys.exit(3)

    async def work() -> None:
        async with connect(place.url) as store:
            await store.offer(job.claims["work"], ["poison", "good"])
            mine = Worker(store, job.claims["work"], handle, finish=job.moves["finish"], parallel=1, poll=0.001)
            mine._batch.size = 4
            await mine.run()

    for attempt, status in ((1, "QUEUED"), (2, "DEAD")):
        with pytest.raises(SystemExit):
            asyncio.run(work())
        with beside(place) as ground:
            assert (ground.get(job, "poison")["status"], ground.get(job, "poison")["attempts"]) == (
                status,
                str(attempt),
            )


@ALL_FORMS
async def test_a_handler_that_has_finished_its_item_may_go_on_for_longer_than_its_lease(
    ground: Ground, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: there is nothing to renew any more, which is no loss and no reason to cancel it."""
    job = jobs(ground, form, claim={"lease": 0.3})
    (key,) = await put(ground, job, 1)
    store = db(ground)
    really_renew = store.renew
    renewals = 0

    async def counted(claims: Any) -> Any:
        nonlocal renewals
        answers = await really_renew(claims)
        renewals += 1
        return answers

    async def handle(claim: Claim[Any, Any]) -> Any:
        assert (await ground.db.move(job.moves["finish"], claim, set={"result": "mine"})).won
        await until(lambda: renewals > 0, "the heartbeat has asked for it")
        for _ in range(20):
            await asyncio.sleep(0)
        return Finished

    monkeypatch.setattr(store, "renew", counted)
    mine = worker(ground, job, handle)
    await mine.run(until_idle=True)
    assert (mine.finished, mine.failed, mine.lost) == (1, 0, 0)
    assert (ground.get(job, key)["status"], renewals) == ("DONE", 1)


async def test_items_that_fail_alike_are_given_back_together(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement for all of them; each reason and each rest is its own."""
    job = jobs(ground, history=True)
    keys = await put(ground, job, 20)
    store = db(ground)
    really_fail = store.fail
    asked: list[int] = []

    async def counted(claims: Any, **options: Any) -> Any:
        asked.append(len(claims))
        return await really_fail(claims, **options)

    async def handle(claim: Claim[Any, Any]) -> None:
        raise Failure("provider is down" if claim.key < keys[15] else "bad picture", delay=600)

    monkeypatch.setattr(store, "fail", counted)
    mine = worker(ground, job, handle, parallel=20)
    await mine.run(until_idle=True)
    assert (mine.failed, sorted(asked)) == (20, [5, 15])
    reasons = [(await ground.db.history(job, key))[0].reason for key in keys]
    assert reasons == ["provider is down"] * 15 + ["bad picture"] * 5
    assert {ground.get(job, key)["attempts"] for key in keys} == {"1"}


async def test_a_failure_that_the_store_refuses_is_found_among_those_like_it(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others keep their reason."""
    job = jobs(ground, history=True)
    keys = await put(ground, job, 9)
    store = db(ground)
    really_fail = store.fail

    async def refusing(claims: Any, **options: Any) -> Any:
        if options["delay"] is not None and keys[4] in {one.key for one in claims}:
            raise ValueError("refused")
        return await really_fail(claims, **options)

    async def handle(_: Claim[Any, Any]) -> None:
        raise Failure("as told", delay=600)

    monkeypatch.setattr(store, "fail", refusing)
    mine = worker(ground, job, handle, parallel=9)
    await mine.run(until_idle=True)
    assert (mine.failed, mine.lost) == (9, 0)
    reasons = [(await ground.db.history(job, key))[0].reason for key in keys]
    assert reasons == [*["as told"] * 4, "ValueError: refused", *["as told"] * 4]


async def test_what_has_ended_is_renewed_until_its_end_is_written(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: the store is slow with one end; the item behind it has failed too, and nobody else gets it meanwhile."""
    job = jobs(ground, claim={"lease": 0.6})
    keys = await put(ground, job, 2)
    store = db(ground)
    really_fail = store.fail
    slow, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(claims: Any, **options: Any) -> Any:
        if claims[0].key == keys[0]:
            slow.set()
            await go_on.wait()
        return await really_fail(claims, **options)

    async def handle(claim: Claim[Any, Any]) -> None:
        raise Failure(f"of {claim.key}", delay=600)

    monkeypatch.setattr(store, "fail", slowly)
    mine = worker(ground, job, handle, parallel=2)
    running = asyncio.create_task(mine.run())
    await slow.wait()
    await until_renewed(ground, job, keys[1])
    go_on.set()
    await until(lambda: mine.failed + mine.lost == 2, "both ends are written")
    mine.stop()
    await running
    # the first was the store's to write all the time: it may have been late
    assert ground.get(job, keys[1])["status"] == "QUEUED"
    assert ground.get(job, keys[1])["attempts"] == "1"


async def test_ends_that_a_loop_cancels_in_the_middle_are_written_by_the_next(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P14: a loop that ends cancels all tasks, also the one that writes; what it had not sent is not forgotten."""
    job = jobs(ground)
    keys = await put(ground, job, 3)
    store = db(ground)
    really_fail = store.fail
    hanging = asyncio.Event()

    async def hanging_at_first(claims: Any, **options: Any) -> Any:
        if not hanging.is_set():
            hanging.set()
            await asyncio.Event().wait()
        return await really_fail(claims, **options)

    async def handle(claim: Claim[Any, Any]) -> None:
        raise Failure(f"of {claim.key}", delay=600)

    monkeypatch.setattr(store, "fail", hanging_at_first)
    mine = worker(ground, job, handle, parallel=3)
    running = asyncio.create_task(mine.run())
    await hanging.wait()
    assert mine._finishing._running is not None
    mine._finishing._running.cancel()
    await until(lambda: mine.failed == 2, "the others are written")
    mine.stop()
    await running
    assert statuses(ground, job, keys) == {"RUNNING": 1, "QUEUED": 2}
    assert {ground.get(job, key)["attempts"] for key in keys} == {"1"}


async def test_what_cannot_be_written_is_not_renewed_for_ever(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P13: the store is away in the middle of several ends; all of them are somebody's after their lease."""
    job = jobs(ground)
    await put(ground, job, 3)
    store = db(ground)

    async def away(*_: Any, **__: Any) -> Any:
        raise ConnectionError("the store is away")

    async def handle(claim: Claim[Any, Any]) -> None:
        raise Failure(f"of {claim.key}", delay=600)

    monkeypatch.setattr(store, "fail", away)
    monkeypatch.setattr(store, "read", away)
    mine = worker(ground, job, handle, parallel=3)
    running = asyncio.create_task(mine.run())
    await until(lambda: "3 items could not be finished" in caplog.text, "it has felt the outage")
    assert mine._held.all() == []
    mine.stop()
    await running
    assert (mine.finished, mine.failed, mine.lost) == (0, 0, 0)


async def test_something_to_await_is_no_end_and_the_log_says_what_to_do(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain function that returns a coroutine: nobody awaits it in a thread."""
    job = jobs(ground)
    (key,) = await put(ground, job, 1)

    async def handle(_: Claim[Any, Any]) -> None:
        raise AssertionError("nobody awaits it")

    mine = worker(ground, job, lambda claim: handle(claim))
    await mine.run(until_idle=True)
    assert (mine.finished, mine.failed, ground.get(job, key)["status"]) == (0, 1, "QUEUED")
    assert f"{key!r} failed: the handler returned something to await" in caplog.text
    assert "give the worker a coroutine function" in caplog.text
