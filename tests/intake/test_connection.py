"""Connections that take in plain requests by themselves: answers in order, hand-overs, ends; over real sockets."""

import asyncio
import socket
import struct
from email.utils import parsedate_to_datetime
from functools import partial

import pytest
from aiohttp import ClientSession, TraceConfig, web

from raceproof.intake import Endpoint, Unsigned
from raceproof.intake.aiohttp import aiohttp_server
from raceproof.intake.connection import Connection, Front
from tests.fix_waiting import until
from tests.intake.fix_served import Inbox, Slow, connection, post, served

CHUNKED = (
    b"POST /events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
)


async def test_the_bytes_of_the_usual_answer(inbox: Inbox) -> None:
    """What is on the wire, to the letter, and the connection is good for the next one."""
    async with served(inbox.receive) as server, connection(server.port) as client:
        for _ in range(2):
            await client.send(post(b"{}"))
            head = await client.reader.readuntil(b"\r\n\r\n")
            before, _, date = head.partition(b"\r\nDate: ")
            assert before == b"HTTP/1.1 200 OK\r\nContent-Length: 0"
            assert parsedate_to_datetime(date.decode()).tzinfo is not None


async def test_a_client_of_aiohttp_reads_it_and_keeps_its_connection(inbox: Inbox) -> None:
    """Good answers and bad ones; the other end checks what it reads."""
    opened = 0

    async def opening(*_: object) -> None:
        nonlocal opened
        opened += 1

    tracing = TraceConfig()
    tracing.on_connection_create_end.append(opening)
    async with served(inbox.receive) as server:
        async with ClientSession(f"http://127.0.0.1:{server.port}", trace_configs=[tracing]) as session:
            for body, status in ((b"{}", 200), (b"{", 400), (b"[]", 200)):
                async with session.post("/events", data=body) as response:
                    assert response.status == status
    assert opened == 1
    assert [one.body for one in inbox.arrivals] == [b"{}", b"[]"]


async def test_requests_in_one_go_are_answered_one_after_the_other(inbox: Inbox) -> None:
    """Good ones and bad ones, in their order."""
    async with served(inbox.receive) as server, connection(server.port) as client:
        await client.send(post(b"1") + post(b"{") + post(b"2"))
        assert [(await client.reply())[0] for _ in range(3)] == [200, 400, 200]
    assert [one.body for one in inbox.arrivals] == [b"1", b"2"]


async def test_a_request_that_comes_before_the_last_is_answered_waits_its_turn() -> None:
    """It is not even begun: of one sender one event is on its way at a time."""
    slow = Slow()
    async with served(slow.receive) as server, connection(server.port) as client:
        await client.send(post(b"1"))
        await slow.has(1)
        await client.send(post(b"2"))
        await client.send(post(b"{") + post(b"3"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert slow.entered == [b"1"]
        slow.open.set()
        assert [(await client.reply())[0] for _ in range(4)] == [200, 200, 400, 200]
    assert slow.stored == [b"1", b"2", b"3"]


class Wire(asyncio.Transport):
    """A transport that brings what it is told to, whether reading is paused or not."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.written = b""

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0


def wired(slow: Slow) -> tuple[Wire, Connection]:
    front = Front({"/events": Endpoint("s", Unsigned(), slow.receive)}, asyncio.Protocol, idle=0)
    wire, end = Wire(), Connection(front)
    end.connection_made(wire)
    return wire, end


async def test_a_sender_that_sends_ahead_is_not_read_until_it_is_its_turn() -> None:
    """What it sends stays with it: else it would fill the memory."""
    slow = Slow()
    wire, end = wired(slow)
    end.data_received(post(b"1"))
    assert wire.reading
    end.data_received(post(b"2"))
    assert not wire.reading
    slow.open.set()
    await until(lambda: wire.written.count(b" 200 ") == 2, "both are answered")
    assert wire.reading


async def test_bytes_that_come_while_others_are_held_go_behind_them() -> None:
    """Even between an answer and the next request, on a transport that is slow to pause."""
    slow = Slow()
    wire, end = wired(slow)
    second = post(b'"second"')
    slow.open.set()
    end.data_received(post(b"1"))
    end.data_received(second[:-3])
    await until(lambda: b" 200 " in wire.written, "the first is answered")
    end.data_received(second[-3:])
    await until(lambda: wire.written.count(b" 200 ") == 2, "both are answered")
    assert slow.stored == [b"1", b'"second"']


async def test_an_unusual_request_after_a_plain_one_is_answered_and_so_is_the_next(inbox: Inbox) -> None:
    """The connection changes hands in between, and nobody notices."""
    async with served(inbox.receive) as server, connection(server.port) as client:
        for request in (post(b"1"), CHUNKED, post(b"2"), post(b"3"), CHUNKED):
            await client.send(request)
            assert (await client.reply())[0] == 200
    assert [one.body for one in inbox.arrivals] == [b"1", b"{}", b"2", b"3", b"{}"]


async def test_an_unusual_request_that_waits_behind_a_plain_one_is_handed_over_whole() -> None:
    slow = Slow()
    async with served(slow.receive) as server, connection(server.port) as client:
        await client.send(post(b"1"))
        await slow.has(1)
        await client.send(CHUNKED[:50])
        slow.open.set()
        assert (await client.reply())[0] == 200
        await client.send(CHUNKED[50:])
        assert (await client.reply())[0] == 200
    assert slow.stored == [b"1", b"{}"]


@pytest.mark.parametrize(
    "garbage", [b"\0", b"GET", b"\r\n\r\n", b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00"]
)
async def test_garbage_is_no_event_and_the_server_goes_on(inbox: Inbox, garbage: bytes) -> None:
    """At the beginning of a connection, and after a good request."""
    async with served(inbox.receive, lingering_time=0.05, shutdown_timeout=0.05) as server:
        for before in (b"", post(b"1")):
            async with connection(server.port) as client:
                if before:
                    await client.send(before)
                    assert (await client.reply())[0] == 200
                await client.send(garbage)
                client.writer.write_eof()
                assert b" 200 " not in await client.reader.read()
        async with connection(server.port) as client:
            await client.send(post(b"2"))
            assert (await client.reply())[0] == 200
    assert [one.body for one in inbox.arrivals] == [b"1", b"2"]


async def test_a_sender_that_asks_and_ends_is_answered() -> None:
    """It has closed its side while its event is being stored."""
    slow = Slow()
    async with served(slow.receive) as server, connection(server.port) as client:
        await client.send(post(b"1"))
        client.writer.write_eof()
        await slow.has(1)
        slow.open.set()
        assert (await client.reply())[0] == 200
        await client.is_closed()


async def test_an_answer_that_closes_is_followed_by_the_end() -> None:
    """The sender is told so, and need not wait until it is closed for its silence."""
    slow = Slow()
    slow.open.set()
    async with served(slow.receive) as server, connection(server.port) as client:
        await client.send(post(b"1", "Content-Encoding: gzip"))
        status, headers, _ = await client.reply()
        assert (status, headers["connection"]) == (415, "close")
        await client.send(post(b"2"))
        await client.is_closed()
    assert slow.entered == []


async def test_a_sender_that_is_gone_takes_nothing_away() -> None:
    """Its event is stored all the same, and the end of the server waits for it."""
    slow = Slow()
    async with served(slow.receive) as server:
        async with connection(server.port) as client:
            await client.send(post(b"1"))
            await slow.has(1)
            reset = struct.pack("ii", 1, 0)  # closing says not that it ends, but that nobody is there
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            client.writer.transport.abort()
        async with connection(server.port) as another:
            await another.send(post(b"{"))
            await another.reply()  # by now the first is seen to be gone
        ending = asyncio.create_task(server.runner.cleanup())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not ending.done()
        slow.open.set()
        await ending
        assert slow.stored == [b"1"]


async def test_at_the_end_who_waits_is_answered_and_the_others_are_closed() -> None:
    """SIGTERM of a server: what was taken in is stored, and its sender told so."""
    slow = Slow()
    async with served(slow.receive) as server:
        async with connection(server.port) as waiting, connection(server.port) as idle:
            await idle.send(post(b"{"))
            await idle.reply()
            await waiting.send(post(b"1"))
            await slow.has(1)
            ending = asyncio.create_task(server.runner.cleanup())
            assert await idle.reader.read() == b""
            assert not ending.done()
            slow.open.set()
            assert (await waiting.reply())[0] == 200
            assert await waiting.reader.read() == b""
            await ending
    assert slow.stored == [b"1"]


async def test_at_the_end_what_was_sent_ahead_is_not_begun() -> None:
    """Its sender brings it to somebody else."""
    slow = Slow()
    async with served(slow.receive) as server, connection(server.port) as client:
        await client.send(post(b"1"))
        await slow.has(1)
        await client.send(post(b"2"))
        for _ in range(20):
            await asyncio.sleep(0)
        server.begin_to_end()
        slow.open.set()
        assert (await client.reply())[0] == 200
        await client.is_closed()
    assert slow.entered == [b"1"]


async def test_at_the_end_nobody_new_is_let_in() -> None:
    """A handshake may take longer than the server listens."""
    slow = Slow()
    slow.open.set()
    async with served(slow.receive) as server:
        server.begin_to_end()
        async with connection(server.port) as late:
            late.writer.write(post(b"1"))
            await late.is_closed()
    assert slow.entered == []


async def test_at_the_end_a_receiver_that_hangs_is_not_waited_for_without_end() -> None:
    """It is cancelled, and its sender hears no 200."""
    slow = Slow()
    async with served(slow.receive, shutdown_timeout=0.05) as server, connection(server.port) as client:
        await client.send(post(b"1"))
        await slow.has(1)
        await server.runner.cleanup()
        assert b" 200 " not in await client.reader.read()
    assert slow.stored == []
    assert slow.cancelled == [b"1"]


async def test_a_silent_connection_is_closed_after_a_while_but_not_while_it_waits() -> None:
    slow = Slow()
    async with served(slow.receive, keepalive_timeout=0.2) as server:
        async with connection(server.port) as silent, connection(server.port) as waiting:
            await waiting.send(post(b"1"))
            assert await silent.reader.read() == b""  # and meanwhile the other has waited as long
            slow.open.set()
            assert (await waiting.reply())[0] == 200
            assert await waiting.reader.read() == b""


async def test_a_sender_that_never_reads_its_answers_is_cut_off(inbox: Inbox) -> None:
    """Otherwise they would fill the memory. Its requests come one by one, so that each is plain."""
    runner = web.ServerRunner(aiohttp_server({"/events": Endpoint("s", Unsigned(), inbox.receive)}))
    await runner.setup()
    with socket.socket() as listening, socket.socket() as client:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listening.bind(("127.0.0.1", 0))
        try:
            await web.SockSite(runner, listening).start()
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, listening.getsockname())
            cut_off = False

            def answered_or_cut_off(number: int) -> bool:
                nonlocal cut_off
                cut_off = cut_off or client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0
                return cut_off or len(inbox.arrivals) == number

            for number in range(1, 10_000):
                await loop.sock_sendall(client, post(b"%d" % number))
                await until(partial(answered_or_cut_off, number), "it is answered or cut off")
                if cut_off:
                    break
        finally:
            await runner.cleanup()
    assert cut_off
