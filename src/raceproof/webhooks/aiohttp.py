"""An endpoint on aiohttp: a handler like any other, with the middlewares and signals of its application.

The limits are the endpoint's; `client_max_size` of an application does not apply.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from raceproof.kernel.errors import missing_extra
from raceproof.webhooks.endpoint import Endpoint
from raceproof.webhooks.headers import Headers, Lowered, headers_of

try:
    from aiohttp import web
    from aiohttp.http import HttpProcessingError
except ImportError as error:
    raise missing_extra("aiohttp", "aiohttp") from error

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

__all__ = ["aiohttp_handler", "redacting_logger"]


class _Redacting(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            return f"{msg}: {type(error).__name__}", {**kwargs, "exc_info": None}
        return msg, kwargs


redacting_logger = _Redacting(logging.getLogger("aiohttp.server"), {})
"""For `web.AppRunner(app, logger=redacting_logger)`: of bytes that are not HTTP, the kind of error is logged without the
bytes, because they may be a secret."""


def aiohttp_handler(endpoint: Endpoint) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    """A handler that answers with `endpoint`: `app.router.add_post("/events", aiohttp_handler(endpoint))`."""
    answer = endpoint.answer

    async def handle(request: web.BaseRequest) -> web.Response:
        content = request.content
        whole = content.is_eof() and content.exception() is None
        reply = await answer(
            _with_one_encoding(request.headers), content.read_nowait() if whole else content.iter_any()
        )
        response = web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        if reply.close:
            response.force_close()
        return response

    return handle


class _MultiDict(Lowered):
    """The headers of aiohttp, which ignore the case of names themselves."""

    __slots__ = ("_headers",)

    def __init__(self, headers: "CIMultiDictProxy[str]") -> None:
        self._headers = headers

    def get(self, name: str, /) -> str | None:
        return self._headers.get(name)


def _with_one_encoding(headers: "CIMultiDictProxy[str]") -> Headers:
    """Headers with all content encodings in one: aiohttp decodes by the last, and an endpoint asks for the first."""
    encodings = headers.getall("content-encoding", ())
    if len(encodings) < 2:
        return _MultiDict(headers)
    return headers_of(headers)
