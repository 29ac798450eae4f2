"""A connection that takes in plain requests by itself, and leaves everything else to a server's own protocol.

As long as a sender brings whole requests, one at a time, each in one piece, none of a server's machinery is needed. The
first request that is anything else, and all that follow on that connection, are the server's: it gets the connection as
if it had just been made. Either way the same endpoint answers.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast

from raceproof.intake.endpoint import Endpoint
from raceproof.intake.plain_request import plain_request
from raceproof.intake.reply import OK, Reply

_MOST_UNREAD = 64 * 1024


class Front:
    """What the connections of one server share; `server` makes the protocol that gets what is unusual."""

    def __init__(
        self, endpoints: Mapping[str, Endpoint], server: Callable[[], asyncio.BaseProtocol], idle: float
    ) -> None:
        self.by_line = {f"POST {path} HTTP/1.1": endpoint for path, endpoint in endpoints.items()}
        self.server = server
        self.idle = idle
        """Seconds that a connection may be silent; 0 is without an end."""
        self.loop = asyncio.get_running_loop()
        self.open: set[Connection] = set()
        self.gone: set[Connection] = set()
        """Whose sender has left before its event was stored: they are kept until it is."""
        self.closing = False

    def close(self) -> None:
        """Take in nothing more: who waits for an answer still gets it, the others are closed."""
        self.closing = True
        for one in list(self.open):
            if one.receiving is None:
                one.close()

    async def end(self, patience: float | None) -> None:
        """Wait until all have their answers; when the time is over, for nobody any more."""
        if on_their_way := list(self._receiving()):
            _, late = await asyncio.wait(on_their_way, timeout=patience)
            for receiving in late:
                receiving.cancel()
        for one in list(self.open):
            one.close()

    def _receiving(self) -> "Iterator[asyncio.Future[Any]]":
        for one in (*self.open, *self.gone):
            if one.receiving is not None:
                yield one.receiving


class Connection(asyncio.Protocol):
    """One sender, as long as it brings nothing unusual."""

    __slots__ = ("_active", "_ended", "_front", "_held", "_transport", "_watching", "receiving")

    def __init__(self, front: Front) -> None:
        self._front = front
        self._transport: asyncio.Transport | None = None
        self._held = b""
        """What came before the last request was answered."""
        self._ended = False
        self._active = 0.0
        """When something last happened, by the loop's clock."""
        self._watching: asyncio.TimerHandle | None = None
        self.receiving: asyncio.Future[Any] | None = None
        """The event that is being stored."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._front.closing:
            # its handshake has outlasted the end of listening
            self._transport.close()
            return
        self._front.open.add(self)
        self._active = self._front.loop.time()
        if self._front.idle > 0:
            self._watching = self._front.loop.call_later(self._front.idle, self._watch)

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return  # over TLS closing itself brings what was not read yet, and nobody could answer it
        if self.receiving is not None or self._held:
            # answers come in the order of the requests: the next one waits, and so does its sender
            self._held += data
            transport.pause_reading()
            return
        endpoints = self._front.by_line
        request = plain_request(data, endpoints)
        if request is None:
            self._hand_over(transport, data)
        else:
            begin = endpoints[request.line].begin
            self.receiving = begin(request.headers, request.body, self._answer)

    def eof_received(self) -> bool:
        """The sender will ask no more; what it has asked is answered, except over TLS, which has no half-closed side."""
        self._ended = True
        return self.receiving is not None and not self._over_tls()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.receiving is not None:
            self._front.gone.add(self)
        self._leave()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _answer(self, reply: Reply) -> None:
        self.receiving = None
        transport = self._transport
        if transport is None:
            self._front.gone.discard(self)
            return
        now = int(time.time())
        transport.write(_plain_200(now) if reply is OK else _written(reply, now))
        self._active = self._front.loop.time()
        if reply.close or self._front.closing or self._ended:
            transport.close()
        elif transport.get_write_buffer_size() > _MOST_UNREAD:
            transport.abort()  # it asks and asks, and reads no answer
        elif self._held:
            self._front.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Read what was held, and only then what the transport has kept back: in one step, so that nothing overtakes it."""
        held, self._held = self._held, b""
        if self._transport is not None:
            self._transport.resume_reading()
            self.data_received(held)

    def _hand_over(self, transport: asyncio.Transport, data: bytes) -> None:
        """From here on the connection is the server's."""
        self._leave()
        protocol = cast(asyncio.Protocol, self._front.server())
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(data)

    def _over_tls(self) -> bool:
        return self._transport is not None and self._transport.get_extra_info("sslcontext") is not None

    def _leave(self) -> None:
        self._transport = None
        self._front.open.discard(self)
        if self._watching is not None:
            self._watching.cancel()

    def _watch(self) -> None:
        """Close it if nothing has happened for too long."""
        loop, idle = self._front.loop, self._front.idle
        left = idle if self.receiving is not None else self._active + idle - loop.time()
        if left > 0:
            self._watching = loop.call_later(left, self._watch)
        else:
            self.close()


@lru_cache(maxsize=1)
def _plain_200(now: int) -> bytes:
    """The bytes of the usual answer, with the date of this second."""
    return f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: {_date(now)}\r\n\r\n".encode()


def _written(reply: Reply, now: int) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    lines += [f"Content-Length: {len(reply.body)}", f"Date: {_date(now)}"]
    if reply.close:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + reply.body


def _date(now: int) -> str:
    return formatdate(now, usegmt=True)
