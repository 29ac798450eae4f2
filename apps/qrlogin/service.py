"""Everything that runs: attempts are started, taken and followed, in one process or in many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from appkit.loops import Loop, Loops
from qrlogin.beside_sql import check_writes
from qrlogin.ingest import Ingest
from qrlogin.manager import Manager
from qrlogin.metrics import Metrics
from qrlogin.places import Places, open_places
from qrlogin.settings import Settings
from qrlogin.telegram import ClientMaker

CHECK = 2.0
"""Seconds between two looks at whether a store takes writes."""
FIGURES = 5.0
HUNG = 8.0
"""Seconds after which a store counts as hung."""


@dataclass(frozen=True, slots=True)
class Service:
    """What the HTTP side needs."""

    places: Places
    manager: Manager
    ingest: Ingest | None
    clients: ClientMaker | None


@asynccontextmanager
async def running(
    settings: Settings,
    clients: ClientMaker | None,
    loops: Loops,
    metrics: Metrics,
    with_ingest: bool = True,
) -> AsyncIterator[Service]:
    """The service at work until the block ends; then ingest gives back what it has. Without clients there is no ingest."""
    async with open_places(settings) as places:
        ingest = Ingest(places, clients, metrics, settings) if clients is not None and with_ingest else None
        manager = Manager(places, metrics, settings.instance, ingest, settings.any_account)

        async def store(loop: Loop) -> None:
            """Whether the attempts can be written; a replica, or a server without memory, still answers reads."""
            while True:
                await places.beside.check_writes(settings.instance)
                loop.beat()
                await asyncio.sleep(CHECK)

        async def database(loop: Loop) -> None:
            """Whether sessions can be saved."""
            while True:
                await check_writes(places.database, settings.instance)
                loop.beat()
                await asyncio.sleep(CHECK)

        async def figures(loop: Loop) -> None:
            """What is measured and not counted."""
            while True:
                metrics.active.set(await places.beside.count_open())
                loop.beat()
                await asyncio.sleep(FIGURES)

        async with loops:
            loops.watch(settings.database_url)
            loops.start("figures", figures)
            loops.start("store", store, silent=HUNG)
            if settings.store:
                loops.start("database", database, silent=HUNG)
            if ingest is not None:
                loops.start("ingest", ingest.run)
                loops.start("renewals", ingest.renew)
                loops.start("upkeep", ingest.upkeep)
            try:
                yield Service(places, manager, ingest, clients)
            finally:
                if ingest is not None:
                    ingest.halt()
                    await loops.drain("ingest", seconds=settings.drain)
                    await ingest.stop()
