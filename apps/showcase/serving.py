"""The page under uvicorn, and the whole run: until somebody has seen enough, or everything was checked."""

import asyncio
import contextlib
import socket
from typing import Any

import click
import uvicorn

from appkit import commands as kit
from showcase.asserting import asserted
from showcase.page import showcase_app
from showcase.running import Showcase, Told, showcased

USUAL = 8000
COLUMNS = ("what", "the usual code", "raceproof", "holds")


class Server(uvicorn.Server):
    """The signals are ours."""

    def __init__(self, app: Any, port: int = 0) -> None:
        told = {"log_level": "error", "timeout_graceful_shutdown": 1, "lifespan": "off"}
        super().__init__(uvicorn.Config(app, host="127.0.0.1", port=port, **told))  # type: ignore[arg-type]

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}/"


async def run(told: Told) -> int:
    """Until Ctrl-C; with `headless`, until everything was tried. Returns the exit code."""
    stop = kit.stop_event()
    try:
        listening = _listening(told.port)
    except OSError:
        click.echo(f"port {told.port} is taken: leave --port out for any that is free", err=True)
        return kit.ERROR
    with listening:
        async with showcased(told) as showcase:
            server = Server(showcase_app(showcase))
            serving = asyncio.create_task(server.serve([listening]))
            doing = asyncio.create_task(_do(told, showcase, server))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                click.echo("stopping …", err=True)
                doing.cancel()
            server.should_exit = True
            [code, *_] = await asyncio.gather(doing, serving, return_exceptions=True)
            stopping.cancel()
    if isinstance(code, asyncio.CancelledError):
        return kit.INTERRUPTED if told.headless else kit.OK
    if isinstance(code, BaseException):
        raise code
    return code


async def _do(told: Told, showcase: Showcase, server: Server) -> int:
    """Start everything, and show it or check it."""
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    showcase.home = server.address
    await showcase.start()
    if told.headless:
        rows = await asserted(showcase)
        shown = [{**row, "holds": "yes" if row["holds"] else "NO"} for row in rows]
        kit.show(shown if told.output == "table" else rows, told.output, COLUMNS)
        return kit.OK if all(row["holds"] for row in rows) else kit.ERROR
    click.echo(
        f"raceproof: {server.address}   (four applications follow within seconds; Ctrl-C stops everything)",
        err=True,
    )
    await asyncio.Event().wait()
    return kit.OK


def _listening(port: int | None) -> socket.socket:
    """A socket on this port; without one on the usual port, or on any that is free."""
    if port is not None:
        return _bound(port)
    try:
        return _bound(USUAL)
    except OSError:
        return _bound(0)


def _bound(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except OSError:
        made.close()
        raise
    return made
