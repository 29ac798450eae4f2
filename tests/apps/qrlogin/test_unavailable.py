"""A store that answers and takes no writes: a failover, a server out of memory. Scanned logins come through."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from appkit.loops import Loops
from qrlogin.api import login_app
from qrlogin.metrics import Metrics
from qrlogin.service import running
from qrlogin.settings import Settings
from qrlogin.simulated import Line, SimulatedTelegram, simulated_clients
from raceproof.testing import valkey
from tests.apps.qrlogin.conftest import USER, World, until

TROUBLES = {
    "failover": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    "out of memory": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[World, httpx.AsyncClient, Any]]:
    """A service with its own server, which may become a replica, and with its health."""
    loops, metrics = Loops(), Metrics()
    with valkey() as server:
        async with SimulatedTelegram() as telegram, Redis.from_url(server.url) as client:
            line = Line("127.0.0.1", telegram.port)
            settings = Settings(store=server.url, folder=folder, lease=30.0, any_account=True)
            async with running(settings, simulated_clients(line), loops, metrics) as service:
                app = login_app(service, loops, metrics, settings, line)
                transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
                async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
                    yield World(settings, telegram, line, service), api, client
                app.state.stop_counting()
            await line.close()


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_a_login_that_was_scanned_while_the_store_took_no_writes_is_done_afterwards(
    tmp_path: Path, trouble: str
) -> None:
    begin, end = TROUBLES[trouble]
    async with served(tmp_path) as (world, api, client):

        async def healthy() -> bool:
            return (await api.get("/health")).status_code == 200

        async def unhealthy() -> bool:
            told = await api.get("/health")
            return told.status_code == 503 and told.json()["loops"]["store"] != "ok"

        session_id = await world.start()
        code = await world.code(session_id)
        await until(healthy, lambda: "the service is healthy")
        await client.execute_command(*begin.split())
        await world.phone(7).scan(code)
        await until(unhealthy, lambda: "the service says that its store takes no writes")
        started = await api.post("/logins", json={"user_id": USER})
        assert started.status_code == 503
        await client.execute_command(*end.split())
        assert await world.ended(session_id) == "done"
        [saved] = await world.saved()
        assert saved["session_id"] == str(session_id)
        await until(healthy, lambda: "the service is healthy again")
