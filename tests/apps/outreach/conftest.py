"""What the tests of outreach share: an empty database of each kind, a service in either form, and the simulated provider."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn

from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.provider import Provider, Wrong, provider_app
from outreach.service import Service, prepared
from outreach.settings import Settings
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
        purpose = told.pop("purpose", Purpose.MIGRATE)
        settings = Settings(**{"database": url, "rest": 0.0, **told})
        async with prepared(settings, Metrics(), purpose) as service:
            yield service

    return opened


async def run_all(service: Service, rounds: int = 6) -> None:
    """All stages one after the other, until failing rows have had all their attempts."""
    for _ in range(rounds):
        for stage in service.claiming.stages.values():
            await service.manager.run_until_idle(stage)


class RunningProvider:
    """The simulated provider, behind a real socket and in a loop of its own."""

    def __init__(self, port: int) -> None:
        self._at = f"http://127.0.0.1:{port}"
        self.url = f"{self._at}/v1"

    def ledger(self) -> dict[str, Any]:
        return dict(httpx.get(f"{self._at}/ledger", trust_env=False).json())

    def log(self) -> list[dict[str, Any]]:
        return list(httpx.get(f"{self._at}/log", trust_env=False).json())

    def outage(self, kind: str) -> None:
        """Begin one (`down`, `key`, `quota`, `rate`), or end it with an empty word."""
        httpx.post(f"{self._at}/control", json={"outage": kind}, trust_env=False).raise_for_status()

    def settings(self) -> dict[str, Any]:
        return {"ai_url": self.url, "ai_key": KEY, "ai_rate": 1000.0, "ai_pause": 0.05}


@contextmanager
def running_provider(slow: float = 0.0, **wrong: float) -> Iterator[RunningProvider]:
    """One that does wrong what it is told to."""
    with _served(provider_app(Provider(KEY, slow, Wrong(**wrong)))) as port:
        yield RunningProvider(port)


@contextmanager
def _served(app: Any) -> Iterator[int]:
    """An application on a port of this machine, in a loop of its own."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the provider has not started"
            thread.join(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


Reply = tuple[int, dict[str, str], bytes | dict[str, Any]]
"""Status, headers and body."""


class ScriptedProvider(RunningProvider):
    """A provider that answers as a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.reply: Callable[[dict[str, Any]], Reply] = lambda _: (500, {}, b"no reply yet")

    def at(self, port: int) -> None:
        super().__init__(port)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message.get("more_body"):
                break
        request = json.loads(body)
        self.asked.append(request)
        self.keys += [value.decode() for name, value in scope["headers"] if name == b"idempotency-key"]
        status, headers, answer = self.reply(request)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        named = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": named})
        await send({"type": "http.response.body", "body": content})


def said(text: str | None, finish: str = "stop", refusal: str | None = None) -> Reply:
    """An answer with this text."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    return 200, {}, {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage}


@pytest.fixture
def scripted() -> Iterator[ScriptedProvider]:
    provider = ScriptedProvider()
    with _served(provider) as port:
        provider.at(port)
        yield provider
