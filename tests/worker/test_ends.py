"""What is written of the end of an item (P4, P5, P14): by its own claim only, and whatever the others have to write."""

import asyncio
import math
from collections import Counter
from typing import Any

import pytest

from raceproof import Claim, Failure
from tests.contract.grounds import Ground
from tests.contract.jobs import ALL_FORMS, jobs
from tests.fix_waiting import until
from tests.worker.working import db, put, statuses, worker

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
    """It awaited what somebody else has cancelled; the worker goes on."""
    job = jobs(ground)
    keys = await put(ground, job, 6)

    async def handle(claim: Claim[Any, Any]) -> None:
        if claim.key == keys[0] and claim.attempt == 1:
            raise asyncio.CancelledError

    mine = worker(ground, job, handle, parallel=1)
    mine._batch.size = 6
    await mine.run(until_idle=True)
    assert statuses(ground, job, keys) == {"DONE": 6}
    assert [ground.get(job, key)["attempts"] for key in keys] == ["2", "1", "1", "1", "1", "1"]
