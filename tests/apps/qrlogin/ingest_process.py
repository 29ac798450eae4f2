"""Processes of their own: an ingest that can be made to stop still at a status, and somebody who starts logins."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
from contextlib import AsyncExitStack
from typing import Any

from appkit.loops import Loops
from qrlogin.ingest import Ingest
from qrlogin.login import Login
from qrlogin.manager import Manager
from qrlogin.metrics import Metrics
from qrlogin.places import open_places
from qrlogin.service import running
from qrlogin.settings import Settings
from qrlogin.simulated import Line, simulated_clients
from raceproof.declare import Move

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class IngestProcess:
    """`at` is the status of an attempt at which it stops still: everything up to there has happened, and nothing after.

    By `at_of` a user has a status of its own; `go_on` lets them all go on. Such a process does not notice what it has lost:
    it renews nothing, so what it writes is late.
    """

    def __init__(
        self, settings: Settings, port: int, at: str | None = None, at_of: dict[str, str] | None = None
    ) -> None:
        name = "late" if at_of else at or "free"
        told = settings.model_dump() | {"instance": f"process-{name}"}
        self._process = _context.Process(target=_run, args=(told, port, at, at_of or {}), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

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

    def go_on(self) -> None:
        """What stands still goes on."""
        self.signal(signal.SIGUSR1)

    def signal(self, number: signal.Signals) -> None:
        if self._process.is_alive():
            os.kill(self.pid, number)


def _run(told: dict[str, Any], port: int, at: str | None, at_of: dict[str, str]) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_work(Settings(**told), port, at, at_of))


async def _work(settings: Settings, port: int, at: str | None, at_of: dict[str, str]) -> None:
    if at is not None or at_of:
        _stop_still(at, at_of)
    if at_of:
        Ingest._renew_all = _renew_nothing  # type: ignore[method-assign]
    async with AsyncExitStack() as stack:
        line = Line("127.0.0.1", port)
        stack.push_async_callback(line.close)
        await stack.enter_async_context(running(settings, simulated_clients(line), Loops(), Metrics()))
        await asyncio.Event().wait()


def _stop_still(at: str | None, at_of: dict[str, str]) -> None:
    go = Login._go
    goes_on = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, goes_on.set)

    async def stopping(self: Login, move: Move[Any], **columns: Any) -> None:
        status = at_of.get(self.session_id.user_id, at)
        if status == "pending":
            await goes_on.wait()
        await go(self, move, **columns)
        if move.target == status:
            await goes_on.wait()

    Login._go = stopping  # type: ignore[method-assign]


async def _renew_nothing(self: Ingest) -> None:
    pass


class StartingProcess:
    """Starts so many logins of one user, all at once, as soon as everybody is there."""

    def __init__(self, settings: Settings, user: str, number: int, together: Any) -> None:
        told = settings.model_dump()
        self._process = _context.Process(target=_start, args=(told, user, number, together), daemon=True)
        self._process.start()

    def end(self) -> None:
        self._process.join(60)
        assert self._process.exitcode == 0


def barrier(number: int) -> Any:
    """For so many processes."""
    return _context.Barrier(number, timeout=60)


def _start(told: dict[str, Any], user: str, number: int, together: Any) -> None:
    asyncio.run(_start_all(Settings(**told), user, number, together))


async def _start_all(settings: Settings, user: str, number: int, together: Any) -> None:
    async with open_places(settings) as places:
        manager = Manager(places, Metrics())
        await asyncio.to_thread(together.wait)
        await asyncio.gather(*(manager.create_session(user) for _ in range(number)))
