"""The page in a real browser, with both sides racing behind it; and its buttons, which are nobody else's to press."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

from showcase.page import showcase_app
from showcase.running import Showcase, Told, showcased
from showcase.serving import Server
from showcase.trouble import TROUBLES
from tests.apps.chromium import Browser, browser

__all__ = ["browser"]

PICTURES = os.environ.get("SHOWCASE_PICTURES")
"""A folder for pictures of the pages, for people who want to look."""
TOLD = Told(port=0, headless=False, minutes=10, keep=False, output="table")


@asynccontextmanager
async def shown() -> AsyncIterator[tuple[Showcase, FastAPI, str]]:
    """The twins without the applications, and the page behind a real socket."""
    async with showcased(TOLD, applications=()) as showcase:
        app = showcase_app(showcase)
        server = Server(app, 0)
        serving = asyncio.create_task(server.serve())
        await showcase.start()
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield showcase, app, server.address
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def test_a_person_causes_trouble_and_reads_what_came_of_it(browser: Browser) -> None:
    async with shown() as (_, _, url), browser.leaving():
        page = await browser.page(url)
        await page.get_by_role("button", name="Duplicate a callback").click()
        await page.get_by_text("came three times at once").wait_for()
        assert "#trouble" in page.url
        usual = page.locator("article", has_text="Callback against poller").locator(".side.bad")
        await usual.wait_for()
        await browser.picture(page, PICTURES, "page")
        for name, phone, dark in (("phone", True, False), ("dark", False, True)):
            other = await browser.page(url, phone=phone, dark=dark)
            await other.locator(".side.fine").first.wait_for()
            assert await other.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            await browser.picture(other, PICTURES, name)
            await other.close()
        await page.get_by_role("link", name="Callback against poller").click()
        await page.get_by_text("deliver_once").first.wait_for()
        await page.get_by_role("link", name="back").click()
        await page.get_by_role("heading", name="The same events, twice").wait_for()


async def test_no_button_can_be_pressed_without_token_or_from_another_origin() -> None:
    async with shown() as (showcase, app, url), httpx.AsyncClient(base_url=url, trust_env=False) as client:
        token = app.state.token
        changing = [
            path.replace("{name}", name)
            for path, methods in app.openapi()["paths"].items()
            if set(methods) - {"get", "head"}
            for name in TROUBLES
        ]
        assert len(changing) == len(TROUBLES)
        for path in changing:
            answers = {
                "no token": await client.post(path),
                "a wrong token": await client.post(path, data={"token": token[::-1]}),
                "another origin": await client.post(
                    path, data={"token": token}, headers={"origin": "https://evil.example"}
                ),
                "another site": await client.post(
                    path, data={"token": token}, headers={"sec-fetch-site": "cross-site"}
                ),
            }
            assert {what: answer.status_code for what, answer in answers.items()} == dict.fromkeys(answers, 403)
            assert (await client.get(path)).status_code == 405
            named = await client.post(path, data={"token": token}, headers={"host": "evil.example"})
            assert named.status_code == 421
        assert not showcase.troubles.incidents
        assert (await client.post("/trouble/nothing", data={"token": token})).status_code == 404
        assert (await client.post("/trouble/duplicate", data={"token": token})).status_code == 303
        assert [one.name for one in showcase.troubles.incidents] == ["duplicate"]
        for path in ("/", "/state.json", "/scenario/jobs"):
            answer = await client.get(path)
            assert answer.status_code == 200
            assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert (await client.get("/scenario/../secret")).status_code == 404
