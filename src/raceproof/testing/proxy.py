"""A proxy on 127.0.0.1 that loses exactly the message that a test wants lost.

    with Proxy(server.url) as proxy:
        connection = await asyncpg.connect(proxy.url)
        proxy.cut_after_reply()
        await connection.execute("UPDATE …")  # done and committed, but the client sees a broken connection

Nothing depends on time: the cut happens when the reply is complete, or when the request arrives. For PostgreSQL and
Redis, without TLS, which it refuses in the server's name.
"""

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Self
from urllib.parse import urlsplit

from raceproof.testing.wire import Frame, PostgresWire, RedisWire, Wire

DEADLINE = 60.0

_WIRES: dict[str, type[PostgresWire] | type[RedisWire]] = {
    "postgres": PostgresWire,
    "postgresql": PostgresWire,
    "redis": RedisWire,
    "valkey": RedisWire,
}


@dataclass(slots=True)
class _Trap:
    """Which message is to be lost, if any; command None is any command."""

    armed: Literal["before", "after"] | None = None
    command: str | None = None
    sprung: int = 0

    def watches(self, request: Frame) -> bool:
        """Whether replies are to be held back from this request on, since they may have to be lost."""
        return self.armed == "after" and request.runs

    def takes_request(self, request: Frame) -> bool:
        return self.armed == "before" and request.command is not None and self._springs(request)

    def takes_replies(self, replies: list[Frame]) -> bool:
        return self.armed == "after" and any(reply.done and self._springs(reply) for reply in replies)

    def _springs(self, frame: Frame) -> bool:
        if self.command is not None and self.command.upper() != frame.command:
            return False
        self.armed = None
        self.sprung += 1
        return True


class Proxy:
    """Passes everything on to the server at the URL, until told to cut. It has a thread of its own until close()."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        if parts.scheme not in _WIRES:
            raise ValueError(f"a proxy knows {', '.join(_WIRES)}, and not {parts.scheme}://")
        self._wire = _WIRES[parts.scheme]
        self._upstream = upstream
        self._address = (parts.hostname or "127.0.0.1", parts.port or 0)
        self._trap = _Trap()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="proxy", daemon=True)
        self.port = 0
        self._thread.start()
        if not self._started.wait(DEADLINE):
            raise TimeoutError(f"the proxy did not start within {DEADLINE:g} s")

    @property
    def url(self) -> str:
        """The server's URL, by way of the proxy."""
        return self.through(self._upstream)

    @property
    def cuts(self) -> int:
        """How many connections were cut."""
        return self._trap.sprung

    def through(self, url: str) -> str:
        """Any URL of the same server, such as another database's, by way of the proxy."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}").geturl()

    def cut_after_reply(self, command: str | None = None) -> None:
        """Lose the acknowledgement: the next request is done, its whole reply awaited and dropped, the connection cut.

        With a command only the reply to that one counts: for PostgreSQL the first word of its command tag (`UPDATE`,
        `COMMIT`; of its text with asyncpg's `fetchrow` and `fetchval`, which get no tag), for Redis of the request
        (`EVALSHA`). An error is passed on, and the cut waits for what comes after.
        """
        self._trap.command = command
        self._trap.armed = "after"

    def cut_before_request(self, command: str | None = None) -> None:
        """Lose the request: the connection is cut when the next one arrives, and the server never sees it.

        With a command only a request that begins with this word counts.
        """
        self._trap.command = command
        self._trap.armed = "before"

    def close(self) -> None:
        """Close every connection and stop listening."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(DEADLINE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        connections: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._connect(reader, writer))
            connections.add(task)
            task.add_done_callback(connections.discard)

        listener = await asyncio.start_server(connected, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        self._started.set()
        await self._closing.wait()
        listener.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # the server is down, or one of the two went away: the other one is told by closing
            try:
                upstream_reader, upstream_writer = await asyncio.open_connection(*self._address)
                try:
                    await _Connection(self._trap, self._wire(), reader, writer, upstream_reader, upstream_writer).run()
                finally:
                    await _close(upstream_writer)
            finally:
                await _close(writer)


@dataclass(slots=True)
class _Connection:
    """A client's connection and its counterpart to the server."""

    trap: _Trap
    wire: Wire
    client_reader: asyncio.StreamReader
    client_writer: asyncio.StreamWriter
    server_reader: asyncio.StreamReader
    server_writer: asyncio.StreamWriter
    watching: bool = False

    async def run(self) -> None:
        """Pass messages both ways until one side ends, or a message is to be lost."""
        pumps = [asyncio.create_task(self._requests()), asyncio.create_task(self._replies())]
        try:
            ended, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in ended:
                pump.result()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _requests(self) -> None:
        while data := await self.client_reader.read(65536):
            for frame in self.wire.requests(data):
                if frame.refusal:
                    self.client_writer.write(frame.refusal)
                    continue
                if self.trap.takes_request(frame):
                    return
                self.watching |= self.trap.watches(frame)
                self.server_writer.write(frame.data)
            await self.server_writer.drain()

    async def _replies(self) -> None:
        held: list[Frame] = []
        while data := await self.server_reader.read(65536):
            for frame in self.wire.replies(data):
                held.append(frame)
                if self.watching and not frame.awaited:
                    if not frame.last:
                        continue
                    if self.trap.takes_replies(held):
                        return
                    self.watching = False
                self.client_writer.writelines(frame.data for frame in held)
                held.clear()
            await self.client_writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
