"""A database that hangs, restarts or is not there, under all four applications as real processes."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from appkit.storm import Instance, until
from raceproof.testing import MqttServer, PostgresServer, mqtt, postgres

PATIENCE = 120.0
SECRET = "a secret of some length"


@dataclass(frozen=True, slots=True)
class App:
    """One of them: how it is started, and a request that needs the database."""

    name: str
    environment: dict[str, str]
    arguments: tuple[str, ...]
    method: str
    path: str
    body: dict[str, Any] | None = None
    headers: dict[str, str] | None = None


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def apps(server: PostgresServer, broker: MqttServer, folder: Path) -> Iterator[App]:
    def environment(name: str, **more: str) -> dict[str, str]:
        told = {"DATABASE": server.database(), "FOLDER": str(folder / name), "PORT": str(free_port()), **more}
        return {f"{name.upper()}_{key}": value for key, value in told.items()}

    command = {"node": "gh/zone/node", "channel": "pump", "cmd": "dose", "params": {"ml": 1}}
    told = environment("devices", BROKER=broker.url, SECRET=SECRET)
    yield App("devices", told, ("serve",), "POST", "/commands", command)
    yield App("outreach", environment("outreach"), ("serve",), "GET", "/api/campaigns")
    often = {"STARTS_OF_USER": "100000", "STARTS_OF_ADDRESS": "100000"}
    yield App("qrlogin", environment("qrlogin", **often), ("serve",), "POST", "/logins", {"user_id": "139883458"})
    bot = {
        "DATABASE_URL": server.database(),
        "IMAGEBOT_FOLDER": str(folder / "imagebot"),
        "PORT": str(free_port()),
        "PUBLIC_URL": "https://bot.example.com",
        "HOST": "127.0.0.1",
        "TELEGRAM_BOT_TOKEN": f"1:{SECRET.replace(' ', '-')}",
        "TELEGRAM_API": "http://127.0.0.1:9",
        "KIE_API": "http://127.0.0.1:9",
        "WEBHOOK_SECRET": SECRET.replace(" ", "-"),
        "KIE_API_KEY": SECRET,
        "KIE_WEBHOOK_KEY": SECRET,
    }
    header = {"X-Telegram-Bot-Api-Secret-Token": bot["WEBHOOK_SECRET"]}
    sender = {"id": 7, "is_bot": False, "first_name": "Ann"}
    message = {"message_id": 1, "date": 1, "from": sender, "chat": {"id": 7, "type": "private"}, "text": "hi"}
    path = f"/webhook/{bot['WEBHOOK_SECRET']}"
    yield App("imagebot", bot, ("serve",), "POST", path, {"update_id": 1, "message": message}, header)


class Running:
    """An application as a process."""

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.process = Instance(app.name, [app.name, *app.arguments], app.environment, folder)
        (port,) = (value for name, value in app.environment.items() if name.endswith("PORT"))
        self._url = f"http://127.0.0.1:{port}"
        self.process.start()

    async def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=PATIENCE) as client:
            return await client.request(method, path, **more)

    async def healthy(self) -> bool:
        try:
            return (await self._request("GET", "/health")).status_code == 200
        except httpx.HTTPError:
            return False

    async def sick(self) -> bool:
        answer = await self._request("GET", "/health")
        return answer.status_code == 503 and "database" in answer.json()["loops"]

    async def ask(self) -> httpx.Response:
        app = self.app
        return await self._request(app.method, app.path, json=app.body, headers=app.headers)

    async def works(self) -> bool:
        return (await self.ask()).status_code < 300


Four = tuple[PostgresServer, list[Running]]


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Four]:
    """All of them on one server, which is this module's own."""
    folder = tmp_path_factory.mktemp("four")
    with postgres() as server, mqtt() as broker:
        running = [Running(app, folder) for app in apps(server, broker, folder)]
        try:
            yield server, running
        finally:
            for one in running:
                one.process.kill()


@pytest.fixture
async def four(processes: Four) -> Four:
    """All of them, at work."""
    for one in processes[1]:
        assert await until(one.healthy, PATIENCE), (one.app.name, one.process.tail(40))
    return processes


async def test_a_hanging_database_is_503_in_a_second_and_everything_recovers(
    four: Four,
) -> None:
    """All its processes stand still: nothing is refused, and whoever asks would wait."""
    server, running = four
    for one in running:
        assert (await one.ask()).status_code < 300, one.app.name
    server.pause()
    paused = time.monotonic()
    try:
        for one in running:
            began = time.monotonic()
            answer = await one.ask()
            took = time.monotonic() - began
            assert answer.status_code == 503, (one.app.name, answer.status_code, answer.text)
            assert took < 2.0, (
                one.app.name,
                took,
            )  # the requirement is 1 s, on a machine with nothing else to do
            assert "database" in answer.text or "store" in answer.text, answer.text
        for one in running:
            assert await until(one.sick, 10), one.app.name
        assert time.monotonic() - paused < 20
    finally:
        server.resume()
    for one in running:
        assert await until(one.works, PATIENCE), (one.app.name, one.process.tail(40))
        assert await until(one.healthy, PATIENCE), (one.app.name, one.process.tail(40))
        assert one.process.running, one.app.name


async def test_a_restarting_database_is_503_with_a_reason_and_never_500(
    four: Four,
) -> None:
    """Asked again and again while it is killed and comes back."""
    server, running = four
    over = asyncio.Event()

    async def keep_asking(one: Running) -> list[tuple[int, str]]:
        seen = []
        while not over.is_set():
            answer = await one.ask()
            seen.append((answer.status_code, answer.text))
            await asyncio.sleep(0.02)
        return seen

    asking = [asyncio.create_task(keep_asking(one)) for one in running]
    for _ in range(2):
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(1)
        await asyncio.to_thread(server.restart)
        await asyncio.sleep(2)
    for one in running:
        assert await until(one.works, PATIENCE), (one.app.name, one.process.tail(40))
    over.set()
    for one, answers in zip(running, await asyncio.gather(*asking), strict=True):
        odd = [(status, text) for status, text in answers if status >= 500 and status != 503]
        assert not odd, (one.app.name, odd[:3], one.process.tail(40))
        refused = [text for status, text in answers if status == 503]
        assert refused, one.app.name
        if one.app.name != "imagebot":  # a webhook's sender reads no words
            assert all("database" in text or "store" in text for text in refused), (one.app.name, refused[:3])


@pytest.mark.parametrize("app", ["devices", "outreach", "qrlogin"])
def test_an_absent_database_is_one_line_and_an_exit_code(app: str, tmp_path: Path) -> None:
    """Not a page of traceback, and nothing of the password. imagebot waits for it: it has to take over when it comes."""
    name = app.upper()
    environment = {
        **os.environ,
        f"{name}_DATABASE": "postgresql://me:canary-password@127.0.0.1:9/shop",
        f"{name}_FOLDER": str(tmp_path),
        f"{name}_PORT": str(free_port()),
    }
    command = [sys.executable, "-m", app, "serve"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 5, done.stderr
    assert "cannot reach the database at 127.0.0.1:9/shop: Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert "canary" not in done.stderr + done.stdout
