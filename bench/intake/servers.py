"""The servers that the applications run on: one event loop each, on a free port that is told when they answer."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from aiohttp import web
from granian.constants import Interfaces
from granian.server.embed import Server as Granian

Tell = Callable[[int], None]


async def serve_aiohttp(app: web.Application, tell: Tell) -> None:
    """aiohttp's own server."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    tell(runner.addresses[0][1])
    await asyncio.Event().wait()


async def serve_uvicorn(app: Any, tell: Tell) -> None:
    """Uvicorn with httptools where it is installed; it has no lifespan to wait for."""
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        tell(listening.getsockname()[1])
        await uvicorn.Server(config).serve(sockets=[listening])


async def serve_granian(app: Any, tell: Tell) -> None:
    """Granian inside of this event loop, as its manual has it for a loop that exists already."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    server = Granian(app, port=port, interface=Interfaces.ASGINL, log_enabled=False)
    serving = asyncio.ensure_future(server.serve())
    await _answering(port)
    tell(port)
    await serving


async def _answering(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
