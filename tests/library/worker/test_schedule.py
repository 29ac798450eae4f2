"""What a scheduler promises (L13): every so many seconds, never twice at once, and nothing is forgotten by a restart."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from raceproof import AsyncStore, Scheduler
from raceproof.kernel.errors import CallError
from raceproof.run import Schedules
from raceproof.testing.contract.grounds import Ground, SqlGround, fresh_name
from tests.ddl import script
from tests.fix_waiting import until


def schedules(ground: Ground) -> Schedules:
    made = Schedules(fresh_name("schedules"))
    if isinstance(ground, SqlGround):
        ground.run(script(made, dialect=ground.dialect))
    return made


def scheduler(ground: Ground, made: Schedules, **options: Any) -> Scheduler:
    assert isinstance(ground.db.store, AsyncStore)
    return Scheduler(ground.db.store, made, poll=0.01, **options)


async def running(some: list[Scheduler], done: Callable[[], bool], what: str) -> None:
    tasks = [asyncio.create_task(one.run()) for one in some]
    await until(done, what)
    for one in some:
        one.stop()
    await asyncio.gather(*tasks)


async def test_a_job_runs_again_and_again_in_one_of_many_processes_and_never_twice_at_once(
    ground: Ground,
) -> None:
    """Two schedulers stand for two processes."""
    made = schedules(ground)
    now, most, runs = 0, 0, 0

    async def job() -> None:
        nonlocal now, most, runs
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        runs += 1

    both = [scheduler(ground, made, by=name) for name in ("one", "two")]
    for one in both:
        one.every(0.001, "vetting", job)
    await running(both, lambda: runs >= 5, "it ran five times")
    assert most == 1


async def test_a_run_is_not_due_again_after_a_restart(ground: Ground) -> None:
    """The store knows when it ran last."""
    made = schedules(ground)
    runs: list[str] = []

    async def job() -> None:
        runs.append("run")

    for _ in range(2):
        one = scheduler(ground, made)
        one.every(3600, "hourly", job)
        await one.run(until_idle=True)
    assert runs == ["run"]
    row = await ground.db.read(made.lifecycle, "hourly")
    assert row is not None
    assert (row["status"], row["ended_at"] is not None) == ("waiting", True)


async def test_a_process_leaves_the_schedules_alone_that_it_has_no_job_for(ground: Ground) -> None:
    """Each of its own runs its own job; those of others wait for the process that knows them."""
    made = schedules(ground)
    await ground.db.add_waiting(made.run, ["of another process"])
    runs: list[str] = []

    def job(name: str) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            runs.append(name)

        return run

    one = scheduler(ground, made)
    for name in ("vetting", "mailing"):
        one.every(3600, name, job(name))
    await one.run(until_idle=True)
    assert sorted(runs) == ["mailing", "vetting"]
    row = await ground.db.read(made.lifecycle, "of another process")
    assert row is not None
    assert row.get("ended_at") is None


async def test_a_job_that_fails_is_run_again_at_its_next_time(ground: Ground) -> None:
    """And does not stop the others."""
    made = schedules(ground)
    runs = {"bad": 0, "good": 0}

    async def bad() -> None:
        runs["bad"] += 1
        raise ValueError("no luck")

    async def good() -> None:
        runs["good"] += 1

    one = scheduler(ground, made)
    one.every(0.001, "bad", bad)
    one.every(0.001, "good", good)
    await running([one], lambda: min(runs.values()) >= 3, "both ran three times")


async def test_a_job_that_awaited_something_cancelled_rests_like_any_other(ground: Ground) -> None:
    """Nobody has cancelled the job itself: the run counts."""
    made = schedules(ground)
    runs = 0

    async def job() -> None:
        nonlocal runs
        runs += 1
        if runs > 1:
            one.stop()
        cancelled = asyncio.ensure_future(asyncio.Event().wait())
        cancelled.cancel()
        await cancelled

    one = scheduler(ground, made)
    one.every(3600, "hourly", job)
    await one.run(until_idle=True)
    assert runs == 1


async def test_a_plain_function_is_run_and_the_log_says_what_it_holds_up(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """It has not failed."""
    made = schedules(ground)
    runs: list[str] = []
    one = scheduler(ground, made)
    one.every(3600, "plain", lambda: runs.append("run"))  # type: ignore[arg-type, return-value]
    await one.run(until_idle=True)
    assert runs == ["run"]
    assert "schedule plain: a plain function holds up the loop" in caplog.text
    assert "failed" not in caplog.text


async def test_a_scheduler_hears_that_it_is_stopped_whenever_that_is(ground: Ground) -> None:
    """Before it has begun to work, too; and it is not run again."""
    made = schedules(ground)
    runs: list[str] = []

    async def job() -> None:
        runs.append("run")

    one = scheduler(ground, made)
    one.every(3600, "hourly", job)
    running = asyncio.create_task(one.run())
    await asyncio.sleep(0)
    one.stop()
    await until(running.done, "it has ended")
    assert runs == []
    with pytest.raises(CallError, match="was stopped; make another one"):
        await one.run()


async def test_schedules_that_cannot_be(ground: Ground) -> None:
    """Told when they are declared."""
    one = scheduler(ground, Schedules())
    with pytest.raises(CallError, match="every=0 is not a time"):
        one.every(0, "x", lambda: asyncio.sleep(0))
    one.every(1, "x", lambda: asyncio.sleep(0))
    with pytest.raises(CallError, match="None cannot be called"):
        one.every(1, "y", None)  # type: ignore[arg-type]
    with pytest.raises(CallError, match="there already"):
        one.every(1, "x", lambda: asyncio.sleep(0))
