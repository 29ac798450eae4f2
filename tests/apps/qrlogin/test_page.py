"""The page in a real browser: success, password, expiry, and a second tab that takes over (C7).

With QRLOGIN_PICTURES=folder the screenshots of the README are made anew.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Page, expect

from appkit.loops import Loops
from qrlogin.api import login_app
from qrlogin.cli import _server
from qrlogin.metrics import Metrics
from tests.apps.chromium import Browser
from tests.apps.qrlogin.conftest import World, free_port, opened, until

PICTURES = os.environ.get("QRLOGIN_PICTURES")


@asynccontextmanager
async def site(world: World) -> AsyncIterator[str]:
    """The application behind a real server."""
    app = login_app(world.service, Loops(), Metrics(), world.settings, world.line)
    port = free_port()
    server = _server(app, "127.0.0.1", port)
    serving = asyncio.create_task(server.serve())
    try:

        async def started() -> bool:
            return bool(server.started)

        await until(started, lambda: "the server has started")
        yield f"http://127.0.0.1:{port}/"
    finally:
        app.state.closing.set()
        server.should_exit = True
        await serving
        app.state.stop_counting()


@pytest.fixture
async def url(redis_store: str, tmp_path: Path) -> AsyncIterator[str]:
    async with opened(redis_store, tmp_path) as world, site(world) as found:
        yield found


async def show_code(page: Page, user: str = "139883458") -> None:
    await page.get_by_label("User id").fill(user)
    await page.get_by_role("button", name="Show a code").click()
    await expect(page.get_by_role("heading", name="Scan this code")).to_be_visible()
    picture = page.get_by_alt_text("Code to scan with Telegram")
    await expect(picture).to_be_visible()
    await expect(picture).to_have_js_property("complete", True)
    assert await picture.evaluate("image => image.naturalWidth") > 100
    await expect(page.locator("#countdown")).to_contain_text("then the next one follows")


async def keep(page: Page, name: str) -> None:
    if PICTURES:
        await page.locator("main").screenshot(path=Path(PICTURES) / f"{name}.png", animations="disabled")


async def test_a_scan_logs_in(url: str, browser: Browser) -> None:
    page = await browser.page(url)
    await keep(page, "start")
    await show_code(page)
    await keep(page, "code")
    await page.get_by_role("button", name="an account", exact=True).click()
    await expect(page.get_by_role("heading", name="You are logged in")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    await expect(page.get_by_role("button", name="Try again")).to_be_hidden()
    await keep(page, "done")
    assert "token" not in page.url


async def test_a_password_is_asked_for_on_a_phone_in_the_dark(url: str, browser: Browser) -> None:
    page = await browser.page(url, phone=True, dark=True)
    await show_code(page)
    await keep(page, "code-phone-dark")
    wide = await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not wide
    assert "theme=dark" in await page.get_by_alt_text("Code to scan").evaluate("image => image.currentSrc")
    await page.get_by_role("button", name="an account with the password").click()
    await expect(page.get_by_role("heading", name="Password needed")).to_be_visible()
    field = page.get_by_label("Cloud password")
    await expect(field).to_be_focused()
    await field.fill("wrong")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_text("That was wrong. 4 tries left.")).to_be_visible()
    await keep(page, "password-phone-dark")
    await field.fill("swordfish")
    await field.press("Enter")
    await expect(page.get_by_role("heading", name="You are logged in")).to_be_visible()
    await keep(page, "done-phone-dark")


async def test_a_code_is_renewed_then_the_login_expires_and_a_new_try_is_offered(
    browser: Browser, redis_store: str, tmp_path: Path
) -> None:
    """Not scanned: the page goes on to the next code before the old one is over, and says when the time is."""
    async with opened(redis_store, tmp_path, ttl=5, code_seconds=4.0, renew_before=2.0) as world:
        async with site(world) as url, browser.leaving():
            page = await browser.page(url)
            await show_code(page)
            picture = page.get_by_alt_text("Code to scan")
            await expect(picture).not_to_have_attribute("src", await picture.get_attribute("src") or "")
            await expect(page.get_by_role("heading", name="The code has expired")).to_be_visible()
            await keep(page, "expired")
            before = page.url
            await page.get_by_role("button", name="Try again").click()
            await expect(page.get_by_role("heading", name="Scan this code")).to_be_visible()
            assert page.url != before


async def test_a_second_tab_takes_over_and_the_first_one_says_so(url: str, browser: Browser) -> None:
    first = await browser.page(url)
    await show_code(first)
    second = await browser.page(url, beside=first)
    await show_code(second)
    await expect(first.get_by_role("heading", name="Continued elsewhere")).to_be_visible()
    await keep(first, "superseded")
    await second.get_by_role("button", name="an account", exact=True).click()
    await expect(second.get_by_role("heading", name="You are logged in")).to_be_visible()
    await expect(first.get_by_role("heading", name="Continued elsewhere")).to_be_visible()


async def test_a_link_from_a_bot_opens_the_page_and_a_stranger_s_browser_does_not(url: str, browser: Browser) -> None:
    async with httpx.AsyncClient(base_url=url) as bot:
        told = (await bot.post("logins", json={"user_id": "bob"})).json()
    page = await browser.page(url + told["link"])
    await expect(page.get_by_role("heading", name="Scan this code")).to_be_visible()
    assert told["token"] not in page.url
    browser.tolerated.append("401")
    stranger = await browser.page(page.url)
    await expect(stranger.get_by_role("heading", name="This login is not open to you")).to_be_visible()
    await keep(stranger, "closed")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("You cancelled it.")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("You cancelled it.")).to_be_visible()
