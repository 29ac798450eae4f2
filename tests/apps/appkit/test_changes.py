"""What follows a page hears of every change, whatever the others do."""

import asyncio

from appkit.changes import Changes


async def test_a_follower_that_reads_slowly_holds_up_no_other_and_no_change() -> None:
    """Each has had a sign of life that it has not come back from yet, when a change is told."""
    changes = Changes()
    slow, quick = changes.follow(0.01), changes.follow(0.01)
    for one in (slow, quick):
        assert await anext(one) == 0
        assert await anext(one) is None
    async with asyncio.timeout(10):
        await changes.tell(7)
        assert await anext(quick) == 7
        assert await anext(slow) == 7


async def test_nobody_has_to_look_while_nobody_follows() -> None:
    changes = Changes()
    assert not changes.followed
    one = changes.follow(1)
    await anext(one)
    assert changes.followed
    await one.aclose()
    assert not changes.followed


async def test_followers_that_leave_in_the_middle_disturb_nobody() -> None:
    """A browser that goes away cancels its wait; the others hear of the next change."""
    changes = Changes()
    heard: asyncio.Queue[int | None] = asyncio.Queue()

    async def follow() -> None:
        async for number in changes.follow(60):
            await heard.put(number)

    leaving, staying = asyncio.create_task(follow()), asyncio.create_task(follow())
    async with asyncio.timeout(10):
        assert [await heard.get(), await heard.get()] == [0, 0]
        leaving.cancel()
        await changes.tell(3)
        assert await heard.get() == 3
    staying.cancel()
    await asyncio.gather(leaving, staying, return_exceptions=True)
