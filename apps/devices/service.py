"""Everything that runs: what is submitted, dispatched, heard and kept up, in one process or in many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from appkit.database import Database, open_database
from appkit.loops import Loop, Loops
from appkit.working import scheduled, working
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

MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Service:
    """What the HTTP side needs, and tests."""

    database: Database
    submitting: Submitting
    presences: Presences
    listener: Listener


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
        workers = [Dispatcher(database, publisher, settings).worker(), listener.worker(settings.drain)]
        scheduler = upkeep.scheduler()

        async def measure(loop: Loop) -> None:
            while True:
                loop.beat()
                await upkeep.measure()
                await asyncio.sleep(5)

        async with loops:
            loops.watch(settings.database_url)
            loops.start("publisher", publisher.run)
            loops.start("listener", lambda loop: listener.run(options, loop))
            loops.start("heartbeats", lambda loop: listener.run_passing(options, loop))
            loops.start("presence", presences.run)
            loops.start("dispatcher", working(workers[0]))
            loops.start("responses", working(workers[1]))
            loops.start("upkeep", scheduled(scheduler))
            loops.start("figures", measure)
            loops.start("follower", follower.run)
            try:
                submitting = Submitting(database, metrics, settings.valid)
                yield Service(database, submitting, presences, listener), follower
            finally:
                scheduler.stop()
                for worker in workers:
                    worker.stop()
                await loops.drain("dispatcher", "responses", "upkeep", seconds=settings.drain + 2)
