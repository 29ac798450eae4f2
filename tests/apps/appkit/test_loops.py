"""A loop that fails, hangs or ends is seen by whoever asks for the health of the service."""

import asyncio
from collections.abc import Callable

import pytest

from appkit import loops as module
from appkit.loops import Loop, Loops


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0.001)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_a_loop_that_raises_is_begun_again_and_is_unhealthy_until_it_beats() -> None:
    runs: list[int] = []
    goes_on = asyncio.Event()

    async def body(loop: Loop) -> None:
        runs.append(1)
        if len(runs) < 3:
            raise RuntimeError("postgresql://user:password@host is gone")
        await goes_on.wait()
        loop.beat()
        await asyncio.Event().wait()

    async with Loops() as loops:
        loops.start("worker", body)
        await until(lambda: len(runs) == 3)
        assert not loops.healthy
        assert loops.health() == {"worker": "failed 2 times in a row, the last time with RuntimeError"}
        goes_on.set()
        await until(lambda: loops.healthy)
        assert loops.health() == {"worker": "ok"}


async def test_a_loop_that_returns_has_failed() -> None:
    async def body(loop: Loop) -> None:
        loop.beat()

    async with Loops() as loops:
        loops.start("worker", body)
        await until(lambda: not loops.healthy)


async def test_a_loop_that_hangs_is_noticed() -> None:
    async def body(loop: Loop) -> None:
        await asyncio.Event().wait()

    async with Loops() as loops:
        loop = loops.start("worker", body, silent=10)
        assert loops.health() == {"worker": "has not come to work yet"}
        loop.beat()
        assert loops.healthy
        assert loop.heard is not None
        loop.heard -= 11
        assert loops.health() == {"worker": "not heard of for 11 s"}


async def test_a_loop_that_was_told_to_end_may_end() -> None:
    stop = asyncio.Event()

    async def body(loop: Loop) -> None:
        loop.beat()
        await stop.wait()

    async with Loops() as loops:
        loops.start("worker", body)
        await asyncio.sleep(0)
        stop.set()
        await loops.drain("worker", seconds=10)
        assert loops.healthy
