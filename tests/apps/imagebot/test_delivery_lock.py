"""A2: the lock and its marks on both stores, without processes; who was too slow can end nobody else's turn."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from imagebot.lifecycle import Job
from imagebot.services import DatabaseService
from imagebot.tables import generation_jobs

USER = 7


async def ready(service: DatabaseService) -> str:
    """A job with a result, paid."""
    await service.accounts.language_of(USER, USER, "en")
    job = await service.jobs.begin("j1", USER, USER, "a lighthouse")
    job_id = str(job["job_id"])
    assert await service.jobs.confirm(job_id, USER, 5) == "confirmed"
    (await service.store.move(Job.start, job_id)).must()
    (await service.store.move(Job.created, job_id, set={"external_task_id": "task-1"})).must()
    (await service.store.move(Job.ready, job_id, set={"result_urls": json.dumps(["https://x.example/1"])})).must()
    return job_id


async def stale(service: DatabaseService) -> None:
    async with service.transaction() as (connection, _):
        at = (await connection.execute(select(generation_jobs.c.delivering_at))).scalar_one()
        earlier = at - timedelta(seconds=301)
        await connection.execute(update(generation_jobs).values(delivering_at=earlier))


async def test_of_twenty_who_want_the_lock_by_either_id_one_has_it(service: DatabaseService) -> None:
    job_id = await ready(service)
    names = ["task-1", job_id] * 10
    won = await asyncio.gather(*(service.storage.try_acquire_delivery_lock(name) for name in names))
    assert sum(job is not None for job in won) == 1
    job: Any = next(job for job in won if job is not None)
    assert (job["job_id"], job["external_task_id"]) == (job_id, "task-1")


async def test_success_marks_and_charges_and_failure_frees(service: DatabaseService) -> None:
    job_id = await ready(service)
    assert await service.storage.try_acquire_delivery_lock("task-1") is not None
    assert await service.storage.mark_delivered("task-1", success=False, error="no network")
    job = await service.jobs.get(job_id)
    assert job is not None
    assert (job["delivering_at"], job["delivered_at"], job["delivery_error"]) == (None, None, "no network")
    assert await service.storage.try_acquire_delivery_lock(job_id) is not None
    assert await service.storage.mark_delivered(job_id)
    job = await service.jobs.get(job_id)
    assert job is not None
    assert job["delivering_at"] is None
    assert job["delivered_at"] is not None
    assert await service.accounts.balance(USER) == (1500, 0)
    assert await service.storage.try_acquire_delivery_lock("task-1") is None


async def test_a_slow_first_sender_can_neither_end_nor_free_the_second_ones_turn(
    service: DatabaseService,
) -> None:
    job_id = await ready(service)
    second_has_it, first_has_tried = asyncio.Event(), asyncio.Event()

    async def first() -> list[bool]:
        assert await service.storage.try_acquire_delivery_lock(job_id) is not None
        await stale(service)
        taken = asyncio.create_task(second())
        await second_has_it.wait()
        answers = [
            await service.storage.mark_delivered(job_id),
            await service.storage.mark_delivered(job_id, success=False),
        ]
        first_has_tried.set()
        assert await taken
        return answers

    async def second() -> bool:
        assert await service.storage.try_acquire_delivery_lock(job_id) is not None
        second_has_it.set()
        await first_has_tried.wait()
        return await service.storage.mark_delivered(job_id)

    assert await first() == [False, False]
    assert await service.accounts.balance(USER) == (1500, 0)


async def test_whoever_has_not_won_the_lock_cannot_mark(service: DatabaseService) -> None:
    job_id = await ready(service)
    with pytest.raises(LookupError, match="try_acquire_delivery_lock"):
        await service.storage.mark_delivered(job_id)


async def test_a_job_that_was_refunded_meanwhile_is_not_sent(service: DatabaseService) -> None:
    job_id = await ready(service)
    assert (await service.jobs.refund(job_id, "admin", "asked for")).won
    assert await service.storage.try_acquire_delivery_lock(job_id) is None
    assert await service.accounts.balance(USER) == (2000, 0)


async def test_a_job_is_not_refunded_while_it_is_being_sent(service: DatabaseService) -> None:
    job_id = await ready(service)
    assert await service.storage.try_acquire_delivery_lock(job_id) is not None
    assert not (await service.jobs.refund(job_id, "admin", "asked for")).won
    assert await service.storage.mark_delivered(job_id)
    assert (await service.jobs.refund(job_id, "admin", "asked for")).won
    assert await service.accounts.balance(USER) == (2000, 0)


async def test_the_naive_lock_of_the_first_version_sends_twice() -> None:
    """The control: look at `delivered_at`, send, then write it."""
    row: dict[str, Any] = {"delivered_at": None}
    sent: list[str] = []
    barrier = asyncio.Barrier(2)

    async def deliver(by: str) -> None:
        if row["delivered_at"] is None:
            await barrier.wait()
            sent.append(by)
            row["delivered_at"] = "now"

    await asyncio.gather(deliver("callback"), deliver("poller"))
    assert sorted(sent) == ["callback", "poller"]
