"""The pictures of docs/dashboard.md, made anew: `python -m tests.ops.web.pictures [folder]`.

A shop on the embedded store, with workers that race over its orders while the pictures are taken.
"""

import asyncio
import random
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from raceproof import Claim
from raceproof.inbox import Arrival
from raceproof.ops.web import Dashboard, Link
from tests.apps.chromium import Browser, chromium
from tests.ops.web import shop
from tests.ops.web.fix_shop import Shop, served, sqlite_shop
from tests.ops.web.shop import Login, Order

_CARRIERS = ("DHL", "UPS", "Hermes")


async def busy(made: Shop) -> None:
    """A morning in the shop."""
    db, chance = made.store, random.Random(7)
    for number in range(1001, 1161):
        await made.put("shop_orders", id=number, status="NEW", note="2 × tea", api_token="not for you", paid=1)
    for worker in range(4):
        for one in await db.claim(Order.packing, 24, by=f"packer-{worker + 1}"):
            await db.move(Order.pack, one, by=one.by)
            if chance.random() < 0.7:
                await db.move(Order.ship, one.key, by="desk", set={"carrier": chance.choice(_CARRIERS)})
            if chance.random() < 0.25:
                await db.move(Order.cancel, one.key, by="customer", reason="changed my mind")
            if chance.random() < 0.15:
                await db.move(Order.pack, one.key, by=f"packer-{(worker + 1) % 4 + 1}")
            await _receipt(made, one, chance)
    for number in (1150, 1152, 1155):
        await db.move(Order.cancel, number, by="customer", reason="ordered twice")
    await db.claim(Order.packing, 5, by="packer-2")
    await db.claim(Order.packing, 2, by="packer-4", lease=0.001)
    for owner in ("eve", "bob", "ann"):
        for number in range(chance.randint(1, 3)):
            await db.start_attempt(shop.logins, owner, f"{owner}-{number + 1}", by="web")
    await db.move(Login.finish, "eve-1", by="late worker")
    for number in range(40):
        await db.receive(shop.events, Arrival("kie", f"callback-{number:03}", b"{}", {}))
        if number % 6 == 0:
            await db.receive(shop.events, Arrival("kie", f"callback-{number:03}", b"{}", {}))
    for one in await db.claim(shop.events.work, 30, by="worker-1"):
        await db.move(shop.events.finish, one)
    for _ in range(3):
        for one in await db.claim(shop.events.work, 1, by="worker-2"):
            await db.fail(one, reason="the provider answered 500", delay=0.0)


async def _receipt(made: Shop, one: Claim[Any, Any], chance: random.Random) -> None:
    first, second = chance.sample(("callback", "poller"), 2)
    permit: Any = await made.store.begin_delivery(shop.receipts, one.key, by=first)
    if chance.random() < 0.03:
        await made.store.uncertain(permit, "TimeoutError: no answer in 30 s")
        return
    await made.store.delivered(permit)
    if chance.random() < 0.5:
        await made.store.begin_delivery(shop.receipts, one.key, by=second)


def led(board: Dashboard, now: datetime) -> None:
    """What a dashboard that has run for a while remembers of the lease."""
    past = (("web-7f2c", 290, 196), ("web-91aa", 192, 101), ("web-7f2c", 104, 97), ("web-c03e", 96, 0))
    for holder, begin, end in past:
        began = now - timedelta(seconds=begin)
        board.board.watch.note("shop-bot", holder, int(began.timestamp() * 1e6), began, now - timedelta(seconds=end))


_PICTURES = (
    ("overview", "/", "desk"),
    ("overview-dark", "/", "dark"),
    ("lifecycle", "/lifecycle?of=Order&status=PACKING", "desk"),
    ("races", "/races?show=losers", "desk"),
    ("claims", "/claims", "desk"),
    ("delivery", "/delivery", "desk"),
    ("leader", "/leader", "desk"),
    ("doctor", "/doctor", "dark"),
    ("phone", "/lifecycle?of=Order&status=PACKING", "phone dark"),
)


async def take(browser: Browser, base: str, folder: Path) -> None:
    """The pictures of the pages, and of a person at work."""
    for name, path, how in _PICTURES:
        page = await browser.page(base + path, dark="dark" in how, phone="phone" in how)
        await _shoot(page, folder, name)
    page = await browser.page(base + "/find?q=1157")
    await page.locator("#why-cancel").fill("the customer called")
    await page.get_by_role("button", name="cancel").click()
    await page.goto(base + "/races?show=losers")
    await page.locator("table.ledger a").nth(4).click()
    await _shoot(page, folder, "item")
    await page.goto(base + "/bulk?of=Order&move=cancel")
    await page.locator("textarea[name=keys]").fill("\n".join(map(str, range(1098, 1110))))
    await page.locator("#why").fill("the warehouse is closed")
    await page.get_by_role("button", name="Freeze a plan").click()
    await _shoot(page, folder, "plan")
    await page.get_by_role("button", name="Apply").click()
    await page.goto(base + "/audit")
    await _shoot(page, folder, "audit")


async def _shoot(page: Page, folder: Path, name: str) -> None:
    """What a visitor sees first, in as many points as the page has: small enough for a repository."""
    path = folder / f"dashboard-{name}.png"
    await page.screenshot(path=path, animations="disabled", type="png", scale="css")


async def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        async with sqlite_shop(Path(place)) as made:
            board = made.board(may_change=True, where="sqlite:///shop.db", links=[Link("Runbook", "#runbook")])
            await busy(made)
            await made.store.acquire_lease(shop.bot, "web-c03e")
            led(board, datetime.now(UTC))
            async with served(board) as base, chromium() as browser, browser.leaving():
                await take(browser, base, folder)
            await board.close()


if __name__ == "__main__":
    images = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    images.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(images))
