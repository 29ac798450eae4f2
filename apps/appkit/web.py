"""The web side of an application: limits on what comes in, headers on what goes out, health, metrics and live events.

Pages are rendered on the server and everything that they load comes from there.
"""

import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from appkit.loops import Loops
from raceproof import count_decisions
from raceproof.intake import BadJson, parse

MAX_BODY = 1024 * 1024
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


def web_app(title: str, loops: Loops, registry: CollectorRegistry, **options: Any) -> FastAPI:
    """An application with `/health`, `/metrics`, `/static/kit.css`, limits and headers."""
    app = FastAPI(title=title, docs_url=None, redoc_url=None, **options)
    app.state.stop_counting = count_decisions(registry)
    app.add_middleware(Limits)
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
        return JSONResponse(
            {"error": "the request is not as it should be", "problems": problems}, status_code=422
        )

    return app


class Limits:
    """ASGI middleware: bodies up to a size and JSON that means the same to every reader, and the headers of HEADERS."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, with_headers)
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                await _refuse(413, f"a body has at most {MAX_BODY} bytes", with_headers)
                return
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                break
        kind = dict(scope["headers"]).get(b"content-type", b"")
        if body and kind.startswith(b"application/json"):
            try:
                parse(body)
            except BadJson as error:
                await _refuse(400, f"the body is no JSON that can be kept: {error}", with_headers)
                return
        sent = False

        async def again() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, with_headers)


async def _refuse(status: int, why: str, send: Send) -> None:
    body = json.dumps({"error": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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
            yield (
                f"id: {number}\ndata: {json.dumps(data, default=str, ensure_ascii=False)}\n\n"
                if data
                else ": \n\n"
            )

    # nginx keeps what a stream says to itself unless it is asked not to
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)
