"""An endpoint as an ASGI application: alone behind uvicorn, hypercorn or granian, or as a route of Starlette or FastAPI.

As a route, because a mount has no address of its own: `app.mount("/events", …)` answers `POST /events` with a redirect
to `/events/`, and senders of webhooks do not follow redirects.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Self

from raceproof.webhooks.endpoint import Endpoint
from raceproof.webhooks.headers import Lowered
from raceproof.webhooks.reply import Reply

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_WRONG_METHOD = Reply(405, b"", (("allow", "POST"),), close=True)

__all__ = ["asgi_app"]


def asgi_app(endpoint: Endpoint) -> App:
    """An ASGI application that answers POST with `endpoint`, as `Route("/events", asgi_app(endpoint))` or alone."""
    return _App(endpoint)


class _App:
    """An object and not a function: Starlette would call a function with a request and wait for a response."""

    __slots__ = ("_endpoint",)

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"a webhook endpoint answers HTTP requests only, got a {scope['type']} connection")
        elif scope["method"] != "POST":
            await _send(scope, send, _WRONG_METHOD)
        else:
            body = _Body(receive)
            reply = await self._endpoint.answer(_Headers(scope["headers"]), body)
            if not body.gone:
                await _send(scope, send, reply)


class _Headers(Lowered):
    """The header list of ASGI, searched as it is: a few are asked for, and a dict would be made for nothing."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs

    def get(self, name: str, /) -> str | None:
        wanted = name.encode("latin-1")
        for found, value in self._pairs:
            if found == wanted:
                # each encoding was applied to the body; of any other header the first counts
                return self._all(wanted) if wanted == b"content-encoding" else value.decode("latin-1")
        return None

    def _all(self, wanted: bytes) -> str:
        return b", ".join(value for found, value in self._pairs if found == wanted).decode("latin-1")


class _Disconnected(Exception):
    """The sender went away before its body was complete."""


class _Body:
    """The body of a request in pieces; `gone` once the sender is."""

    __slots__ = ("_more", "_receive", "gone")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._more = True
        self.gone = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._more:
            raise StopAsyncIteration
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = True
            raise _Disconnected
        self._more = message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        return chunk


async def _send(scope: Scope, send: Send, reply: Reply) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    if reply.close and str(scope.get("http_version", "1.1")).startswith("1"):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _live(receive: Receive, send: Send) -> None:
    """There is nothing to start or to stop; what `receive` needs is its owner's to open and close."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
