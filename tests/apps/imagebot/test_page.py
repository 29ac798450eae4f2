"""The chat page in a real browser: somebody orders a picture and sees it, on a phone too."""

import os

import pytest

from tests.apps.chromium import Browser, browser
from tests.apps.imagebot.conftest import World, until

__all__ = ["browser"]

PICTURES = os.environ.get("IMAGEBOT_PICTURES")
"""A folder for pictures of the page, for people who want to look."""


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_person_orders_a_picture_on_the_page(world: World, browser: Browser) -> None:
    await world.start("one")
    page = await browser.page(world.simulators.telegram_url + "/")
    await page.get_by_role("button", name="Борис").click()
    await page.get_by_label("Message").fill("/start")
    await page.get_by_role("button", name="Send").click()
    for name in ("Новая картинка", "z-image", "16:9"):
        await page.get_by_role("button", name=name).click()
    await page.get_by_text("Теперь опишите").wait_for()
    await page.get_by_label("Message").fill("маяк <b>ночью</b>")
    await page.get_by_label("Message").press("Enter")
    await page.get_by_role("button", name="Нарисовать").dblclick()
    await until(lambda: world.photos(1002), "the picture")
    await page.locator("img").wait_for()
    await browser.picture(page, PICTURES, "chat")
    assert await page.locator("b").count() == 0
    assert len(world.photos(1002)) == 1
    phone = await browser.page(world.simulators.telegram_url + "/#1002", phone=True, dark=True)
    await phone.locator("img").wait_for()
    await browser.picture(phone, PICTURES, "chat-phone")
