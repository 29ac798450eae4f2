"""Calls that are batched: each is answered, with its own answer, whatever becomes of the others."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from raceproof.kernel.batcher import Batcher, Waiting
from tests.fix_waiting import until


class Doubling:
    """Answers with the double, together; remembers who came together, and cannot bear a negative number.

    A number over a hundred has to be asked for alone.
    """

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def many(self, numbers: Sequence[int]) -> list[int | None]:
        self.calls.append(list(numbers))
        await self.open.wait()
        if min(numbers) < 0:
            raise ValueError(numbers)
        return [None if number > 100 else number * 2 for number in numbers]

    async def alone(self, number: int) -> int:
        self.calls.append([number])
        if number < 0:
            raise ValueError(number)
        return number * 2


def batcher(doubling: Any, **options: Any) -> Batcher[int, int]:
    return Batcher(doubling.many, doubling.alone, **options)


async def together(batched: Batcher[int, int], *numbers: int) -> list[Any]:
    """The answers, or the errors, of calls that are made at the same time."""
    return await asyncio.gather(*map(batched.submit, numbers), return_exceptions=True)


async def test_calls_one_after_the_other_are_all_answered() -> None:
    """Whoever has just been answered calls again before the task that answered is seen to have ended."""
    batched = batcher(Doubling())
    async with asyncio.timeout(30):
        assert [await batched.submit(number) for number in range(100)] == [n * 2 for n in range(100)]


async def test_calls_that_come_together_share_one_turn_and_keep_their_order() -> None:
    """And those that come meanwhile share the next."""
    doubling = Doubling()
    batched = batcher(doubling, choose=three_at_most)
    doubling.open.clear()
    first = asyncio.gather(*map(batched.submit, range(2)))
    await until(lambda: doubling.calls == [[0, 1]], "a turn begins")
    second = asyncio.gather(*map(batched.submit, range(2, 6)))
    await asyncio.sleep(0)
    doubling.open.set()
    assert [*await first, *await second] == [0, 2, 4, 6, 8, 10]
    assert doubling.calls == [[0, 1], [2, 3, 4], [5]]


def three_at_most(waiting: Waiting[int, int]) -> tuple[Waiting[int, int], Waiting[int, int]]:
    return waiting[:3], waiting[3:]


async def test_a_caller_who_is_the_only_one_goes_straight_through() -> None:
    """Others do not wait for it."""
    doubling = Doubling()
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def passes(number: int) -> int:
        inside.set()
        await go_on.wait()
        return number

    batched = batcher(doubling, passes=passes)
    only = asyncio.create_task(batched.submit(7))
    await inside.wait()
    assert await together(batched, 1, 2) == [2, 4]
    go_on.set()
    assert await only == 7


async def test_what_a_turn_cannot_answer_is_asked_for_alone() -> None:
    """Beside the next turn."""
    doubling = Doubling()
    assert await together(batcher(doubling), 1, 101, 2) == [2, 202, 4]
    assert doubling.calls == [[1, 101, 2], [101]]


@pytest.mark.parametrize("numbers", [(1, -1), (-1, 1, 2, 3), (1, 2, 3, -1), (-1, 2, -3, 4)], ids=str)
async def test_one_that_fails_does_not_fail_its_neighbours(numbers: tuple[int, ...]) -> None:
    """Each of them asks once more, alone."""
    ends = await together(batcher(Doubling()), *numbers)
    assert [end for end in ends if not isinstance(end, ValueError)] == [n * 2 for n in numbers if n > 0]


async def test_a_call_that_waits_alone_holds_up_no_later_batch() -> None:
    """Its row is locked by another transaction, say; its neighbour has failed the batch."""
    doubling = Doubling()
    locked = asyncio.Event()

    async def alone(number: int) -> int:
        if number == 7:
            await locked.wait()
        return await doubling.alone(number)

    batched = Batcher(doubling.many, alone)
    first = asyncio.gather(*map(batched.submit, (7, -1)), return_exceptions=True)
    await until(lambda: [-1] in doubling.calls, "the bad call is made alone")
    async with asyncio.timeout(10):
        assert await together(batched, 1, 2) == [2, 4]
    locked.set()
    answer, error = await first
    assert answer == 14
    assert isinstance(error, ValueError)


async def test_a_cancelled_caller_leaves_no_call_of_its_own_behind() -> None:
    """What is made alone ends with its caller."""
    doubling, ended = Doubling(), asyncio.Event()

    async def alone(number: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return number

    batched = Batcher(doubling.many, alone)
    caller = asyncio.create_task(batched.submit(-1))
    await until(lambda: doubling.calls == [[-1]], "the batch fails")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait([caller])
        await ended.wait()


async def test_one_that_fails_in_a_turn_of_its_own_is_not_made_again() -> None:
    """It was alone already; a store that hangs before it fails would be waited for twice."""
    doubling = Doubling()
    (end,) = await together(Batcher(doubling.many), -1)
    assert isinstance(end, ValueError)
    assert doubling.calls == [[-1]]


async def test_without_another_way_two_that_fail_side_by_side_do_not_fail_their_neighbours() -> None:
    """Which looks as if the store were away; the others are made together once more."""
    doubling = Doubling()
    ends = await together(Batcher(doubling.many), -1, -2, 3, 4)
    assert ends[2:] == [6, 8]
    assert all(isinstance(end, ValueError) for end in ends[:2])
    assert doubling.calls == [[-1, -2, 3, 4], [-1], [-2], [3, 4]]


@pytest.mark.parametrize("numbers", [(1, -1), (-1, 1, 2, 3), (1, 2, 3, -1), (-1, 1, -2, 2)], ids=str)
async def test_without_another_way_calls_are_told_apart_one_after_the_other(numbers: tuple[int, ...]) -> None:
    """A store with one connection takes no second call meanwhile, and good neighbours are answered."""
    doubling, busy = Doubling(), False

    async def many(given: Sequence[int]) -> list[int | None]:
        nonlocal busy
        assert not busy, "a second call at once"
        busy = True
        try:
            await asyncio.sleep(0)
            return await doubling.many(given)
        finally:
            busy = False

    async with asyncio.timeout(10):
        ends = await together(Batcher(many), *numbers)
    assert [end for end in ends if not isinstance(end, ValueError)] == [n * 2 for n in numbers if n > 0]
    assert doubling.calls == [list(numbers), *([number] for number in numbers)]


async def test_without_another_way_a_store_that_is_away_is_not_asked_for_each() -> None:
    """There are four calls, and not one for each."""
    calls = []

    async def away(numbers: Sequence[int]) -> list[int]:
        calls.append(len(numbers))
        raise ConnectionError

    ends = await together(Batcher(away), *range(100))
    assert all(isinstance(end, ConnectionError) for end in ends)
    assert calls == [100, 1, 1, 98]


async def test_one_that_is_cancelled_takes_nothing_away() -> None:
    """Before its turn begins it is left out of it."""
    doubling = Doubling()
    batched = batcher(doubling)
    kept, cancelled = asyncio.create_task(batched.submit(1)), asyncio.create_task(batched.submit(2))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await kept == 2
    assert doubling.calls == [[1]]


async def test_a_turn_that_nobody_waits_for_any_more_ends() -> None:
    """A store that never answers would hold up all who come after."""
    doubling = Doubling()
    batched = batcher(doubling)
    doubling.open.clear()
    first = asyncio.create_task(batched.submit(1))
    await until(lambda: doubling.calls == [[1]], "a turn begins")
    first.cancel()
    await asyncio.wait([first])
    doubling.open.set()
    async with asyncio.timeout(10):
        assert await batched.submit(2) == 4


async def test_when_the_turn_itself_is_cancelled_nobody_waits_for_ever() -> None:
    """Its callers ask alone; whoever comes later is answered."""
    doubling = Doubling()
    batched = batcher(doubling)
    doubling.open.clear()
    callers = [asyncio.create_task(batched.submit(number)) for number in range(4)]
    await until(lambda: doubling.calls == [[0, 1, 2, 3]], "a turn begins")
    for task in asyncio.all_tasks() - {asyncio.current_task(), *callers}:
        task.cancel()
    async with asyncio.timeout(10):
        assert await asyncio.gather(*callers) == [0, 2, 4, 6]
        doubling.open.set()
        assert await batched.submit(5) == 10


async def test_without_another_way_the_callers_of_a_cancelled_turn_are_in_the_next() -> None:
    """None of them is left without an answer."""
    doubling = Doubling()
    batched = Batcher(doubling.many)
    doubling.open.clear()
    callers = [asyncio.create_task(batched.submit(number)) for number in range(4)]
    await until(lambda: doubling.calls == [[0, 1, 2, 3]], "a turn begins")
    for task in asyncio.all_tasks() - {asyncio.current_task(), *callers}:
        task.cancel()
    doubling.open.set()
    async with asyncio.timeout(10):
        assert await asyncio.gather(*callers) == [0, 2, 4, 6]
    assert doubling.calls == [[0, 1, 2, 3], [0, 1, 2, 3]]
