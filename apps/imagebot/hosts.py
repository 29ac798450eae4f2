"""Who may ask, for aiohttp: names of this application in Host, and changes of the simulators by their own pages only."""

from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from appkit.hosts import MISDIRECTED, Hosts
from appkit.loops import Loops
from appkit.watch import Unavailable


def known_hosts(hosts: Hosts) -> Middleware:
    """Refuse names that are not ours: see `appkit.hosts`."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if why := hosts.refusal(one.encode("latin-1", "replace") for one in request.headers.getall("Host", ())):
            return web.json_response({"error": why}, status=MISDIRECTED)
        return await handler(request)

    return check


def available(loops: Callable[[], Loops]) -> Middleware:
    """503 with a reason while the database hangs, also for requests that wait for it already."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        watch = loops().watched
        if watch is None or request.method == "GET":
            return await handler(request)
        try:
            return await watch.answer(lambda: handler(request))
        except Unavailable as error:
            return web.json_response({"error": str(error)}, status=503, headers={"Retry-After": "1"})

    return check


@web.middleware
async def own_pages(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse changes from pages of other origins; programs send no origin."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    same = origin is None or origin.split("://", 1)[-1] == request.host
    if request.method != "GET" and (not same if site is None else site not in ("same-origin", "none")):
        return web.json_response({"error": "a page of another origin may not change anything here"}, status=403)
    return await handler(request)
