"""A running service on each store, a simulated Telegram, and phones that scan what the service shows."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.asyncio import Redis

from appkit.loops import Loops
from qrlogin.identity import SessionId
from qrlogin.lifecycle import ENDED
from qrlogin.metrics import Metrics
from qrlogin.seeing import code_url, seen
from qrlogin.service import Service, running
from qrlogin.settings import Settings
from qrlogin.simulated import Line, Phone, SimulatedTelegram, simulated_clients
from raceproof.testing import ValkeyServer, valkey
from tests.apps.chromium import browser as browser

DEADLINE = 30.0
SLOTS = 16384
USER = "139883458"


@pytest.fixture(params=["sqlite", "valkey"])
async def store(request: pytest.FixtureRequest) -> str:
    """Where attempts live: '' for the database."""
    if request.param == "sqlite":
        return ""
    return await _empty(request.getfixturevalue("valkey_server"))


@pytest.fixture
async def redis_store(valkey_server: ValkeyServer) -> str:
    return await _empty(valkey_server)


async def _empty(server: ValkeyServer) -> str:
    async with Redis.from_url(server.url) as client:
        await client.flushall()
    return server.url


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Three nodes that share the slots."""
    with ExitStack() as stack:
        nodes: list[tuple[int, int, Any]] = []
        for number in range(3):
            bus = free_port()
            server = stack.enter_context(valkey(cluster_enabled="yes", cluster_port=bus))
            client: Any = stack.enter_context(redis.Redis(port=server.port, decode_responses=True))
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1)
            nodes.append((server.port, bus, client))
        for port, bus, _ in nodes[1:]:
            nodes[0][2].execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        deadline = time.monotonic() + DEADLINE
        while not all(_settled(client) for _, _, client in nodes):
            assert time.monotonic() < deadline, "the cluster did not form"
            time.sleep(0.01)
        yield f"redis-cluster://127.0.0.1:{nodes[0][0]}"


def _settled(client: Any) -> bool:
    told = client.execute_command("CLUSTER", "INFO")
    text = told if isinstance(told, str) else "".join(f"{name}:{value}\n" for name, value in told.items())
    return "cluster_state:ok" in text and "cluster_known_nodes:3" in text


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class World:
    """A service, its Telegram, and people with phones."""

    def __init__(self, settings: Settings, telegram: SimulatedTelegram, line: Line, service: Service) -> None:
        self.settings, self.telegram, self.line, self.service = settings, telegram, line, service
        self.places, self.manager = service.places, service.manager

    async def start(self, user: str = USER) -> SessionId:
        return SessionId.parsed(await self.manager.create_session(user, self.settings.ttl))

    async def status(self, session_id: SessionId) -> str | None:
        row = await self.places.row(session_id)
        return None if row is None else str(row["status"])

    async def reason(self, session_id: SessionId) -> str | None:
        row = await self.places.row(session_id)
        return None if row is None else row.get("reason")

    async def at(self, session_id: SessionId, *statuses: str) -> str:
        """Wait until the attempt is at one of these."""

        async def there() -> bool:
            return await self.status(session_id) in statuses

        await until(there, lambda: f"{session_id} is at one of {statuses}")
        return str(await self.status(session_id))

    async def ended(self, session_id: SessionId) -> str:
        return await self.at(session_id, *ENDED)

    async def code(self, session_id: SessionId, other_than: str | None = None) -> str:
        """The code that is shown, once there is one."""
        found: list[str] = []

        async def shown() -> bool:
            url = await code_url(self.places, session_id)
            if url is not None and url != other_than:
                found.append(url)
            return bool(found)

        await until(shown, lambda: f"{session_id} shows a code")
        return found[0]

    def phone(self, account: int = 7, password: str | None = None) -> Phone:
        return Phone(self.line, account, "Ann", password)

    async def asks_for_password(self, session_id: SessionId, wrong: int = 0) -> None:
        async def asked() -> bool:
            told = await seen(self.places, session_id)
            return told is not None and (told["password"] or {}).get("wrong") == wrong

        await until(asked, lambda: f"{session_id} asks for a password")

    async def give_password(self, session_id: SessionId, password: str) -> None:
        sealed = self.places.vault.seal(f"password {session_id}", password)
        await self.places.beside.put_password(session_id, sealed.text, 60)

    async def log_in(self, user: str = USER, account: int = 7) -> SessionId:
        session_id = await self.start(user)
        await self.phone(account).scan(await self.code(session_id))
        assert await self.ended(session_id) == "done"
        return session_id

    async def saved(self, user: str = USER) -> list[dict[str, Any]]:
        return await self.places.saving.listed(user)


Opened = Callable[..., Any]


@pytest.fixture
async def world(store: str, tmp_path: Path) -> AsyncIterator[World]:
    """On each store, with ingest at work."""
    async with opened(store, tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(
    store: str,
    folder: Path,
    *,
    ingest: bool = True,
    code_seconds: float = 30.0,
    migrate: float = 0.0,
    telegram: SimulatedTelegram | None = None,
    **more: Any,
) -> AsyncIterator[World]:
    """A service with these settings; without ingest, somebody else takes the attempts."""
    told: dict[str, Any] = {"store": store, "folder": folder, "lease": 3.0, "starts_of_user": 1000}
    told |= {"any_account": True, **more}  # see test_accounts for whose phone may scan
    settings = Settings(**told)
    async with AsyncExitStack() as stack:
        if telegram is None:
            telegram = await stack.enter_async_context(SimulatedTelegram(code_seconds=code_seconds, migrate=migrate))
        line = Line("127.0.0.1", telegram.port)
        stack.push_async_callback(line.close)
        clients = simulated_clients(line) if ingest else None
        service = await stack.enter_async_context(running(settings, clients, Loops(), Metrics()))
        yield World(settings, telegram, line, service)


async def until(condition: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
    """Look again until it holds, also if a store is away; the deadline is a safety net."""
    deadline = time.monotonic() + DEADLINE

    async def holds() -> bool:
        with suppress(redis.exceptions.ConnectionError):
            return await condition()
        return False

    while not await holds():
        assert time.monotonic() < deadline, f"gave up waiting until {what()}"
        await asyncio.sleep(0.01)
