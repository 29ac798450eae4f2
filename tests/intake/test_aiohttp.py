"""An endpoint on aiohttp in its three places: a handler of an application, a server of its own, before an application."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp import ClientSession, web

from raceproof import DeclarationError
from raceproof.intake import Endpoint, Unsigned
from raceproof.intake.aiohttp import aiohttp_handler, aiohttp_runner, aiohttp_server
from tests.intake.fix_served import Inbox, connection, post, running

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def unsigned(inbox: Inbox, source: str = "s") -> Endpoint:
    return Endpoint(source, Unsigned(), inbox.receive)


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
