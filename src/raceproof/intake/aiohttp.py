"""An endpoint on aiohttp: as a handler of an application, as a server of its own, or in front of an application.

`aiohttp_handler` makes a handler like any other, with the middlewares and signals of its application. The other two take
in what is plain by themselves (`connection.py`), which is several times quicker, and leave to aiohttp what is not.

The limits are the endpoint's; `client_max_size` of an application does not apply.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from raceproof.errors import DeclarationError, missing_extra
from raceproof.intake.connection import Connection, Front
from raceproof.intake.endpoint import Endpoint
from raceproof.intake.headers import Headers, Lowered, headers_of

try:
    from aiohttp import web
    from aiohttp.http import HttpProcessingError
except ImportError as error:
    raise missing_extra("aiohttp", "aiohttp") from error

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

__all__ = ["aiohttp_handler", "aiohttp_runner", "aiohttp_server"]

Handler = Callable[[Any], Awaitable[web.StreamResponse]]

_ONE_MEANING = re.compile(r"/(?:(?![?#%])[!-~])*")
_IDLE = 3630.0
"""Seconds; aiohttp's own `keepalive_timeout`, where nothing else is said."""


class _Discreet(logging.LoggerAdapter[logging.Logger]):
    """Of what is no HTTP it logs the kind of error alone: the message has the bytes, and they may be a secret."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        error = kwargs.get("exc_info")
        if isinstance(error, HttpProcessingError):
            return f"{msg}: {type(error).__name__}", {**kwargs, "exc_info": None}
        return msg, kwargs


_DISCREET = _Discreet(logging.getLogger("aiohttp.server"), {})


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


def aiohttp_server(endpoints: Mapping[str, Endpoint], **settings: Any) -> web.Server:
    """A server that answers with these endpoints, by their paths, and knows nothing else; for `web.ServerRunner`.

    `settings` are those of aiohttp's connections; there is no access log unless they name one, and it has only what is not
    plain. What is no HTTP is logged without its bytes, unless they name a logger.
    """

    async def nothing(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=404)

    ours = {"access_log": None, "auto_decompress": False, "logger": _DISCREET}
    behind = web.Server(nothing, **{**ours, **settings})
    return _Server(behind, endpoints, settings)


def aiohttp_runner(app: web.Application, endpoints: Mapping[str, Endpoint], **settings: Any) -> web.AppRunner:
    """A runner for an application with these endpoints in front of it, by their paths; the rest is the application's.

    Routes, middlewares and signals of the application have no word in what goes to an endpoint, nor has its access log. What
    is no HTTP is logged without its bytes, unless `settings` name a logger.
    """
    return _Runner(app, endpoints, **settings)


class _Runner(web.AppRunner):
    def __init__(self, app: web.Application, endpoints: Mapping[str, Endpoint], **settings: Any) -> None:
        super().__init__(app, **{"logger": _DISCREET, **settings})
        self._endpoints = _checked(endpoints)
        self._settings = settings

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self._endpoints, self._settings)


class _Server(web.Server):
    """A server whose connections are ours, until they bring something that is not plain: then they are those of `behind`."""

    def __init__(
        self, behind: web.Server, endpoints: Mapping[str, Endpoint], settings: Mapping[str, Any]
    ) -> None:
        behind.request_handler = _with(_checked(endpoints), behind.request_handler)
        super().__init__(behind.request_handler)
        self._behind = behind
        self._front = Front(endpoints, behind, float(settings.get("keepalive_timeout", _IDLE)))

    @property
    def connections(self) -> Any:
        return self._behind.connections

    def __call__(self) -> Any:
        return Connection(self._front)

    def pre_shutdown(self) -> None:
        self._front.close()
        self._behind.pre_shutdown()

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._front.end(timeout)
        await self._behind.shutdown(timeout)


def _checked(endpoints: Mapping[str, Endpoint]) -> Mapping[str, Endpoint]:
    for path in endpoints:
        if not path.startswith("/"):
            raise DeclarationError(f"{path!r} is no path; it begins with a slash, as in '/events'")
        if not _ONE_MEANING.fullmatch(path):
            raise DeclarationError(
                f"the path {path!r} does not mean the same to every reader: write it in printable ASCII,"
                " without spaces, '?', '#' and '%'"
            )
    return endpoints


def _with(endpoints: Mapping[str, Endpoint], behind: Handler) -> Handler:
    """What aiohttp makes of a request that is not plain: the same endpoint answers it."""
    handlers = {path: aiohttp_handler(endpoint) for path, endpoint in endpoints.items()}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        handler = handlers.get(request.path)
        if handler is None:
            return await behind(request)
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        if "expect" in request.headers and request.transport is not None:
            if request.headers["expect"].lower() != "100-continue":
                return web.Response(status=417)
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await handler(request)

    return handle
