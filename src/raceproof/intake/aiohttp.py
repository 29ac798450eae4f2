"""An endpoint as a handler of aiohttp: `app.router.add_post("/events", aiohttp_handler(endpoint))`.

Or endpoints as a server of their own, `aiohttp_server({"/events": endpoint})`: what an application has besides, routes,
middlewares and signals, costs about as much as the rest of such a request.

The limits are the endpoint's; `client_max_size` of the application does not apply. In the usual case the body is there
already and the answer is a plain 200: then it is read in one go, without a timer, and answered with bytes that are made
once a second.
"""

import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from email.utils import formatdate
from functools import lru_cache
from typing import Any

from raceproof.errors import DeclarationError, MissingExtra
from raceproof.intake.endpoint import Endpoint
from raceproof.intake.reply import OK

try:
    from aiohttp import web
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import HttpVersion11
except ImportError as error:
    raise MissingExtra("aiohttp is not installed: pip install 'raceproof[aiohttp]'") from error

__all__ = ["aiohttp_handler", "aiohttp_server"]

Answering = Callable[[web.BaseRequest], Awaitable[web.Response]]


def aiohttp_server(endpoints: Mapping[str, Endpoint], **settings: Any) -> web.Server:
    """A server that answers with these endpoints, by their paths, and knows nothing else; for `web.ServerRunner`.

    `settings` are those of aiohttp's connections; there is no access log unless they name one.
    """
    for path in endpoints:
        if not path.startswith("/"):
            raise DeclarationError(f"{path!r} is no path; it begins with a slash, as in '/events'")
    handlers = {path: aiohttp_handler(endpoint) for path, endpoint in endpoints.items()}

    async def handle(request: web.BaseRequest) -> web.Response:
        handler = handlers.get(request.path)
        if handler is None:
            return web.Response(status=404)
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        if "expect" in request.headers and request.transport is not None:
            if request.headers["expect"].lower() != "100-continue":
                return web.Response(status=417)
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await handler(request)

    return web.Server(handle, **{"access_log": None, **settings})


def aiohttp_handler(endpoint: Endpoint) -> Answering:
    """A handler that answers with `endpoint`."""
    answer = endpoint.answer

    async def handle(request: web.BaseRequest) -> web.Response:
        content, headers = request.content, request.headers
        body: bytes | AsyncIterable[bytes]
        # with a length it can be seen afterwards that nothing is missing
        if content.is_eof() and content.exception() is None and "content-length" in headers:
            body = content.read_nowait()
        else:
            body = content.iter_any()
        reply = await answer(headers, body)
        if reply is OK:
            return _plain()
        response = web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        if reply.close:
            response.force_close()
        return response

    return handle


class _Plain200(web.Response):
    """An empty 200, which is most of what is ever answered: written as it is, where nobody wants anything else of it.

    Half of aiohttp's time for such a request goes into the answer. So this one is not even made before somebody looks at
    it or changes it, a middleware for instance: then it is an ordinary response, and so it is where a signal has a word in
    the headers, or where the connection is not to be kept.
    """

    _made = _written = False
    __http_exception__ = False  # asked of every answer, and no reason to make this one

    def __init__(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        """What an ordinary response has and this one has not yet; what was set meanwhile stays."""
        if self._made:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        already = dict(vars(self))
        self._made = True
        super().__init__()
        vars(self).update(already)
        return getattr(self, name)

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if vars(self) or not _is_plain(request):
            return await super().prepare(request)
        transport = request.transport
        if transport is None or transport.is_closing():
            return await super().prepare(request)
        self._written = True
        transport.write(_plain_200(int(time.time())))
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        if not self._written:
            await super().write_eof(data)

    @property
    def prepared(self) -> bool:
        return self._written or super().prepared

    @property
    def keep_alive(self) -> bool | None:
        return True if self._written else super().keep_alive


def plain_for(response: type[web.Response]) -> type[web.Response]:
    """What answers a plain 200; where responses have slots, nobody could tell whether one was changed."""
    return web.Response if any(vars(kind).get("__slots__") for kind in response.__mro__) else _Plain200


_plain = plain_for(web.Response)


def _is_plain(request: web.BaseRequest) -> bool:
    """Does nothing about this request ask for more than the usual headers?"""
    if request.version is not HttpVersion11 or not request.keep_alive:
        return False
    if type(request) is web.Request:
        return not any(app.on_response_prepare for app in request.match_info.apps)
    return (
        type(request) is web.BaseRequest
    )  # of a server without an application, where nobody has a word in it


@lru_cache(maxsize=1)
def _plain_200(now: int) -> bytes:
    """The bytes of the answer, with the date of this second."""
    return f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: {formatdate(now, usegmt=True)}\r\n\r\n".encode()
