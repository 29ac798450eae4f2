"""The worker: whatever happens to it or its handler, each row is finished once, or can be claimed."""

import asyncio
from typing import Any

from raceproof import Worker
from raceproof.testing.explorer import Connection, World
from raceproof.testing.explorer.promises import outcomes
from tests.promises.packs.claims import LEASE, Job, Tried, one_job
from tests.promises.packs.pack import Pack


def worker_and_thief(world: World) -> None:
    """A worker with one item, and somebody who takes what he can get."""
    one_job(world, Job.work)

    @world.process
    async def worker(db: Connection) -> None:
        async def handler(_: Any) -> None:
            await asyncio.sleep(1)

        await Worker(db, Job.work, handler, finish=Job.finish, max_batch=1, parallel=1).run(until_idle=True)

    @world.process
    async def thief(db: Connection) -> None:
        for one in await db.claim(Job.work):
            await db.move(Job.finish, one)

    world.sometimes("the worker finishes", lambda moment: outcomes(moment, Job.finish, "moved"))
    world.sometimes("a late one is told so", lambda moment: outcomes(moment, Job.finish, "lost"))


def renewing_worker(world: World) -> None:
    """A handler that takes longer than the lease: the worker renews it, and loses it only if it stands still."""
    one_job(world, Job.work)

    @world.process
    async def worker(db: Connection) -> None:
        async def handler(_: Any) -> None:
            await asyncio.sleep(LEASE / 2)

        await Worker(db, Job.work, handler, finish=Job.finish, max_batch=1, parallel=1).run(until_idle=True)

    world.sometimes("a claim is renewed", lambda moment: outcomes(moment, Job.work, "claimed", "renew"))


def stopped_worker(world: World) -> None:
    """A worker is told to stop while an item runs: it gives back what it cannot finish."""
    one_job(world, Job.work)

    @world.process
    async def worker(db: Connection) -> None:
        async def handler(_: Any) -> None:
            stopped.stop()
            await asyncio.sleep(1)

        stopped = Worker(db, Job.work, handler, finish=Job.finish, max_batch=1, parallel=1, drain=0.5)
        await stopped.run(until_idle=True)

    world.sometimes("an item is given back", lambda moment: outcomes(moment, Job.work, "released"))


def failing_worker(world: World) -> None:
    """A handler that fails: its item is set aside after its last attempt, by whomever."""
    one_job(world, Tried.work)

    @world.process
    async def worker(db: Connection) -> None:
        async def handler(_: Any) -> None:
            raise ValueError("a bad item")

        await Worker(db, Tried.work, handler, finish=Tried.finish, max_batch=1, parallel=1).run(until_idle=True)

    world.sometimes("an item is set aside", lambda moment: outcomes(moment, Tried.work, "dead-lettered"))


def idle_worker(world: World) -> None:
    """A worker that runs until nothing is left to do: when it ends, nothing is."""
    one_job(world, Job.work)

    @world.process
    async def worker(db: Connection) -> None:
        async def handler(_: Any) -> None:
            return None

        await Worker(db, Job.work, handler, finish=Job.finish, max_batch=1, parallel=1).run(until_idle=True)
        row = await db.read(Job, "j")
        assert row != {**(row or {}), "status": "QUEUED"}, "the worker has ended, and an item still waits"


PACKS = [
    Pack("worker-and-thief", ("P1", "P3", "P4", "P5", "P14"), worker_and_thief),
    Pack("renewing-worker", ("P3", "P5", "P14"), renewing_worker),
    Pack("stopped-worker", ("P5", "P14"), stopped_worker),
    Pack("failing-worker", ("P5", "P14"), failing_worker),
    Pack(
        "idle-worker",
        ("P5", "P13"),
        idle_worker,
    ),
]
