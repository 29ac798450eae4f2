"""The short answer of the aiohttp handler gives way wherever somebody else has a word in it."""

import logging
import socket
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import ClientSession, web

import raceproof.intake.aiohttp as ours
from raceproof import DeclarationError
from raceproof.intake import Endpoint, Unsigned
from raceproof.intake.aiohttp import aiohttp_handler, aiohttp_server
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


async def test_the_bytes_of_a_plain_200(inbox: Inbox) -> None:
    """What is on the wire, to the letter, and the connection is good for the next one."""
    async with client_of(web.Application(), inbox) as client:
        for _ in range(2):
            await client.send(post(b"{}"))
            head = await client.reader.readuntil(b"\r\n\r\n")
            before, _, date = head.partition(b"\r\nDate: ")
            assert before == b"HTTP/1.1 200 OK\r\nContent-Length: 0"
            assert parsedate_to_datetime(date.decode()).tzinfo is UTC


async def test_a_server_of_its_own_knows_its_endpoints_and_nothing_else(inbox: Inbox) -> None:
    """Each by its path, by POST alone; a query is no part of the path."""
    kie, unsigned = Endpoint("kie", Unsigned(), inbox.receive), Endpoint("other", Unsigned(), inbox.receive)
    runner = web.ServerRunner(aiohttp_server({"/kie": kie, "/other": unsigned}))
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        try:
            await web.SockSite(runner, listening).start()
            place = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with ClientSession() as session:
                for path, status in {"/kie": 200, "/other?x=1": 200, "/kie/": 404, "/": 404}.items():
                    async with session.post(f"{place}{path}", json=path) as response:
                        assert response.status == status
                async with session.get(f"{place}/kie") as response:
                    assert (response.status, response.headers["Allow"]) == (405, "POST")
        finally:
            await runner.cleanup()
    assert [arrival.source for arrival in inbox.arrivals] == ["kie", "other"]


def test_an_endpoint_without_a_path_is_refused(inbox: Inbox) -> None:
    with pytest.raises(DeclarationError, match="begins with a slash"):
        aiohttp_server({"events": Endpoint("s", Unsigned(), inbox.receive)})


async def test_a_client_of_aiohttp_reads_it_and_keeps_its_connection(inbox: Inbox) -> None:
    """The other end by the same authors, with everything that it checks."""
    connections = set()
    app = web.Application()

    async def handle(request: web.Request) -> web.Response:
        connections.add(request.transport)
        return await answer(request)

    answer = aiohttp_handler(Endpoint("s", Unsigned(), inbox.receive))
    app.router.add_post("/wrapped", handle)
    async with client_of(app, inbox) as client, ClientSession() as session:
        port = client.writer.get_extra_info("peername")[1]
        for number in range(3):
            async with session.post(f"http://127.0.0.1:{port}/wrapped", json=number) as response:
                assert (response.status, await response.read()) == (200, b"")
    assert (len(connections), len(inbox.arrivals)) == (1, 3)


async def test_a_head_has_no_body_and_the_connection_stays(inbox: Inbox) -> None:
    """Whoever routes every method to an endpoint gets an answer that fits."""
    app = web.Application()
    app.router.add_route("*", "/any", aiohttp_handler(Endpoint("s", Unsigned(), inbox.receive, json=False)))
    request = post(b"").replace(b"POST /events", b"HEAD /any")
    async with client_of(app, inbox) as client:
        for _ in range(2):
            await client.send(request)
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")


async def test_where_responses_have_slots_the_answer_is_an_ordinary_one(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can tell there whether it was changed."""

    class Slotted:
        __slots__ = ("_status",)

    class Mixed(web.Response, Slotted):
        pass

    assert ours.plain_for(web.Response) is not web.Response
    assert ours.plain_for(Mixed) is web.Response
    monkeypatch.setattr(ours, "_plain", web.Response)
    async with client_of(web.Application(), inbox) as client:
        await client.send(post(b"{}"))
        status, headers, body = await client.reply()
    assert (status, body, "server" in headers) == (200, b"", True)


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
async def _with_bytes_and_a_late_look(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    assert isinstance(response, web.Response)
    response.body = b"ok"
    assert (response.status, response.content_length, response.prepared) == (200, 2, False)
    return response


@web.middleware
async def _with_compression(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    assert isinstance(response, web.Response)
    response.body = b""
    response.enable_compression(web.ContentCoding.deflate)
    return response


@web.middleware
async def _with_chunks(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    response.enable_chunked_encoding()
    return response


@web.middleware
async def _with_a_look(request: web.Request, handler: Handler) -> web.StreamResponse:
    response = await handler(request)
    assert (response.status, response.reason, dict(response.headers)) == (200, "OK", {})
    assert not hasattr(response, "nothing_that_a_response_has")
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
    "bytes": (_with_bytes_and_a_late_look, 200, "content-length", "2", b"ok"),
    "compression": (_with_compression, 200, "content-encoding", "deflate", zlib.compress(b"")),
    "chunks": (_with_chunks, 200, "transfer-encoding", "chunked", b""),
    "a look": (_with_a_look, 200, "content-length", "0", b""),
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


async def test_an_old_client_that_wants_to_stay_is_told_that_it_may(inbox: Inbox) -> None:
    """HTTP/1.0 keeps a connection only if the answer says so."""
    request = post(b"{}", "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0")
    async with client_of(web.Application(), inbox) as client:
        for _ in range(2):
            await client.send(request)
            status, headers, _ = await client.reply()
            assert (status, headers["connection"]) == (200, "keep-alive")
