"""Behind a proxy: streams that it holds back, errors that it answers, addresses that clients make up, and prefixes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect

from appkit.loops import Loops
from qrlogin.api import login_app
from qrlogin.cli import _server
from qrlogin.metrics import Metrics
from tests.apps.chromium import Browser
from tests.apps.qrlogin.conftest import USER, World, free_port, opened, until
from tests.apps.qrlogin.test_api import TOKEN, api_of
from tests.apps.qrlogin.test_page import show_code, site


@dataclass
class Proxy:
    """As nginx by default: an answer goes on when it is complete, unless its X-Accel-Buffering says no."""

    port: int
    obeys: bool = True
    """Whether it cares about X-Accel-Buffering."""
    broken: bool = False
    """Whether it answers 502 to whoever asks for events."""
    held_back: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.close()
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError, EOFError):
                await self._one(reader, writer)
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        sent = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
        body = await reader.readexactly(int(sent.get("content-length", 0)))
        if self.broken and "/events" in first:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            await self._pass_on(first, lines, body, there, back, writer)
        finally:
            back.close()

    async def _pass_on(
        self, first: str, lines: list[str], body: bytes, there: asyncio.StreamReader,
        back: asyncio.StreamWriter, writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        kept = [one for one in lines if one and not one.lower().startswith("connection:")]
        back.write("\r\n".join([first, *kept, "Connection: close", "", ""]).encode() + body)
        answer = await there.readuntil(b"\r\n\r\n")
        streams = self.obeys and b"x-accel-buffering: no" in answer.lower()
        held = [answer]
        while chunk := await there.read(65536):
            if streams:
                writer.write(b"".join(held) + chunk)
                await writer.drain()
                held.clear()
            else:
                held.append(chunk)
                self.held_back += 1
        writer.write(b"".join(held))
        await writer.drain()


@asynccontextmanager
async def behind(world: World, obeys: bool = True, broken: bool = False) -> AsyncIterator[tuple[str, Proxy]]:
    async with site(world) as url:
        proxy = Proxy(int(url.rstrip("/").rpartition(":")[2]), obeys, broken)
        async with proxy.running() as found:
            yield found, proxy


async def logs_in(url: str, browser: Browser) -> None:
    page = await browser.page(url)
    await show_code(page)
    await page.get_by_role("button", name="an account", exact=True).click()
    await expect(page.get_by_role("heading", name="You are logged in")).to_be_visible()


async def test_events_pass_through_a_proxy_that_buffers_by_default(redis_store: str, tmp_path: Path) -> None:
    async with opened(redis_store, tmp_path) as world, behind(world) as (url, _):
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as client:
            made = (await client.post("logins", json={"user_id": USER})).json()
            headers = {"Authorization": f"Bearer {made['token']}"}
            async with client.stream("GET", f"logins/{made['session_id']}/events", headers=headers) as told:
                async for line in told.aiter_lines():
                    if '"status": "qr_rendered"' in line:  # while the stream is open
                        return
    raise AssertionError("the stream ended without a code")


async def test_a_login_works_behind_a_proxy_that_holds_every_stream_back(
    redis_store: str, tmp_path: Path, browser: Browser
) -> None:
    async with opened(redis_store, tmp_path) as world, behind(world, obeys=False) as (url, proxy):
        async with browser.leaving():
            await logs_in(url, browser)
        assert proxy.held_back


async def test_a_page_survives_a_proxy_that_answers_an_error_for_a_while(
    redis_store: str, tmp_path: Path, browser: Browser
) -> None:
    """A 502 ends an EventSource for good; the page looks by itself, and listens again when it can."""
    browser.tolerated.append("502")
    async with opened(redis_store, tmp_path) as world, behind(world, broken=True) as (url, proxy):
        async with browser.leaving():
            page = await browser.page(url)
            await show_code(page)
            proxy.broken = False
            await page.get_by_role("button", name="an account", exact=True).click()
            await expect(page.get_by_role("heading", name="You are logged in")).to_be_visible()


async def test_a_page_says_that_its_connection_is_lost_and_goes_on_by_itself(
    redis_store: str, tmp_path: Path, browser: Browser
) -> None:
    browser.tolerated += ["net::ERR", "502"]
    async with opened(redis_store, tmp_path) as world, behind(world, obeys=False) as (url, proxy):
        async with browser.leaving():
            page = await browser.page(url)
            await show_code(page)
            port, proxy.port, proxy.broken = proxy.port, free_port(), True
            await expect(page.locator("#offline")).to_be_visible()
            await browser.picture(page, None, "offline")
            proxy.port, proxy.broken = port, False
            await expect(page.locator("#offline")).to_be_hidden(timeout=15_000)
            await page.get_by_role("button", name="an account", exact=True).click()
            await expect(page.get_by_role("heading", name="You are logged in")).to_be_visible()


@asynccontextmanager
async def served(world: World, proxies: str) -> AsyncIterator[httpx.AsyncClient]:
    app = login_app(world.service, Loops(), Metrics(), world.settings, world.line)
    port = free_port()
    server = _server(app, "127.0.0.1", port, proxies)
    serving = asyncio.create_task(server.serve())

    async def started() -> bool:
        return bool(server.started)

    await until(started, lambda: "the server has started")
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        await serving
        app.state.stop_counting()


@pytest.mark.parametrize(("proxies", "allowed"), [("", 3), ("127.0.0.1", 8)])
async def test_an_address_that_a_client_makes_up_does_not_get_around_the_limit(
    tmp_path: Path, proxies: str, allowed: int
) -> None:
    """Only a proxy that is named in QRLOGIN_PROXIES may say whose request it is."""
    async with opened("", tmp_path, ingest=False, starts_of_address=3) as world:
        async with served(world, proxies) as api:
            codes = []
            for number in range(8):
                made_up = {"X-Forwarded-For": f"10.0.0.{number}"}
                answer = await api.post("/logins", json={"user_id": f"u{number}"}, headers=made_up)
                codes.append(answer.status_code)
    assert codes.count(201) == allowed


async def test_a_backend_with_the_token_is_not_limited_by_its_address(tmp_path: Path) -> None:
    settings = {"token": TOKEN, "starts_of_address": 3, "starts_of_user": 2}
    async with opened("", tmp_path, ingest=False, **settings) as world, api_of(world) as api:  # type: ignore[arg-type]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        users = [*(str(number) for number in range(10)), "1", "1"]
        codes = [(await api.post("/logins", json={"user_id": u}, headers=headers)).status_code for u in users]
        assert codes == [201] * 11 + [429]


async def test_the_cookie_and_the_link_are_right_under_a_prefix_and_behind_tls(tmp_path: Path) -> None:
    async with opened("", tmp_path, ingest=False, url="https://login.example.com/qr/") as world:
        async with api_of(world) as api:
            answer = await api.post("/logins", json={"user_id": USER})
            told = answer.json()
            assert told["link"].startswith("https://login.example.com/qr/#login=")
            cookie = answer.headers["set-cookie"]
            assert f"Path=/qr/logins/{told['session_id']}" in cookie
            assert "Secure" in cookie
            mine = {"Authorization": f"Bearer {told['token']}"}
            for origin, code in (
                ("https://login.example.com", 200),
                ("https://evil.example.com", 403),
                ("http://login.example.com", 403),
            ):
                path = f"/logins/{told['session_id']}/enter"
                answer = await api.post(path, headers={**mine, "Origin": origin})
                assert answer.status_code == code
