"""Calls that are gathered: each is answered, with its own answer, whatever becomes of the others."""

import asyncio
from collections.abc import Sequence

import pytest

from raceproof.gather import Gathered
from tests.fix_waiting import until


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


async def test_two_that_fail_side_by_side_do_not_fail_their_neighbours() -> None:
    """Which look as if nobody were there; the others ask together once more."""
    doubling = Doubling()
    gathered = Gathered(doubling)
    answers = [gathered.submit(number) for number in (-1, -2, 3, 4)]
    assert [await answer for answer in answers[2:]] == [6, 8]
    assert await _all_failed(answers[:2])
    assert doubling.calls == [[-1, -2, 3, 4], [-1], [-2], [3, 4]]


async def test_one_that_fails_late_fails_alone() -> None:
    """Once a neighbour is answered, somebody is there."""
    doubling = Doubling()
    gathered = Gathered(doubling)
    answers = [gathered.submit(number) for number in (-1, 2, -3, 4)]
    assert [await answers[place] for place in (1, 3)] == [4, 8]
    assert await _all_failed([answers[0], answers[2]])


async def test_when_nobody_is_there_each_is_told_so_without_waiting_for_all_the_others() -> None:
    """Each call may last as long as the patience with a store; so there are four, and not one for each."""
    calls = []

    async def away(numbers: Sequence[int]) -> list[int]:
        calls.append(len(numbers))
        raise ConnectionError

    gathered = Gathered(away)
    assert await _all_failed([gathered.submit(number) for number in range(100)])
    assert calls == [100, 1, 1, 98]


async def _all_failed(answers: Sequence[asyncio.Future[int]]) -> bool:
    ends = await asyncio.gather(*answers, return_exceptions=True)
    return all(isinstance(end, ValueError | ConnectionError) for end in ends)


@pytest.mark.parametrize("shared", ["hangs", "fails"])
async def test_when_the_call_itself_is_cancelled_nobody_waits_for_ever(shared: str) -> None:
    """Neither those who share it, together or each alone, nor those behind them; whoever comes later is answered."""
    calls = []
    is_open = asyncio.Event()

    async def hanging(numbers: Sequence[int]) -> list[int]:
        calls.append(len(numbers))
        if shared == "fails" and len(numbers) > 1:
            raise ValueError(numbers)
        await is_open.wait()
        return [number * 2 for number in numbers]

    gathered = Gathered(hanging, most=3)
    answers = [gathered.submit(number) for number in range(4)]
    await until(lambda: calls == ([3, 1] if shared == "fails" else [3]), "a call hangs")
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    async with asyncio.timeout(10):
        ends = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 4
    is_open.set()
    assert await gathered.submit(5) == 10


async def test_one_that_is_cancelled_takes_nothing_away() -> None:
    """Before its call begins it is left out of it."""
    doubling = Doubling()
    gathered = Gathered(doubling)
    kept, cancelled = gathered.submit(1), gathered.submit(2)
    cancelled.cancel()
    assert await kept == 2
    assert doubling.calls == [[1]]
