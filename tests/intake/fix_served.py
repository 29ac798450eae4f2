"""An endpoint behind a real server, and a client that writes the bytes of a request by hand."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import uvicorn
from aiohttp import web

from raceproof.intake import Arrival, Endpoint
from raceproof.intake.aiohttp import aiohttp_handler, aiohttp_runner, aiohttp_server
from raceproof.intake.asgi import asgi_app

Serve = Callable[[Endpoint], AbstractAsyncContextManager[int]]
"""Serve an endpoint; what comes back is the port."""


@asynccontextmanager
async def by_aiohttp(endpoint: Endpoint) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_post("/events", aiohttp_handler(endpoint))
    runner = web.AppRunner(app, access_log=None, lingering_time=0.05, shutdown_timeout=0.05)
    async with running(runner) as port:
        yield port


@asynccontextmanager
async def by_aiohttp_alone(endpoint: Endpoint) -> AsyncIterator[int]:
    server = aiohttp_server({"/events": endpoint}, lingering_time=0.05)
    async with running(web.ServerRunner(server, shutdown_timeout=0.05)) as port:
        yield port


@asynccontextmanager
async def before_an_application(endpoint: Endpoint) -> AsyncIterator[int]:
    runner = aiohttp_runner(
        web.Application(), {"/events": endpoint}, access_log=None, lingering_time=0.05, shutdown_timeout=0.05
    )
    async with running(runner) as port:
        yield port


@asynccontextmanager
async def running(runner: web.BaseRunner) -> AsyncIterator[int]:
    await runner.setup()
    with _listening() as listening:
        try:
            await web.SockSite(runner, listening).start()
            yield listening.getsockname()[1]
        finally:
            await runner.cleanup()


@asynccontextmanager
async def by_uvicorn(endpoint: Endpoint) -> AsyncIterator[int]:
    config = uvicorn.Config(
        asgi_app(endpoint),
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with _listening() as listening:
        await server.startup(sockets=[listening])
        try:
            yield listening.getsockname()[1]
        finally:
            await server.shutdown(sockets=[listening])


SERVERS: dict[str, Serve] = {
    "aiohttp": by_aiohttp,
    "aiohttp alone": by_aiohttp_alone,
    "before an application": before_an_application,
    "uvicorn": by_uvicorn,
}


def _listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


class Inbox:
    """A receiver that remembers: what came, and what was told of the replies."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.told: list[tuple[str, int, str]] = []

    async def receive(self, arrival: Arrival) -> None:
        self.arrivals.append(arrival)

    def on_reply(self, source: str, status: int, reason: str) -> None:
        self.told.append((source, status, reason))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, _, reason in self.told]


class Connection:
    """One connection to a server, and what came back over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self) -> tuple[int, dict[str, str], bytes]:
        """One whole answer: status, headers with lower-case names, body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return (
            int(status.split()[1]),
            headers,
            await self.reader.readexactly(int(headers.get("content-length", 0))),
        )


@asynccontextmanager
async def connection(port: int) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """The bytes of a request; `length` is what it says of itself, if that is not the truth."""
    said = len(body) if length is None else length
    lines = ["POST /events HTTP/1.1", "Host: localhost", f"Content-Length: {said}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
