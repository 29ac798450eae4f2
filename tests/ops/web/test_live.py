"""What open pages are told, and when the store is looked at for them."""

import asyncio

from raceproof.ops.web.live import Pages
from tests.fix_waiting import DEADLINE, until


async def test_a_page_that_opens_after_a_while_without_pages_is_told_of_the_next_change() -> None:
    """While nobody looks the store is asked rarely; who comes then does not wait for that."""
    looks = 0
    state = "before"

    async def look() -> str:
        nonlocal looks
        looks += 1
        return state

    pages = Pages(look, every=0.001, at_least=3600, remembers=True)
    first = pages.follow()
    assert (await anext(first)).startswith("retry")
    await until(lambda: looks > 0, "the store was looked at")
    await first.aclose()
    await until(lambda: not pages._came.is_set(), "it is looked at rarely")
    page = pages.follow()
    await anext(page)
    seen = looks
    await until(lambda: looks > seen, "the store is looked at again")
    state = "after"
    async with asyncio.timeout(DEADLINE):
        assert "changed" in await anext(page)
    await page.aclose()
    await pages.close()
