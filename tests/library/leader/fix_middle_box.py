"""A firewall before PostgreSQL: it can forget a connection so that the server sees its end, and the client hears nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class MiddleBox:
    """Passes bytes on, both ways, and the end of a connection too, unless it forgets."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self.url = ""
        self._pumps: set[asyncio.Task[None]] = set()
        self._known: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._forgotten: list[asyncio.StreamWriter] = []

    def forget(self) -> None:
        """The server sees the end of every connection; who is at the other end hears nothing more, and no error."""
        for client, server in self._known.items():
            self._forgotten.append(client)
            server.transport.abort()

    def hang_up(self) -> None:
        """Now they hear it."""
        for client in self._known:
            client.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        there, server = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        self._known[client] = server
        for source, target in ((reader, server), (there, client)):
            self._pumps.add(asyncio.create_task(self._pump(source, target)))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        if target not in self._forgotten:
            target.close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["MiddleBox"]:
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        user = self._upstream.netloc.rpartition("@")[0]
        self.url = self._upstream._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()
        try:
            yield self
        finally:
            listener.close()
            self.hang_up()
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)
