"""The web side of an application: limits on what comes in, headers on what goes out, health, metrics and live events.

Pages are rendered on the server and everything that they load comes from there.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from appkit.hosts import MISDIRECTED, Hosts
from appkit.loops import Loops
from appkit.watch import Unavailable, is_unavailable
from raceproof.ops.metrics import count_decisions
from raceproof.webhooks import BadJson, parse

log = logging.getLogger("appkit.web")

MAX_BODY = 1024 * 1024
WITHOUT_DATABASE = ("/health", "/metrics")
READ_SECONDS = 10.0
"""For a whole body to arrive."""
DIGITS = 18
"""Of a number that fits into 64 bits whatever they are."""
FORMS = (b"application/x-www-form-urlencoded", b"multipart/form-data")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
STATIC = Path(__file__).parent / "static"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def web_app(
    title: str, loops: Loops, registry: CollectorRegistry, hosts: Iterable[str] = (), **options: Any
) -> FastAPI:
    """An application with `/health`, `/metrics`, `/kit/kit.css`, limits and headers; `hosts` are its names."""
    app = FastAPI(title=title, docs_url=None, redoc_url=None, **options)
    app.state.stop_counting = count_decisions(registry)
    app.add_middleware(Available, loops=loops)
    app.add_middleware(Limits, hosts=Hosts(title, hosts))
    app.mount("/kit", StaticFiles(directory=STATIC), name="kit")

    @app.get("/health", tags=["operation"])
    async def health() -> Response:
        """200 while every loop works, 503 with what is wrong otherwise."""
        return JSONResponse(
            {"healthy": loops.healthy, "loops": loops.health()}, status_code=200 if loops.healthy else 503
        )

    @app.get("/metrics", tags=["operation"], response_class=Response)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(RequestValidationError)
    async def unprocessable(_: Request, error: RequestValidationError) -> Response:
        problems = [{"where": list(map(str, one["loc"])), "problem": one["msg"]} for one in error.errors()]
        return JSONResponse({"error": "the request is not as it should be", "problems": problems}, status_code=422)

    return app


class Available:
    """ASGI middleware: 503 with a reason while the database is away, also for requests that wait for it already."""

    def __init__(self, app: App, loops: Loops) -> None:
        self._app = app
        self._loops = loops

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in WITHOUT_DATABASE or scope["path"].startswith("/kit/"):
            await self._app(scope, receive, send)
            return
        begun = over = False

        async def begin(message: Message) -> None:
            nonlocal begun
            if not over:
                begun = True
                await send(message)

        async def work() -> None:
            await self._app(scope, receive, begin)

        watch = self._loops.watched
        try:
            await (work() if watch is None else watch.answer(work, lambda: begun))
        except Exception as error:
            away = is_unavailable(error) or (watch is not None and watch.reason)
            if begun or not away:
                raise
            over = True
            log.warning("503: %s", type(error).__name__)
            why = str(error) if isinstance(error, Unavailable) else f"the database is away: {type(error).__name__}"
            await _refuse(503, f"{why}; ask again in a moment", send, [(b"retry-after", b"1")])


class Limits:
    """ASGI middleware: known hosts, bodies of a size and in time, strict JSON, and the headers of HEADERS."""

    def __init__(self, app: App, hosts: Hosts, read_seconds: float | None = None) -> None:
        self._app = app
        self._hosts = hosts
        self._read_seconds = read_seconds

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        if why := self._hosts.refusal(_all(scope, b"host")):
            await _refuse(MISDIRECTED, why, with_headers)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            await _refuse(400, "a NUL character is part of no name and no number", with_headers)
            return
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, with_headers)
            return
        try:
            async with asyncio.timeout(self._read_seconds or READ_SECONDS):
                body = await _whole(receive)
        except TimeoutError:
            await _refuse(408, "the body did not arrive in time", with_headers)
            return
        except _TooMuch:
            await _refuse(413, f"a body has at most {MAX_BODY} bytes", with_headers)
            return
        if body is None:
            return
        if body and not _is_form(scope):
            try:
                parse(body)
            except BadJson as error:
                await _refuse(400, f"the body must be strict JSON: {error}", with_headers)
                return
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, with_headers)


class _TooMuch(Exception):
    """The body is larger than MAX_BODY."""


async def _whole(receive: Receive) -> bytes | None:
    """The body; none if the client has gone before its end: half a body is not a request."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise _TooMuch
        if not message.get("more_body"):
            return bytes(body)


def _is_form(scope: MutableMapping[str, Any]) -> bool:
    """Whether the body is a form; anything else is read as JSON, however its type is spelled."""
    kinds = [kind.partition(b";")[0].strip().lower() for kind in _all(scope, b"content-type")]
    return bool(kinds) and all(kind in FORMS for kind in kinds)


def _all(scope: MutableMapping[str, Any], header: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name.lower() == header]


async def _refuse(status: int, why: str, send: Send, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def form_fields(request: Request, most: int = 30) -> dict[str, str]:
    """The fields of a small form; 422 if it has more fields than any form of ours, or is not one."""
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=most, errors="strict"))
    except ValueError:
        raise HTTPException(422, f"a form has at most {most} fields, in UTF-8") from None


def number(text: str, otherwise: int = 0) -> int:
    """A number from outside: ASCII digits, and small enough for its column."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else otherwise


def templates(folder: Path) -> Environment:
    """Templates that escape everything and that know of no missing name."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        enable_async=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def event_stream(events: AsyncIterable[tuple[str, dict[str, Any]]]) -> StreamingResponse:
    """Server-sent events: an id for each, so that a client that comes back goes on where it was."""

    async def lines() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        async for number, data in events:
            yield (f"id: {number}\ndata: {json.dumps(data, default=str, ensure_ascii=False)}\n\n" if data else ": \n\n")

    # nginx keeps what a stream says to itself unless it is asked not to
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)
