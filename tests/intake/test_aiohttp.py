"""An endpoint on aiohttp in its three places: a handler of an application, a server of its own, before an application."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from unittest.mock import Mock

import pytest
from aiohttp import ClientSession, http_parser, web

from raceproof import DeclarationError
from raceproof.intake import Endpoint, Unsigned
from raceproof.intake.aiohttp import aiohttp_handler, aiohttp_runner, aiohttp_server
from tests.fix_waiting import until
from tests.intake.fix_served import (
    Inbox,
    Serve,
    before_an_application,
    by_aiohttp,
    by_aiohttp_alone,
    connection,
    post,
    running,
)

PLACES: dict[str, Serve] = {
    "a handler": by_aiohttp,
    "a server": by_aiohttp_alone,
    "in front": before_an_application,
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def unsigned(inbox: Inbox, source: str = "s") -> Endpoint:
    return Endpoint(source, Unsigned(), inbox.receive, on_reply=inbox.on_reply)


def in_chunks(body: bytes, *headers: str) -> bytes:
    """The same request as by `post`, without a length."""
    lines = ("POST /events HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", *headers, "", "")
    return "\r\n".join(lines).encode() + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


async def _answers(port: int, asked: dict[str, int]) -> None:
    """What is asked by POST at each path, and the status that is expected."""
    async with ClientSession(f"http://127.0.0.1:{port}") as session:
        for path, status in asked.items():
            async with session.post(path, json=path) as response:
                assert (path, response.status) == (path, status)


async def test_a_server_of_its_own_knows_its_endpoints_and_nothing_else(inbox: Inbox) -> None:
    """Each by its path, by POST alone; a query is no part of the path."""
    server = aiohttp_server({"/kie": unsigned(inbox, "kie"), "/other": unsigned(inbox, "other")})
    async with running(web.ServerRunner(server)) as port:
        await _answers(port, {"/kie": 200, "/other?x=1": 200, "/kie/": 404, "/": 404})
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/kie") as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
    assert [arrival.source for arrival in inbox.arrivals] == ["kie", "other"]


async def test_what_is_no_endpoint_s_goes_to_the_application_behind(inbox: Inbox) -> None:
    """With all that it has: routes, middlewares, the time before it serves and the time after."""
    happened = []

    @web.middleware
    async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
        happened.append(request.path)
        return await handler(request)

    async def started(_: web.Application) -> None:
        happened.append("started")

    async def ended(_: web.Application) -> None:
        happened.append("ended")

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path})

    app = web.Application(middlewares=[counted])
    app.on_startup.append(started)
    app.on_cleanup.append(ended)
    app.router.add_post("/health", health)
    async with running(aiohttp_runner(app, {"/kie": unsigned(inbox)})) as port:
        await _answers(port, {"/kie": 200, "/health": 200, "/kie?x=1": 200, "/nowhere": 404})
    assert happened == ["started", "/health", "/nowhere", "ended"]
    assert len(inbox.arrivals) == 2


async def test_an_endpoint_without_a_path_is_refused(inbox: Inbox) -> None:
    """In both places where endpoints are found by their paths."""
    endpoints = {"events": unsigned(inbox)}
    with pytest.raises(DeclarationError, match="begins with a slash"):
        aiohttp_server(endpoints)
    with pytest.raises(DeclarationError, match="begins with a slash"):
        aiohttp_runner(web.Application(), endpoints)


@pytest.mark.parametrize("path", ["/a?b", "/a#b", "/a%41", "/a b", "/a\t", "/a\n", "/é", "/a\0"], ids=ascii)
async def test_a_path_that_readers_take_for_different_ones_is_refused(inbox: Inbox, path: str) -> None:
    """Whether a request came in one piece or in two would say which endpoint it is for."""
    with pytest.raises(DeclarationError, match="not mean the same to every reader"):
        aiohttp_server({"/events": unsigned(inbox), path: unsigned(inbox)})
    with pytest.raises(DeclarationError, match="not mean the same to every reader"):
        aiohttp_runner(web.Application(), {path: unsigned(inbox)})


async def test_every_path_that_is_accepted_is_found_in_one_piece_and_in_two(inbox: Inbox) -> None:
    """All the characters there are, and what looks like a way up, a host or nothing at all."""
    characters = [f"/a{chr(code)}b" for code in range(33, 127) if chr(code) not in "?#%"]
    paths = [*characters, "/", "//", "//host/a", "/a//b", "/./a", "/a/../b", "/a/..", "/http://host/a"]
    server = aiohttp_server({path: unsigned(inbox, path) for path in paths})
    async with running(web.ServerRunner(server, shutdown_timeout=0.05)) as port:
        for path in paths:
            request = post(b"{}").replace(b"/events", path.encode())
            async with connection(port) as client:
                await client.send(request)
                assert (await client.reply())[0] == 200
                await client.send(request[:-1])
                for _ in range(5):
                    await asyncio.sleep(0)
                await client.send(request[-1:])
                assert (await client.reply())[0] == 200
    assert [one.source for one in inbox.arrivals] == [path for path in paths for _ in range(2)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("request_with", [post, in_chunks], ids=["length", "chunks"])
async def test_of_two_encodings_the_one_that_is_applied_counts(
    place: str, request_with: Callable[..., bytes], inbox: Inbox
) -> None:
    """Else what is received would not be the bytes that were sent and signed."""
    request = request_with(gzip.compress(b"{}"), "Content-Encoding: identity", "Content-Encoding: gzip")
    async with PLACES[place](unsigned(inbox)) as port, connection(port) as client:
        await client.send(request)
        assert (await client.reply())[0] == 415
    assert inbox.reasons == ["encoded"]


async def test_a_server_of_its_own_unpacks_nothing(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """What will be refused is no work before that."""
    unpacking = Mock()
    monkeypatch.setattr(http_parser, "ZLibDecompressor", unpacking)
    async with by_aiohttp_alone(unsigned(inbox)) as port, connection(port) as client:
        await client.send(in_chunks(gzip.compress(b"{}"), "Content-Encoding: gzip"))
        assert (await client.reply())[0] == 415
    assert unpacking.mock_calls == []


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
    app.router.add_route(
        "*", "/events", aiohttp_handler(Endpoint("s", Unsigned(), inbox.receive, json=False))
    )
    async with running(web.AppRunner(app)) as port, connection(port) as client:
        for _ in range(2):
            await client.send(post(b"").replace(b"POST", b"HEAD"))
            assert (await client.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
