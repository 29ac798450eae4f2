"""Cancellation at a chosen point: when a call is suspended for the n-th time, wherever that is."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from tests.fix_waiting import DEADLINE

T = TypeVar("T")


async def at_last(check: Callable[[], Awaitable[None]]) -> None:
    """What a cancelled call has begun may come to its end a little later: look again until the check holds."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            return await check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0)


class _StopAt(Generic[T]):
    """Awaits a coroutine step by step and asks for the task's cancellation at one of its suspensions."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], suspension: int) -> None:
        self._steps = coroutine.__await__()
        self._suspension = suspension
        self.reached = False

    def __await__(self) -> Generator[Any, Any, T]:
        task = asyncio.current_task()
        assert task is not None
        value: Any = None
        error: BaseException | None = None
        for count in range(1, 10_000):
            try:
                waiting = self._steps.send(value) if error is None else self._steps.throw(error)
            except StopIteration as stop:
                result: T = stop.value
                return result
            if count == self._suspension:
                self.reached = True
                asyncio.get_running_loop().call_soon(task.cancel)
            value = error = None
            try:
                value = yield waiting
            except BaseException as thrown:
                error = thrown
        raise AssertionError("a call that never ends")


async def cancelled_at(coroutine: Coroutine[Any, Any, Any], suspension: int) -> bool:
    """Run a call and cancel it at that suspension; whether it came so far, and was not done before."""
    stopping = _StopAt(coroutine, suspension)

    async def run() -> Any:
        return await stopping

    task = asyncio.create_task(run())
    try:
        await task
    except asyncio.CancelledError:
        pass
    return stopping.reached
