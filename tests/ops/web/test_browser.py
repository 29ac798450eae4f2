"""The pages in a real Chromium: light and dark, desk and phone, by keyboard and mouse, under a prefix, live."""

from itertools import product

from playwright.async_api import Page, Route, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.apps.chromium import Browser
from tests.ops.web.fix_shop import Shop, item, served
from tests.ops.web.shop import Order
from tests.ops.web.test_pages import PAGES

PREFIX = "/ops/shop"


def mounted(made: Shop) -> Starlette:
    return Starlette(routes=[Mount(PREFIX, app=made.board(may_change=True))])


async def test_every_page_is_whole_in_light_and_dark_at_desk_and_phone_width(
    small_shop: Shop, browser: Browser
) -> None:
    browser.tolerated = ["404"]  # the page that says what is not there
    async with served(mounted(small_shop)) as base, browser.leaving():
        for dark, phone in product((False, True), repeat=2):
            page = await browser.page(dark=dark, phone=phone)
            for path in (*PAGES, item("Order", 4), item("Order", 5), item("Order", 12)):
                await page.goto(base + PREFIX + path)
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
                assert await page.evaluate("getComputedStyle(document.body).display") == "block"
                assert await page.evaluate(_UNREADABLE) == [], path
            ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (ground == "rgb(16, 20, 26)") is dark


async def test_it_is_used_by_keyboard_alone_and_follows_what_happens(small_shop: Shop, browser: Browser) -> None:
    async with served(mounted(small_shop)) as base, browser.leaving():
        page = await browser.page(base + PREFIX + "/")
        await expect(page.locator("#live")).to_contain_text("live")
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()
        await page.keyboard.press("g")
        await page.keyboard.press("r")
        await page.wait_for_url(base + PREFIX + "/races")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/item?*")
        await page.keyboard.press("?")
        await expect(page.locator("#help")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.locator("#help")).to_be_hidden()
        await page.keyboard.press("/")
        await page.keyboard.type("8")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/item?of=Order&key=8")
        await _cancel_by_keyboard(page)
        await expect(page.locator(".done")).to_contain_text("moved")
        await expect(page.locator("h1")).to_contain_text("CANCELLED")
        assert (await small_shop.store.history(Order, 8))[0].actor == "ann"
        # somebody else moves another row: the page that shows it follows by itself
        await page.goto(base + PREFIX + item("Order", 9))
        await expect(page.locator("h1")).to_contain_text("NEW")
        await small_shop.store.move(Order.cancel, 9, by="somebody else", reason="elsewhere")
        await expect(page.locator("h1")).to_contain_text("CANCELLED")
        await expect(page.locator(".timeline")).to_contain_text("somebody else")


async def test_a_change_between_the_page_and_its_line_is_shown(small_shop: Shop, browser: Browser) -> None:
    """The line opens after the page was made; what happened in between the other pages were told of, and not this one."""
    async with served(mounted(small_shop)) as base, browser.leaving():
        other = await browser.page(base + PREFIX + item("Order", 9))
        await expect(other.locator("#live")).to_contain_text("live")
        page = await browser.page()

        async def change_first(route: Route) -> None:
            await small_shop.store.move(Order.cancel, 9, by="somebody else")
            await expect(other.locator("h1")).to_contain_text("CANCELLED")
            await route.continue_()

        await page.route("**/live", change_first)
        await page.goto(base + PREFIX + item("Order", 9))
        await expect(page.locator("h1")).to_contain_text("CANCELLED", timeout=4000)  # before any page is told again


async def test_what_somebody_is_writing_is_not_taken_away_by_a_change(small_shop: Shop, browser: Browser) -> None:
    async with served(mounted(small_shop)) as base, browser.leaving():
        page = await browser.page(base + PREFIX + item("Order", 10))
        other = await browser.page(base + PREFIX + item("Order", 10))
        await page.locator("#why-cancel").fill("half a reas")
        await expect(other.locator("#live")).to_contain_text("live")
        await small_shop.store.move(Order.start, 10, by="packer-9")
        await expect(other.locator("h1")).to_contain_text("PACKING")
        assert await page.locator("#why-cancel").input_value() == "half a reas"
        await page.locator("#why-cancel").press("Enter")
        await expect(page.locator("h1")).to_contain_text("CANCELLED")


async def _cancel_by_keyboard(page: Page) -> None:
    """From the top of the page to the form of a move by Tab, and send it by Enter."""
    for _ in range(80):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.id") == "why-cancel":
            break
    await page.keyboard.type("by keyboard")
    await page.keyboard.press("Enter")


# texts whose contrast with what is behind them is too small to read, as WCAG counts it
_UNREADABLE = """() => {
  const parse = (text) => { const found = text.match(/[\\d.]+/g); return found ? found.map(Number) : [0, 0, 0, 0]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, place) => sum + v * [.2126, .7152, .0722][place], 0);
  const behind = (one) => { for (; one; one = one.parentElement) {
    const found = parse(getComputedStyle(one).backgroundColor);
    if (found.length < 4 || found[3] > .9) return found; } return [255, 255, 255]; };
  const bad = [];
  const texts = "main :is(p, b, span, td, th, dt, dd, a, h1, h2, button, li), nav a, header span";
  for (const one of document.querySelectorAll(texts)) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !one.offsetParent || one.closest("svg")) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) bad.push(one.className + ": " + one.textContent.trim().slice(0, 40));
  }
  return bad.slice(0, 5);
}"""
