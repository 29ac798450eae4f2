"""The bytes of a connection are read in the order in which they came, on every loop, over TLS too."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from raceproof.inbox.arrival import Arrival
from raceproof.webhooks import Endpoint, Unsigned
from tests.fix_waiting import until
from tests.integrations.intake.fix_served import Connection, Slow, by_aiohttp, connection, post
from tests.integrations.intake.fix_tls import Tls

Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
ENCODED = post(b"2", "Content-Encoding: gzip")


class Refusing(Slow):
    """Cannot store the second event."""

    async def receive(self, arrival: Arrival) -> None:
        await super().receive(arrival)
        if arrival.body == b"2":
            raise OSError


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=["plain", "TLS"])
def way(request: pytest.FixtureRequest, tls: Tls) -> Tls | None:
    """None, or the certificates for both ends."""
    return tls if request.param == "TLS" else None


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine to its end on a loop of this kind."""

    def to_the_end(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(coroutine)

    return to_the_end


@asynccontextmanager
async def sending(slow: Slow, way: Tls | None) -> AsyncIterator[Connection]:
    """A connection to a server, whose first event has come and is not stored yet."""
    here, there = (way.server, way.client) if way else (None, None)
    endpoint = Endpoint("s", Unsigned(), slow.receive)
    async with by_aiohttp(endpoint, here) as port, connection(port, there) as client:
        await client.send(post(b"1"))
        await slow.has(1)
        yield client


async def _sent(client: Connection, *pieces: bytes) -> None:
    """Each of them is read, or would be, before the next one is sent."""
    for piece in pieces:
        await client.send(piece)
        for _ in range(20):
            await asyncio.sleep(0)


def test_requests_sent_ahead_get_their_own_answers(run: Run, way: Tls | None) -> None:
    """Whoever hears 200 for the third must not take it for the second, which was not stored."""

    async def scenario() -> None:
        slow = Refusing()
        async with sending(slow, way) as client:
            await _sent(client, post(b"2"), post(b"3"))
            slow.open.set()
            assert [(await client.reply())[0] for _ in range(3)] == [200, 503, 200]
        assert slow.entered == [b"1", b"2", b"3"]

    run(scenario())


def test_the_second_half_of_a_body_is_never_a_request(run: Run, way: Tls | None) -> None:
    """Else a text that a stranger has put into an event would be an event of its own."""

    async def scenario() -> None:
        slow = Slow()
        hidden = post(b'"hidden"')
        whole = post(b'"a text, and then ' + hidden)
        async with sending(slow, way) as client:
            await _sent(client, whole[: -len(hidden)], hidden)
            slow.open.set()
            assert [(await client.reply())[0] for _ in range(2)] == [200, 400]
        assert slow.entered == [b"1"]

    run(scenario())


def test_after_an_answer_that_closes_nothing_is_taken_in(run: Run, way: Tls | None) -> None:
    """Nobody could be told of it; TLS brings what it still had when it is closed."""

    async def scenario() -> None:
        slow = Slow()
        async with sending(slow, way) as client:
            await _sent(client, ENCODED, post(b"3"))
            slow.open.set()
            assert [(await client.reply())[0] for _ in range(2)] == [200, 415]
            await client.is_closed()
        assert slow.entered == [b"1"]

    run(scenario())


def test_over_tls_a_sender_that_ends_is_gone_and_nothing_is_said_of_it(
    run: Run, tls: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    """Its event is stored; TLS knows no side that is closed alone, and says so to whoever asks for one."""

    async def scenario() -> None:
        slow = Slow()
        async with sending(slow, tls) as client:
            client.writer.close()
            await client.writer.wait_closed()
            slow.open.set()
            await until(lambda: slow.stored == [b"1"], "the event is stored")

    with caplog.at_level(logging.WARNING):
        run(scenario())
    assert caplog.messages == []
