"""An endpoint as a handler of aiohttp: `app.router.add_post("/events", aiohttp_handler(endpoint))`.

The limits are the endpoint's; `client_max_size` of the application does not apply. In the usual case the body is there
already and the answer is a plain 200: then it is read in one go, without a timer, and answered with bytes that are made
once a second.
"""

import time
from collections.abc import AsyncIterable, Awaitable, Callable
from email.utils import formatdate
from functools import lru_cache

from raceproof.errors import MissingExtra
from raceproof.intake.endpoint import Endpoint
from raceproof.intake.reply import OK

try:
    from aiohttp import web
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import HttpVersion11
except ImportError as error:
    raise MissingExtra("aiohttp is not installed: pip install 'raceproof[aiohttp]'") from error

__all__ = ["aiohttp_handler"]


def aiohttp_handler(endpoint: Endpoint) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A handler that answers with `endpoint`."""

    async def handle(request: web.Request) -> web.Response:
        content, headers = request.content, request.headers
        body: bytes | AsyncIterable[bytes]
        # with a length it can be seen afterwards that nothing is missing
        if content.is_eof() and content.exception() is None and "content-length" in headers:
            body = content.read_nowait()
        else:
            body = content.iter_any()
        reply = await endpoint.answer(headers, body)
        if reply is OK:
            return _Plain200()
        response = web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        if reply.close:
            response.force_close()
        return response

    return handle


class _Plain200(web.Response):
    """An empty 200, which is most of what is ever answered: written as it is, where nobody wants anything else of it.

    Half of aiohttp's time for such a request goes into the headers of the answer. Where a middleware or a signal has a
    word in them, or the connection is not to be kept, this is an ordinary response.
    """

    _written = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        transport = request.transport
        if transport is None or transport.is_closing() or not self._is_plain(request):
            return await super().prepare(request)
        self._written = True
        transport.write(_plain_200(int(time.time())))
        return None

    def _is_plain(self, request: web.BaseRequest) -> bool:
        return (
            type(request) is web.Request
            and request.version is HttpVersion11
            and request.keep_alive
            and super().keep_alive is None
            and self.status == 200
            and self.body is None
            and not self.headers
            and not self.cookies
            and not self.compression
            and not self.chunked
            and not any(app.on_response_prepare for app in request.match_info.apps)
        )

    async def write_eof(self, data: bytes = b"") -> None:
        if not self._written:
            await super().write_eof(data)

    @property
    def prepared(self) -> bool:
        return self._written or super().prepared

    @property
    def keep_alive(self) -> bool | None:
        return True if self._written else super().keep_alive


@lru_cache(maxsize=1)
def _plain_200(now: int) -> bytes:
    """The bytes of the answer, with the date of this second."""
    return f"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nDate: {formatdate(now, usegmt=True)}\r\n\r\n".encode()
