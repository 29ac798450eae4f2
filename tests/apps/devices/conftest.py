"""A running service on each database, a real broker, and nodes that a test plays or simulates."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiomqtt
import httpx
import pytest

from appkit.loops import Loops
from devices.api import device_app
from devices.messages import Topics
from devices.metrics import Metrics
from devices.service import Service, running
from devices.settings import Settings, broker_options
from devices.simulator import Simulator, Trouble, paths
from raceproof.testing import MqttServer, mqtt
from raceproof.webhooks import Secret
from tests.apps.databases import empty_database

SECRET = "a secret of at least sixteen"
NODE = "gh-1/zone-1/node-1"


@pytest.fixture(scope="session")
def broker() -> Iterator[MqttServer]:
    """A broker for everybody; topics of one test begin with a prefix of its own."""
    with mqtt() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return empty_database(request, tmp_path)


class Running:
    """A service, and how to talk to it."""

    def __init__(self, service: Service, loops: Loops, client: httpx.AsyncClient, settings: Settings) -> None:
        self.service = service
        self.loops = loops
        self.client = client
        self.settings = settings
        self.topics = Topics(settings.prefix)

    async def submit(self, cmd_id: str, **more: Any) -> httpx.Response:
        body = {"cmd_id": cmd_id, "node": NODE, "channel": "pump", "cmd": "dose", "params": {"ml": 5}, **more}
        return await self.client.post("/commands", json=body)

    async def show(self, cmd_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self.client.get(f"/commands/{cmd_id}")).json()
        return found

    async def reaches(self, cmd_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until a command is at one of these."""

        async def there() -> dict[str, Any] | None:
            found = await self.show(cmd_id)
            return found if found["status"] in statuses else None

        found: dict[str, Any] = await eventually(there)
        return found


async def eventually(ask: Callable[[], Awaitable[Any]], seconds: float = 30) -> Any:
    """Ask again and again until the answer is something."""
    deadline = time.monotonic() + seconds
    while not (found := await ask()):
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)
    return found


class PlayedNode:
    """A node that does exactly what a test says, over a real connection."""

    def __init__(self, client: aiomqtt.Client, topics: Topics) -> None:
        self._client = client
        self._topics = topics
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def listen(self) -> None:
        async for message in self._client.messages:
            self.heard.put_nowait(json.loads(bytes(message.payload)))

    async def next(self, seconds: float = 15) -> dict[str, Any]:
        """The next command that arrives."""
        return await asyncio.wait_for(self.heard.get(), seconds)

    async def say(self, cmd_id: str, status: str, node: str = NODE, channel: str = "pump", **more: Any) -> None:
        message = {"cmd_id": cmd_id, "status": status, "ts": int(time.time() * 1000), **more}
        await self.raw(self._topics.response(node, channel), json.dumps(message).encode())

    async def raw(self, topic: str, body: bytes) -> None:
        await self._client.publish(topic, body, qos=1)

    async def about(self, kind: str, body: bytes = b"{}", node: str = NODE) -> None:
        await self.raw(self._topics.about(node, kind), body)


Play = Callable[[str], Any]


@pytest.fixture
def settings_of(broker: MqttServer, database_url: str, tmp_path: Path) -> Callable[..., Settings]:
    def make(**more: Any) -> Settings:
        told: dict[str, Any] = {
            "database": database_url,
            "broker": broker.url,
            "secret": SECRET,
            "folder": tmp_path,
            "prefix": f"t{abs(hash(tmp_path)) % 10**8}",
            "puback": 2.0,
        }
        return Settings(**{**told, **more})

    return make


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[Running]:
    """One instance, in this process."""
    metrics, loops = Metrics(), Loops()
    async with running(settings, settings.broker, loops, metrics) as (service, follower):
        token = settings.token.get_secret_value() if settings.token else None
        app = device_app(service, loops, metrics, follower, token)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def healthy() -> bool:
                return loops.healthy

            await eventually(healthy)
            for number in range(1, 10):
                service.presences.hear(f"gh-1/zone-1/node-{number}", "heartbeat", b"{}", False)
            await service.presences.write()
            yield Running(service, loops, client, settings)


@pytest.fixture
async def service(settings_of: Callable[..., Settings]) -> AsyncIterator[Running]:
    async with started(settings_of()) as running:
        yield running


@asynccontextmanager
async def played(settings: Settings) -> AsyncIterator[PlayedNode]:
    """A node that hears every command of these settings."""
    topics = Topics(settings.prefix)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiomqtt.Client(**broker_options(settings.broker)))
        await client.subscribe(f"{settings.prefix}/+/+/+/+/command", qos=1)
        node = PlayedNode(client, topics)
        listening = asyncio.create_task(node.listen())
        stack.callback(listening.cancel)
        yield node


@pytest.fixture
async def node(service: Running) -> AsyncIterator[PlayedNode]:
    async with played(service.settings) as found:
        yield found


@asynccontextmanager
async def simulated(settings: Settings, number: int, trouble: Trouble) -> AsyncIterator[Simulator]:
    simulator = Simulator(
        broker_options(settings.broker),
        Topics(settings.prefix),
        lambda _: Secret(SECRET),
        paths(number),
        trouble,
    )
    running = asyncio.create_task(simulator.run(heartbeat=1))
    await simulator.connected.wait()
    try:
        yield simulator
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
