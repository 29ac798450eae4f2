"""What storms, smoke tests and measurements stand on: a database, simulators and instances, all on this machine."""

import asyncio
import secrets
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from appkit.storm import until
from imagebot.services import DatabaseService, open_service
from imagebot.settings import Settings
from imagebot.warm import Warm, WarmInstance
from raceproof.testing import PostgresServer, postgres

FAST = {
    "POLL": "1",
    "LOCK_SECONDS": "15",
    "TAKEOVER": "0.3",
    "HEARTBEAT": "2",
    "SEND_TIMEOUT": "5",
    "KIE_TIMEOUT": "5",
    "DELIVERY_STALE": "15",
    "CREATION_STALE": "15",
    "GENERATION_LIMIT": "45",
    "KIE_QUERIES": "300",
    "KIE_CREATIONS": "200",
    "DRAIN": "10",
}
"""Times and rates for a machine that speaks with itself."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Ground:
    """Ports, secrets and processes of one run."""

    def __init__(self, warm: Warm, folder: Path, url: str, server: PostgresServer | None) -> None:
        self.warm = warm
        self.folder = folder
        self.database_url = url
        self.server = server
        self.port, self.telegram_port, self.kie_port = free_port(), free_port(), free_port()
        self.http = aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=30))
        self.secret = secrets.token_hex(16)
        self._token, self._key, self.webhook_key = (
            f"1:{secrets.token_hex(8)}",
            secrets.token_hex(16),
            secrets.token_hex(16),
        )
        self.instances: list[WarmInstance] = []

    @property
    def telegram(self) -> str:
        return f"http://127.0.0.1:{self.telegram_port}"

    @property
    def kie(self) -> str:
        return f"http://127.0.0.1:{self.kie_port}"

    def url(self, path: str, port: int = 0) -> str:
        return f"http://127.0.0.1:{port or self.port}{path}"

    def environment(self, name: str, **extra: str) -> dict[str, str]:
        return {
            "PORT": str(self.port),
            "HOST": "127.0.0.1",
            "REUSE_PORT": "1",
            "PUBLIC_URL": self.url(""),
            "IMAGEBOT_INSTANCE": name,
            "IMAGEBOT_SIMULATED": "1",
            "IMAGEBOT_FOLDER": str(self.folder),
            "DATABASE_URL": self.database_url,
            "TELEGRAM_API": self.telegram,
            "KIE_API": self.kie,
            "TELEGRAM_BOT_TOKEN": self._token,
            "KIE_API_KEY": self._key,
            "KIE_WEBHOOK_KEY": self.webhook_key,
            "WEBHOOK_SECRET": self.secret,
            "ADMIN_IDS": "1",
            "MODELS": '{"z-image": 500}',
            "WELCOME": "1000",
            **FAST,
            **extra,
        }

    async def simulate(self, *arguments: str) -> WarmInstance:
        """The simulators, in a process of their own."""
        ports = ("--telegram-port", str(self.telegram_port), "--kie-port", str(self.kie_port))
        made = self.warm.start(
            "simulators", ["simulate", *ports, *arguments], self.environment("simulators"), self.folder
        )
        self.instances.append(made)
        await self.reached(f"{self.telegram}/control/stats", made)
        return made

    def start(self, name: str, **extra: str) -> WarmInstance:
        made = self.warm.start(name, ["serve"], self.environment(name, **extra), self.folder)
        self.instances.append(made)
        return made

    async def reached(self, url: str, process: WarmInstance, seconds: float = 60.0) -> None:
        """Wait until it answers with 200."""

        async def answers() -> bool:
            return (await self.get(url)) is not None

        if not await until(answers, seconds, 0.05):
            raise RuntimeError(f"{process.name} does not come up:\n{process.log[-3000:]}")

    async def get(self, url: str) -> Any:
        """The JSON there; None without a 200."""
        try:
            async with self.http.get(url) as answer:
                return await answer.json() if answer.status == 200 else None
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def post(self, url: str, told: Any, headers: dict[str, str] | None = None) -> int:
        """The status of an answer; 0 without one."""
        try:
            async with self.http.post(url, json=told, headers=headers) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def update(self, told: dict[str, Any], port: int = 0) -> int:
        """An update, as Telegram sends it."""
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.secret}
        return await self.post(self.url(f"/webhook/{self.secret}", port), told, headers)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[DatabaseService]:
        """The database of the instances."""
        settings = Settings(database_url=self.database_url, folder=self.folder, instance="observer")
        async with open_service(settings) as database:
            yield database


@asynccontextmanager
async def ground(database: str, warm: Warm | None = None) -> AsyncIterator[Ground]:
    """Everything, ended with the block."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="imagebot-")))
        server = await asyncio.to_thread(postgres) if database == "postgres" else None
        if server is not None:
            stack.callback(server.close)
        url = server.database() if server else f"sqlite:///{folder / 'imagebot.db'}"
        made = Ground(warm or stack.enter_context(Warm()), folder, url, server)
        stack.push_async_callback(made.http.close)
        try:
            yield made
        finally:
            for one in made.instances:
                await asyncio.to_thread(one.kill)


def message(update_id: int, user: int, text: str) -> dict[str, Any]:
    """An update in which a user says something."""
    sender = {"id": user, "is_bot": False, "first_name": f"user {user}", "language_code": "en"}
    chat = {"id": user, "type": "private", "first_name": f"user {user}"}
    said = {"message_id": update_id, "date": int(time.time()), "from": sender, "chat": chat, "text": text}
    return {"update_id": update_id, "message": said}
