"""The page in a real browser: a campaign is added, a match understood and decided; on a phone, light and dark."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn

from appkit.loops import Loops
from outreach.api import outreach_app
from outreach.discovery import add_campaign, discover
from outreach.metrics import Metrics
from outreach.service import Service, running
from outreach.settings import Settings
from tests.apps.chromium import Browser, browser

from .conftest import run_all

__all__ = ["browser"]

PICTURES = os.environ.get("OUTREACH_PICTURES")
"""A folder for pictures of the pages, for people who want to look."""

TOO_WIDE = """[...document.querySelectorAll('body *')]
    .filter(one => !one.parentElement.closest('.scroll') && one.getBoundingClientRect().right > window.innerWidth)
    .map(one => one.outerHTML.slice(0, 120))"""


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[tuple[Service, str]]:
    """An instance that shows and does not work by itself, behind a real socket."""
    metrics, loops = Metrics(), Loops()
    async with running(settings, loops, metrics, work=False) as service:
        app = outreach_app(service, loops, metrics)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="off"))
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        try:
            yield service, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def test_a_person_adds_a_campaign_sees_why_a_match_scored_and_decides(browser: Browser, tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'outreach.db'}", rest=0.0)
    async with served(settings) as (service, url), browser.leaving():
        page = await browser.page(url + "campaigns.html")
        await page.get_by_text("New campaign").click()
        await page.get_by_label("name").fill("Spring <b>launch</b>")
        await page.get_by_label("keywords").fill("startup, pricing")
        await page.get_by_label("ideal").fill("Interviews with founders about pricing.")
        await page.get_by_role("button", name="Add").click()
        await page.get_by_text("Spring <b>launch</b>").first.wait_for()

        overview = await browser.page(url)
        await overview.get_by_text("Nobody works on anything right now.").wait_for()
        campaign = await add_campaign(
            service.database,
            "Spring <b>launch</b>",
            ["startup", "pricing"],
            "Interviews with founders about pricing.",
        )
        await discover(service.database, service.fetcher, campaign, "shipped:search-startups.json")
        await run_all(service, 1)
        # nobody has loaded the page again
        await overview.locator("li", has_text=re.compile(r"[1-9]\d*\s*matches")).wait_for()
        await browser.picture(overview, PICTURES, "overview")

        await overview.locator("form[action='stages/vetting'] button").click()
        await overview.get_by_role("button", name="Resume").wait_for()

        reviews = await browser.page(url + "reviews.html")
        card = reviews.locator(".card", has=reviews.get_by_role("button", name="Approve")).first
        name = await card.locator("b").first.inner_text()
        await card.locator("a").first.click()
        await reviews.get_by_role("heading", name="Why this score").wait_for()
        await browser.picture(reviews, PICTURES, "match")
        await reviews.goto(url + "reviews.html")
        card = reviews.locator(".card", has=reviews.get_by_text(name)).first
        await card.get_by_label("your name").fill("Ann")
        await card.get_by_label("why").fill("it fits")
        await card.get_by_role("button", name="Approve").click()
        await reviews.goto(url + "reviews.html?show=approved")
        decided = reviews.locator(".card", has=reviews.get_by_text(name)).first
        await decided.get_by_text("by Ann").wait_for()
        await browser.picture(reviews, PICTURES, "reviews")
        assert await reviews.locator("b", has_text=re.compile("^launch$")).count() == 0

        for shown in (page, overview, reviews):
            await shown.close()
        for picture, phone, dark in (("phone", True, False), ("dark", False, True)):
            for path in ("", "reviews.html", "discoveries.html", "podcasts.html", "match/1"):
                shown = await browser.page(url + path, phone=phone, dark=dark)
                assert await shown.evaluate(TOO_WIDE) == [], path
                named = path.replace("/", "-") or "overview"
                await browser.picture(shown, PICTURES, f"{picture}-{named}")
                await shown.close()
