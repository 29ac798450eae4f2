"""Calls that are gathered: each is answered, with its own answer, whatever becomes of the others."""

import asyncio
from collections.abc import Sequence

import pytest

from raceproof.gather import Gathered


class Doubling:
    """Answers with the double, together; remembers who came together, and cannot bear a negative number."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.calls.append(list(numbers))
        await self.open.wait()
        if min(numbers) < 0:
            raise ValueError(numbers)
        return [number * 2 for number in numbers]


async def test_calls_one_after_the_other_are_all_answered() -> None:
    """Whoever has just been answered asks again before the task that answered is seen to have ended."""
    gathered = Gathered(Doubling())
    async with asyncio.timeout(30):
        assert [await gathered.submit(number) for number in range(100)] == [n * 2 for n in range(100)]


async def test_calls_that_come_together_share_one_and_keep_their_order() -> None:
    """And those that come meanwhile share the next."""
    doubling = Doubling()
    gathered = Gathered(doubling, most=3)
    doubling.open.clear()
    answers = [gathered.submit(number) for number in range(2)]
    await asyncio.sleep(0)
    answers += [gathered.submit(number) for number in range(2, 6)]
    doubling.open.set()
    assert await asyncio.gather(*answers) == [0, 2, 4, 6, 8, 10]
    assert doubling.calls == [[0, 1], [2, 3, 4], [5]]


async def test_one_that_fails_does_not_fail_its_neighbours() -> None:
    """Each of them asks once more, alone."""
    gathered = Gathered(Doubling())
    good, bad = gathered.submit(1), gathered.submit(-1)
    assert await good == 2
    with pytest.raises(ValueError, match="-1"):
        await bad


async def test_one_that_is_cancelled_takes_nothing_away() -> None:
    """Before its call begins it is left out of it."""
    doubling = Doubling()
    gathered = Gathered(doubling)
    kept, cancelled = gathered.submit(1), gathered.submit(2)
    cancelled.cancel()
    assert await kept == 2
    assert doubling.calls == [[1]]
