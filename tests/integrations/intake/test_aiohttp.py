"""An endpoint on aiohttp in its three places: a handler of an application, a server of its own, before an application."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from raceproof.webhooks import Endpoint, Unsigned
from raceproof.webhooks.aiohttp import aiohttp_handler
from tests.fix_waiting import until
from tests.integrations.intake.fix_served import (
    Inbox,
    by_aiohttp,
    connection,
    post,
    running,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def unsigned(inbox: Inbox, source: str = "s") -> Endpoint:
    return Endpoint(source, Unsigned(), inbox.receive, on_reply=inbox.on_reply)


def in_chunks(body: bytes, *headers: str) -> bytes:
    """The same request as by `post`, without a length."""
    lines = ("POST /events HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", *headers, "", "")
    return "\r\n".join(lines).encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("request_with", [post, in_chunks], ids=["length", "chunks"])
async def test_of_two_encodings_the_one_that_is_applied_counts(
    request_with: Callable[..., bytes], inbox: Inbox
) -> None:
    """Else what is received would not be the bytes that were sent and signed."""
    request = request_with(gzip.compress(b"{}"), "Content-Encoding: identity", "Content-Encoding: gzip")
    async with by_aiohttp(unsigned(inbox)) as port, connection(port) as client:
        await client.send(request)
        assert (await client.reply())[0] == 415
    assert inbox.reasons == ["encoded"]


async def test_a_sender_that_leaves_before_its_whole_body_is_looked_at_has_sent_nothing(inbox: Inbox) -> None:
    """A middleware takes its time; what becomes of the event is counted like that of any other that broke off."""
    entered, held = asyncio.Event(), asyncio.Event()

    @web.middleware
    async def slow(request: web.Request, handler: Handler) -> web.StreamResponse:
        entered.set()
        await held.wait()
        return await handler(request)

    app = web.Application(middlewares=[slow])
    app.router.add_post("/events", aiohttp_handler(unsigned(inbox)))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
    async with running(runner) as port:
        async with connection(port) as client:
            await client.send(post(b"{}"))
            await entered.wait()
        assert runner.server is not None
        (left,) = runner.server.connections
        await until(lambda: left.transport is None, "it is seen to be gone")
        held.set()
        await until(lambda: inbox.told != [], "it is counted")
    assert (inbox.arrivals, inbox.told) == ([], [("s", 400, "unreadable")])


async def test_a_handler_has_the_middlewares_and_signals_of_its_application(inbox: Inbox) -> None:
    """It answers with an ordinary response, and they may do with it what they like."""

    @web.middleware
    async def more(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        response.set_status(202)
        response.headers["X-Added"] = "by a middleware"
        return response

    async def signal(request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X-Signal"] = "heard"

    app = web.Application(middlewares=[more])
    app.on_response_prepare.append(signal)
    app.router.add_post("/events", aiohttp_handler(unsigned(inbox)))
    async with running(web.AppRunner(app)) as port, connection(port) as client:
        await client.send(post(b"{}"))
        status, headers, body = await client.reply()
    assert (status, headers["x-added"], headers["x-signal"], body) == (202, "by a middleware", "heard", b"")


async def test_a_head_has_no_body_and_the_connection_stays(inbox: Inbox) -> None:
    """Whoever routes every method to a handler gets an answer that fits."""
    app = web.Application()
    app.router.add_route("*", "/events", aiohttp_handler(Endpoint("s", Unsigned(), inbox.receive, json=False)))
    async with running(web.AppRunner(app)) as port, connection(port) as client:
        for _ in range(2):
            await client.send(post(b"").replace(b"POST", b"HEAD"))
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
