"""Everything that runs: what is submitted, dispatched, heard and kept up, in one process or in many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appkit.database import Database, open_database
from appkit.loops import Loop, Loops
from devices import marks
from devices.dispatcher import Dispatcher
from devices.listener import Listener
from devices.messages import Topics
from devices.metrics import Metrics
from devices.presence import Presences
from devices.publisher import Publisher
from devices.reading import Follower
from devices.settings import Settings, broker_options
from devices.submitting import Submitting
from devices.tables import own_tables
from devices.upkeep import Upkeep
from raceproof import Worker

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Service:
    """What the HTTP side needs, and tests."""

    database: Database
    submitting: Submitting
    presences: Presences


@asynccontextmanager
async def running(
    settings: Settings, broker: str, loops: Loops, metrics: Metrics
) -> AsyncIterator[tuple[Service, Follower]]:
    """The service at work until the block ends; then it claims nothing more and gives back what it has."""
    options = broker_options(broker)
    async with open_database(settings.database_url, MIGRATIONS, own_tables) as database:
        marks.use(database.store)
        publisher = Publisher(options, f"{settings.prefix}-{settings.instance}-out", settings.puback)
        presences = Presences(database, settings.silence)
        listener = Listener(database, presences, metrics, Topics(settings.prefix), settings.instance)
        upkeep = Upkeep(database, settings, metrics)
        follower = Follower(database)
        workers = [Dispatcher(database, publisher, settings).worker(), listener.worker()]
        scheduler = upkeep.scheduler()

        async def measure(loop: Loop) -> None:
            while True:
                loop.beat()
                await upkeep.measure()
                await asyncio.sleep(5)

        async with loops:
            loops.start("publisher", publisher.run)
            loops.start("listener", lambda loop: listener.run(options, loop))
            loops.start("presence", presences.run)
            loops.start("dispatcher", _working(workers[0]))
            loops.start("responses", _working(workers[1]))
            loops.start("upkeep", _scheduled(scheduler))
            loops.start("figures", measure)
            loops.start("follower", follower.run)
            try:
                yield Service(database, Submitting(database, metrics, settings.valid), presences), follower
            finally:
                scheduler.stop()
                for worker in workers:
                    worker.stop()
                await loops.drain("dispatcher", "responses", "upkeep", seconds=10)


def _working(worker: Worker) -> Any:
    async def run(loop: Loop) -> None:
        await _watched(loop, worker.run(), worker)

    return run


def _scheduled(scheduler: Any) -> Any:
    async def run(loop: Loop) -> None:
        await _watched(loop, scheduler.run(), None)

    return run


async def _watched(loop: Loop, work: Any, worker: Worker | None) -> None:
    """Beats while the worker asks the store for work; one that hangs is noticed."""
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
