"""`python -m bench.intake.load PORT CONNECTIONS SECONDS FIRST`: the load, in a process of its own; prints what it did.

Each connection sends its next request when the last is answered. Nothing here parses more of an answer than its status
and its end, so that the server is what is measured; `cpu` tells how busy the load itself was.
"""

import asyncio
import json
import sys
from itertools import count
from time import perf_counter, process_time
from typing import cast

import uvloop

from bench.intake.update import halves

_LENGTH = b"content-length:"


class _Connection(asyncio.Protocol):
    def __init__(self, load: "_Load") -> None:
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own, which is one in all but its class
        self.ask()

    def ask(self) -> None:
        assert self._transport
        if perf_counter() < self._load.end:
            self._transport.write(self._load.request())
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        _, _, length = head.lower().partition(_LENGTH)
        if len(body) < int(length.partition(b"\r\n")[0] or 0):
            return
        if not head.startswith(b"HTTP/1.1 200 "):
            self._load.fail(head.partition(b"\r\n")[0].decode())
        self._received = b""
        self._load.answered += 1
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if perf_counter() < self._load.end:
            self._load.fail(f"the server closed a connection: {exc}")
        self._load.left(self)


class _Load:
    def __init__(self, port: int, seconds: float, first: int) -> None:
        self._before, self._after = halves(port)
        self._numbers = count(first)
        self._open: set[_Connection] = set()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answered = 0
        self.end = perf_counter() + seconds

    def request(self) -> bytes:
        return b"%b%d%b" % (self._before, next(self._numbers), self._after)

    def connection(self) -> _Connection:
        made = _Connection(self)
        self._open.add(made)
        return made

    def left(self, connection: _Connection) -> None:
        self._open.discard(connection)
        if not self._open and not self.done.done():
            self.done.set_result(None)

    def fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


async def main(port: int, connections: int, seconds: float, first: int) -> None:
    loop = asyncio.get_running_loop()
    load = _Load(port, seconds, first)
    began, cpu = perf_counter(), process_time()
    for _ in range(connections):
        await loop.create_connection(load.connection, "127.0.0.1", port)
    async with asyncio.timeout(seconds + 30):
        await load.done
    taken = perf_counter() - began
    found = {"requests": load.answered, "seconds": taken, "cpu": (process_time() - cpu) / taken}
    print(json.dumps(found))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
