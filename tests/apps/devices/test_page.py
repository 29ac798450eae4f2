"""The page in a real browser: a command is submitted by its form and followed live; on a phone, light and dark."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn

from devices.settings import Settings
from devices.simulator import Trouble
from tests.apps.chromium import Browser, browser
from tests.apps.devices.conftest import NODE, Running, simulated, started

__all__ = ["browser"]

PICTURES = os.environ.get("DEVICES_PICTURES")
"""A folder for pictures of the pages, for people who want to look."""


@asynccontextmanager
async def served(service: Running) -> AsyncIterator[str]:
    """The same application behind a real socket."""
    app = service.client._transport.app  # type: ignore[attr-defined]
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = server.force_exit = True
        await serving


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_person_submits_a_command_and_sees_it_end(
    settings_of: Callable[..., Settings], browser: Browser
) -> None:
    async with (
        started(settings_of()) as service,
        simulated(service.settings, 6, Trouble(skip_ack=0, work=0.05)),
        served(service) as url,
        browser.leaving(),
    ):
        page = await browser.page(url)
        await page.get_by_text("No commands here").wait_for()
        await page.get_by_text("New command").click()
        await page.get_by_label("node").fill(NODE)
        await page.get_by_label("command").fill("dose")
        await page.get_by_label("parameters").fill('{"ml": 5}')
        await page.get_by_role("button", name="Submit").click()
        await page.get_by_role("heading", name="Timeline").wait_for()
        await page.locator("p .badge", has_text="DONE").wait_for()
        await browser.picture(page, PICTURES, "command")
        overview = await browser.page(url)
        for number in range(8):
            await service.submit(f"c-{number}", node=f"gh-1/zone-1/node-{number % 5 + 1}", cmd="run_pump")
        await service.submit("bad-1", cmd="explode")
        for number in range(8):
            await service.reaches(f"c-{number}", "DONE", "NO_EFFECT")
        await service.reaches("bad-1", "INVALID")
        await overview.locator("td .badge", has_text="INVALID").wait_for()
        await browser.picture(overview, PICTURES, "page")
        for name, phone, dark in (("phone", True, False), ("dark", False, True)):
            shown = await browser.page(url, phone=phone, dark=dark)
            assert await shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            await browser.picture(shown, PICTURES, name)
        nodes = await browser.page(url + "nodes.html")
        await nodes.get_by_text("ONLINE").first.wait_for()
        await browser.picture(nodes, PICTURES, "nodes")
