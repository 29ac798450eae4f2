"""An endpoint behind a real server, and a client that writes the bytes of a request by hand."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import uvicorn
from aiohttp import web

from raceproof.inbox.arrival import Arrival
from raceproof.webhooks import Endpoint
from raceproof.webhooks.aiohttp import aiohttp_handler, redacting_logger
from raceproof.webhooks.asgi import asgi_app
from tests.fix_waiting import until

Serve = Callable[[Endpoint], AbstractAsyncContextManager[int]]
"""Serve an endpoint; what comes back is the port."""


@asynccontextmanager
async def by_aiohttp(endpoint: Endpoint, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_post("/events", aiohttp_handler(endpoint))
    runner = web.AppRunner(app, access_log=None, logger=redacting_logger, lingering_time=0.05, shutdown_timeout=0.05)
    async with running(runner, tls) as port:
        yield port


@asynccontextmanager
async def running(runner: web.BaseRunner, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    await runner.setup()
    with _listening() as listening:
        try:
            await web.SockSite(runner, listening, ssl_context=tls).start()
            yield listening.getsockname()[1]
        finally:
            await runner.cleanup()


@asynccontextmanager
async def by_uvicorn(endpoint: Endpoint) -> AsyncIterator[int]:
    async with uvicorn_with(asgi_app(endpoint)) as port:
        yield port


@asynccontextmanager
async def uvicorn_with(app: Any) -> AsyncIterator[int]:
    """Any ASGI application, with its lifespan."""
    config = uvicorn.Config(
        app,
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


class Slow:
    """A receiver that stores when it is let."""

    def __init__(self) -> None:
        self.entered: list[bytes] = []
        self.stored: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.open = asyncio.Event()

    async def receive(self, arrival: Arrival) -> None:
        self.entered.append(arrival.body)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(arrival.body)
            raise
        self.stored.append(arrival.body)

    async def has(self, number: int) -> None:
        await until(lambda: len(self.entered) == number, f"{number} events have come")


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

    async def is_closed(self) -> None:
        """The other end says nothing more and closes, impolitely if there are bytes that it has not read.

        Long before it would be closed for its silence.
        """
        try:
            async with asyncio.timeout(20):
                assert await self.reader.read(1) == b""
        except ConnectionError:
            pass


@asynccontextmanager
async def connection(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
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
