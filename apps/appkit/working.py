"""Workers and schedulers of raceproof as loops that are watched."""

import asyncio
from collections.abc import Awaitable

from appkit.loops import Body, Loop
from raceproof import Scheduler, Worker


def working(worker: Worker) -> Body:
    """The loop of a worker; it beats while the store answers when it is asked for work."""

    async def run(loop: Loop) -> None:
        await _watched(loop, worker.run(), worker)

    return run


def scheduled(scheduler: Scheduler) -> Body:
    """The loop of a scheduler."""

    async def run(loop: Loop) -> None:
        await _watched(loop, scheduler.run(), None)

    return run


async def _watched(loop: Loop, work: Awaitable[None], worker: Worker | None) -> None:
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            if worker is None or worker.silent_for < loop.silent / 2:
                loop.beat()
            await asyncio.wait([task], timeout=1)
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
