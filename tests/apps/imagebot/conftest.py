"""Instances as processes of their own, on either store; Telegram and KIE are simulators in the test's loop."""

import asyncio
import base64
import hashlib
import hmac
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from imagebot.services import DatabaseService, open_service
from imagebot.settings import Settings
from imagebot.simulators.serving import Secrets, Simulators, simulated
from imagebot.simulators.trouble import Trouble
from imagebot.warm import Warm, WarmInstance
from tests.apps.databases import empty_database

SECRETS = Secrets("1:canary-token-9d1f", "canary-api-key-51c0", "canary-webhook-key-77aa")
WEBHOOK_SECRET = "canary-webhook-secret-03be"
USER = 1001
PATIENCE = 60.0


async def until(condition: Callable[[], Awaitable[Any] | Any], what: str = "it") -> Any:
    """Ask again and again; what it said when it held."""
    deadline = time.monotonic() + PATIENCE
    while True:
        held = condition()
        held = await held if isinstance(held, Awaitable) else held
        if held:
            return held
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


class Process(WarmInstance):
    """One instance, at a port."""

    port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def health(self) -> dict[str, Any]:
        try:
            async with aiohttp.ClientSession() as http, http.get(f"{self.url}/health") as answer:
                told: dict[str, Any] = await answer.json()
                return {**told, "http": answer.status}
        except aiohttp.ClientError:
            return {"healthy": False, "mode": "", "http": 0}


class World:
    """A database, two simulators, and instances."""

    def __init__(self, database: str, simulators: Simulators, folder: Path, warm: Warm) -> None:
        self.warm = warm
        self.database = database
        self.telegram = simulators.telegram
        self.kie = simulators.kie
        self.simulators = simulators
        self.folder = folder
        self.processes: list[Process] = []

    def settings(self, port: int = 0, name: str = "test", **extra: str) -> dict[str, str]:
        return {
            "PORT": str(port),
            "IMAGEBOT_INSTANCE": name,
            "IMAGEBOT_FOLDER": str(self.folder),
            "IMAGEBOT_SIMULATED": "1",
            "DATABASE_URL": self.database,
            "PUBLIC_URL": f"http://127.0.0.1:{port}",
            "TELEGRAM_API": self.simulators.telegram_url,
            "KIE_API": self.simulators.kie_url,
            "TELEGRAM_BOT_TOKEN": SECRETS.token,
            "KIE_API_KEY": SECRETS.api_key,
            "KIE_WEBHOOK_KEY": SECRETS.webhook_key,
            "WEBHOOK_SECRET": WEBHOOK_SECRET,
            "ADMIN_IDS": "1",
            "WELCOME": "2000",
            "POLL": "0.2",
            "TAKEOVER": "0.2",
            "LOCK_SECONDS": "3",
            "HEARTBEAT": "1",
            "KIE_QUERIES": "1000",
            "KIE_CREATIONS": "1000",
            "SEND_TIMEOUT": "20",
            **extra,
        }

    async def start(self, name: str, first: bool | None = None, up: bool = True, **extra: str) -> Process:
        """An instance that is up; the first one becomes ACTIVE."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = Process(self.warm, name, ["serve"], self.settings(port, name, **extra), self.folder)
        process.port = port
        self.processes.append(process)
        first = len(self.processes) == 1 if first is None else first

        async def is_up() -> bool:
            health = await process.health()
            return bool(health["healthy"]) and (
                not first or (health["mode"] == "ACTIVE" and bool(self.telegram.webhook))
            )

        if up:
            await until(is_up, f"{name}: {process.log[-2000:]}")
        return process

    async def say(self, text: str, user: int = USER) -> None:
        self.telegram.say(user, text)

    def texts(self, user: int = USER) -> list[str]:
        return [str(one.get("text")) for one in self.telegram.chat(user).messages if one["from"]["is_bot"]]

    def button(self, prefix: str, user: int = USER) -> tuple[int, str] | None:
        """The newest button that begins so."""
        for message in reversed(self.telegram.chat(user).messages):
            for row in (message.get("reply_markup") or {}).get("inline_keyboard", ()):
                for one in row:
                    if one["callback_data"].startswith(prefix):
                        return message["message_id"], one["callback_data"]
        return None

    async def press(self, prefix: str, user: int = USER, times: int = 1) -> None:
        found = await until(lambda: self.button(prefix, user), f"a button {prefix}")
        for _ in range(times):
            self.telegram.press(user, *found)

    async def press_menu(self, data: str, user: int = USER) -> None:
        """A button of the menu."""
        await self.say("/start", user)
        await self.press(data, user)

    async def order(self, prompt: str = "a lighthouse", user: int = USER) -> str:
        """A paid job; its id."""
        before = self.button("make|", user)
        await self.say(f"/image {prompt}", user)
        found = await until(lambda: self.button("make|", user) not in (before, None) and self.button("make|", user))
        self.telegram.press(user, *found)
        return str(found[1].split("|")[1])

    async def order_for_a_callback(self) -> tuple[str, str]:
        """A paid job whose task ends after the poller has looked, and its task; with POLL=30 the poller is far away."""
        self.kie.trouble = Trouble.parsed("lost")
        self.kie.gate.clear()
        job_id = await self.order()
        await until(lambda: self.kie.looks, "a look of the poller")
        self.kie.gate.set()
        return job_id, await self.task_of(job_id)

    async def task_of(self, job_id: str) -> str:
        """The task of a job, once it is done."""

        def done() -> str | None:
            for task in self.kie.tasks.values():
                if f"job={job_id}" in task.param["callBackUrl"] and task.state in ("success", "fail"):
                    return task.task_id
            return None

        return str(await until(done, "a task that is done"))

    async def call_back(self, process: Process, task_id: str, later: int = 0, key: str = "") -> int:
        """KIE calls this very instance."""
        moment = str(int(time.time()) + later)
        signed = f"{task_id}.{moment}".encode()
        digest = hmac.digest((key or SECRETS.webhook_key).encode(), signed, hashlib.sha256)
        headers = {"X-Webhook-Timestamp": moment, "X-Webhook-Signature": base64.b64encode(digest).decode()}
        body = {"code": 200, "msg": "", "data": {"taskId": task_id, "state": "success"}}
        async with (
            aiohttp.ClientSession() as http,
            http.post(f"{process.url}/kie-callback", json=body, headers=headers) as answer,
        ):
            return answer.status

    def lines(self, tag: str) -> list[str]:
        return [line for process in self.processes for line in process.lines(tag)]

    def photos(self, user: int = USER) -> list[dict[str, Any]]:
        return [one for one in self.telegram.chat(user).messages if one.get("photo")]

    async def job(self, job_id: str) -> dict[str, Any]:
        async with self.opened() as database:
            return await database.jobs.get(job_id) or {}

    async def status(self, job_id: str) -> str:
        return str((await self.job(job_id)).get("status"))

    def opened(self) -> Any:
        """The database of the instances, opened by the test."""
        return open_service(Settings(database_url=self.database, folder=self.folder, instance="test"))


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Where instances are forked from."""
    with Warm() as made:
        yield made


@pytest.fixture(params=["postgres", "sqlite"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return empty_database(request, tmp_path)


@pytest.fixture
async def world(database_url: str, tmp_path: Path, warm: Warm) -> AsyncIterator[World]:
    """Instances are ended with the test, and none of them may have told a secret."""
    async with simulated(SECRETS, Trouble(), seconds=0.2, size=8) as simulators:
        made = World(database_url, simulators, tmp_path, warm)
        yield made
        made.telegram.photo_gate.set()
        for process in made.processes:
            process.kill()
        told = "".join(process.log for process in made.processes)
        assert not re.search(r"canary-[a-z-]+-[0-9a-f]{4}", told), "a secret is in the log"


@pytest.fixture
async def service(database_url: str, tmp_path: Path) -> AsyncIterator[DatabaseService]:
    """The database alone, without any process."""
    settings = Settings(database_url=database_url, folder=tmp_path, instance="test", welcome=2000, admin_ids="1")
    async with open_service(settings) as opened:
        yield opened
