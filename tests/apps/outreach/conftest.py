"""What the tests of outreach share: an empty database of each kind, a service in either form, and the simulated provider."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn

from outreach.metrics import Metrics
from outreach.provider import Provider, provider_app
from outreach.service import Service, prepared
from outreach.settings import Settings
from outreach.stages import STAGES
from tests.apps.databases import empty_database

Opening = Callable[..., AbstractAsyncContextManager[Service]]
KEY = "canary-key-of-the-provider"


@pytest.fixture(params=["postgres", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    return empty_database(request, tmp_path)


@pytest.fixture
def opening(url: str) -> Opening:
    """A service on the database: `async with opening(form="marker") as service`."""

    @asynccontextmanager
    async def opened(**told: Any) -> AsyncIterator[Service]:
        async with prepared(Settings(**{"database": url, "rest": 0.0, **told}), Metrics()) as service:
            yield service

    return opened


async def run_all(service: Service, rounds: int = 6) -> None:
    """All stages one after the other, until failing rows have had all their attempts."""
    for _ in range(rounds):
        for stage in STAGES.values():
            await service.manager.run_until_idle(stage)


class RunningProvider:
    """The simulated provider, behind a real socket and in a loop of its own."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self._ledger = f"http://127.0.0.1:{port}/ledger"

    def ledger(self) -> dict[str, Any]:
        return dict(httpx.get(self._ledger, trust_env=False).json())

    def settings(self) -> dict[str, Any]:
        return {"ai_url": self.url, "ai_key": KEY, "ai_rate": 1000.0}


@contextmanager
def running_provider(**trouble: float) -> Iterator[RunningProvider]:
    """One that does wrong what it is told to."""
    told = {"slow": 0.0, "fail": 0.0, "twice": 0.0, "poison": 0.0} | trouble
    app = provider_app(Provider(KEY, **told, seed=1))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the provider has not started"
            thread.join(0.01)
        yield RunningProvider(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
