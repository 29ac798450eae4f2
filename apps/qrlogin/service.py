"""Everything that runs: attempts are started, taken and followed, in one process or in many."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from appkit.loops import Loop, Loops
from qrlogin.ingest import Ingest
from qrlogin.manager import QRSessionManager
from qrlogin.metrics import Metrics
from qrlogin.places import Places, open_places
from qrlogin.settings import Settings
from qrlogin.telegram import ClientMaker


@dataclass(frozen=True, slots=True)
class Service:
    """What the HTTP side needs."""

    places: Places
    manager: QRSessionManager
    ingest: Ingest | None


@asynccontextmanager
async def running(
    settings: Settings, clients: ClientMaker | None, loops: Loops, metrics: Metrics
) -> AsyncIterator[Service]:
    """The service at work until the block ends; then ingest gives back what it has. Without clients there is no ingest."""
    async with open_places(settings) as places:
        ingest = Ingest(places, clients, metrics, settings) if clients is not None else None
        manager = QRSessionManager(places, metrics, settings.instance, ingest, settings.any_account)

        async def store(loop: Loop) -> None:
            """Whether the store answers."""

            while True:
                await places.beside.now()
                loop.beat()
                await asyncio.sleep(1)

        async with loops:
            loops.start("store", store)
            if ingest is not None:
                loops.start("ingest", ingest.run)
                loops.start("renewals", ingest.renew)
                loops.start("upkeep", ingest.upkeep)
            try:
                yield Service(places, manager, ingest)
            finally:
                if ingest is not None:
                    ingest.halt()
                    await loops.drain("ingest", seconds=5)
                    await ingest.stop()
