"""An ingest worker in a process of its own, which can be made to stop still at a status; for tests that kill it there."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
from contextlib import AsyncExitStack
from typing import Any

from appkit.loops import Loops
from qrlogin.login import Login
from qrlogin.metrics import Metrics
from qrlogin.service import running
from qrlogin.settings import Settings
from qrlogin.simulated import Line, simulated_clients
from raceproof import Move

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class IngestProcess:
    """`at` is the status of an attempt at which it stops still: everything up to there has happened, and nothing after."""

    def __init__(self, settings: Settings, port: int, at: str | None = None) -> None:
        told = settings.model_dump() | {"instance": f"process-{at or 'free'}"}
        self._process = _context.Process(target=_run, args=(told, port, at), daemon=True)
        self._process.start()

    def __enter__(self) -> "IngestProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.signal(signal.SIGCONT)
        self.kill()

    def kill(self) -> None:
        """As a power cut would."""
        self._process.kill()
        self._process.join()

    def end(self) -> None:
        """As a deploy would: it gives back what it has."""
        self.signal(signal.SIGINT)
        self._process.join(30)
        assert not self._process.is_alive()

    def signal(self, number: signal.Signals) -> None:
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)


def _run(told: dict[str, Any], port: int, at: str | None) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_work(Settings(**told), port, at))


async def _work(settings: Settings, port: int, at: str | None) -> None:
    if at is not None:
        _stop_still(at)
    async with AsyncExitStack() as stack:
        line = Line("127.0.0.1", port)
        stack.push_async_callback(line.close)
        await stack.enter_async_context(running(settings, simulated_clients(line), Loops(), Metrics()))
        await asyncio.Event().wait()


def _stop_still(at: str) -> None:
    go = Login._go

    async def stopping(self: Login, move: Move[Any], **columns: Any) -> None:
        if at == "pending":
            await asyncio.Event().wait()
        await go(self, move, **columns)
        if move.target == at:
            await asyncio.Event().wait()

    Login._go = stopping  # type: ignore[method-assign]
