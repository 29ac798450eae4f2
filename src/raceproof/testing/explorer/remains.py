"""What runs leave behind: tasks of processes that have died, which must not end while another run goes on."""

import asyncio
import gc
import sys
import warnings
from asyncio import events as asyncio_events
from typing import Any

from raceproof.testing.explorer.loop import VirtualLoop


def clean_up(remains: list[Any], thoroughly: bool = False) -> None:
    """Abandoned tasks end here, out of any run; what they say about it is of no interest."""
    late: list[asyncio.Task[Any]] = []
    loop = VirtualLoop(lambda _: None, late.append)  # type: ignore[abstract]
    outer = asyncio_events._get_running_loop()
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    asyncio_events._set_running_loop(loop)
    try:
        remains.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect(2 if thoroughly else 0)  # 0: all that is younger than the last time
            for task in late:  # what a `finally` has begun
                coroutine: Any = task.get_coro()
                coroutine.close()
            loop.clear()
    finally:
        asyncio_events._set_running_loop(outer)
        sys.unraisablehook = hook
