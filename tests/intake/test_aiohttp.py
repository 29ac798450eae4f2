"""The short answer of the aiohttp handler gives way wherever somebody else has a word in it."""

import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from raceproof.intake import Endpoint, Unsigned
from raceproof.intake.aiohttp import aiohttp_handler
from tests.intake.fix_served import Connection, Inbox, connection, post


@asynccontextmanager
async def client_of(app: web.Application, inbox: Inbox) -> AsyncIterator[Connection]:
    """A connection to an application with an endpoint, and with a log of who came."""
    app.router.add_post("/events", aiohttp_handler(Endpoint("s", Unsigned(), inbox.receive)))
    runner = web.AppRunner(app, access_log=logging.getLogger("access"), access_log_format="%s %b bytes")
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        try:
            await web.SockSite(runner, listening).start()
            async with connection(listening.getsockname()[1]) as client:
                yield client
        finally:
            await runner.cleanup()


async def test_a_plain_200_has_a_length_and_a_date_and_is_logged(
    inbox: Inbox, caplog: pytest.LogCaptureFixture
) -> None:
    """And nothing else."""
    caplog.set_level(logging.INFO, "access")
    async with client_of(web.Application(), inbox) as client:
        await client.send(post(b"{}"))
        status, headers, body = await client.reply()
    assert (status, sorted(headers), body) == (200, ["content-length", "date"], b"")
    assert headers["date"].endswith(" GMT")
    assert [record.getMessage() for record in caplog.records if record.name == "access"] == ["200 0 bytes"]


async def test_requests_in_one_go_are_answered_one_after_the_other(inbox: Inbox) -> None:
    """Good ones and bad ones, in their order."""
    async with client_of(web.Application(), inbox) as client:
        await client.send(post(b"1") + post(b"{") + post(b"2"))
        assert [(await client.reply())[0] for _ in range(3)] == [200, 400, 200]
    assert [one.body for one in inbox.arrivals] == [b"1", b"2"]


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def _with_header(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    response.headers["X-Added"] = "yes"
    return response


@web.middleware
async def _with_cookie(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    response.set_cookie("added", "yes")
    return response


@web.middleware
async def _with_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    response.set_status(202)
    return response


@web.middleware
async def _with_body(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    assert isinstance(response, web.Response)
    response.text = "ok"
    return response


@web.middleware
async def _with_close(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    response.force_close()
    return response


MIDDLEWARES = {
    "a header": (_with_header, 200, "x-added", "yes", b""),
    "a cookie": (_with_cookie, 200, "set-cookie", "added=yes; Path=/", b""),
    "a status": (_with_status, 202, "content-length", "0", b""),
    "a body": (_with_body, 200, "content-length", "2", b"ok"),
    "a close": (_with_close, 200, "connection", "close", b""),
}


@pytest.mark.parametrize("what", MIDDLEWARES)
async def test_what_a_middleware_does_to_the_answer_is_done(inbox: Inbox, what: str) -> None:
    """It may add to it, or make another one of it."""
    middleware, status, name, value, body = MIDDLEWARES[what]
    async with client_of(web.Application(middlewares=[middleware]), inbox) as client:
        await client.send(post(b"{}"))
        answer = await client.reply()
    assert (answer[0], answer[1][name], answer[2]) == (status, value, body)


async def test_what_a_signal_does_to_the_answer_is_done(inbox: Inbox) -> None:
    """As those for cross-origin requests do."""
    app = web.Application()

    async def add(request: web.Request, response: web.StreamResponse) -> None:
        response.headers["X-Added"] = "yes"

    app.on_response_prepare.append(add)
    async with client_of(app, inbox) as client:
        await client.send(post(b"{}"))
        assert (await client.reply())[1]["x-added"] == "yes"


@pytest.mark.parametrize("old", [False, True], ids=["close", "HTTP/1.0"])
async def test_a_connection_that_is_not_to_be_kept_is_closed(inbox: Inbox, old: bool) -> None:
    """By the wish of the sender, or by the age of its protocol."""
    request = post(b"{}").replace(b"HTTP/1.1", b"HTTP/1.0") if old else post(b"{}", "Connection: close")
    async with client_of(web.Application(), inbox) as client:
        await client.send(request)
        assert (await client.reply())[0] == 200
        assert await client.reader.read() == b""
