"""The dashboard as an ASGI application: standalone, or mounted in another one under any prefix."""

from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from raceproof.connect.url import Connecting
from raceproof.kernel.events import log
from raceproof.kernel.statement import Program
from raceproof.ops.web.access import ANONYMOUS, Access, Authorize, Gate
from raceproof.ops.web.audit import Audit
from raceproof.ops.web.bulk import Plans
from raceproof.ops.web.catalog import Declared, catalog, for_one_tenant
from raceproof.ops.web.filters import environment, problem
from raceproof.ops.web.links import Link
from raceproof.ops.web.live import Feed, Pages
from raceproof.ops.web.notices import Notices
from raceproof.ops.web.queries.leases import Leader, Watch, leaders
from raceproof.ops.web.queries.ledger import last
from raceproof.ops.web.routes import ROUTES, Entry, Rule
from raceproof.ops.web.source import Source
from raceproof.ops.web.token import TokenAccess
from raceproof.ops.web.visit import Board, Visit
from raceproof.store import AsyncStore

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Dashboard:
    """The application; call `close()` if no server runs its lifespan and it has opened a store itself."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.routes: list[BaseRoute] = [
            Route(entry.path, self._guarded(entry), methods=[entry.method], name=entry.name) for entry in ROUTES
        ]
        self._router: ASGIApp = Router(self.routes, redirect_slashes=False, default=_not_found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                known = {name.lower() for name, _ in message["headers"]}
                for name, value in HEADERS.items():
                    if name.lower().encode() not in known:
                        message["headers"].append((name.lower().encode(), value.encode()))
                if b"cache-control" not in known:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            await self._router(scope, receive, with_headers)
        except Exception as error:
            if started:
                raise
            answer = await self._failed(Request(scope, receive), error)
            await answer(scope, receive, with_headers)

    def _guarded(self, entry: Entry) -> Callable[[Request], Any]:
        """A view behind the gate: nothing runs before the request is admitted."""

        async def endpoint(request: Request) -> Response:
            access = await self._admitted(request, entry)
            if any("\0" in value for name, value in request.query_params.multi_items() if name != "key"):
                raise HTTPException(400, "the URL must not contain NUL characters")
            return await entry.view(Visit(self.board, request, access))

        return endpoint

    async def _admitted(self, request: Request, entry: Entry) -> Access:
        if entry.rule is Rule.OPEN:
            self.board.gate.check_host(request)
            return ANONYMOUS
        return await self.board.gate.admit(request, changes=entry.rule is Rule.CHANGE)

    async def _failed(self, request: Request, error: Exception) -> Response:
        visit = Visit(self.board, request, ANONYMOUS)
        if isinstance(error, HTTPException):
            if error.status_code == 401 and self.board.login is not None:
                return visit.page("login.html", 401, wrong=False)
            answer = visit.page(
                "failed.html", error.status_code, number=error.status_code, message=error.detail, more=""
            )
            answer.headers.update(error.headers or {})
            return answer
        message = problem(error)
        log.warning("the dashboard could not answer %s: %s", request.scope["path"], message)
        return visit.page(
            "failed.html", 503, number=503, message="this page could not be read from the store", more=message
        )

    async def _live(self, receive: Receive, send: Send) -> None:
        """The lifespan: the store opens on first use, and closes at shutdown."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def close(self) -> None:
        """End the live pages, and close the store if the dashboard opened it."""
        self.board.feed.stop()
        await self.board.pages.close()
        await self.board.source.close()


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise HTTPException(404, "no such page")


def dashboard(
    store: AsyncStore | Connecting | str,
    *declared: Declared,
    authorize: Authorize | None = None,
    title: str = "raceproof",
    links: Iterable[Link | tuple[str, str]] = (),
    where: str = "",
    hide: Iterable[str] = (),
    audit: str = "raceproof_audit",
    secret: str | bytes | None = None,
    hosts: Iterable[str] | None = None,
    origins: Iterable[str] = (),
) -> Dashboard:
    """The dashboard of these lifecycles, deliveries, attempts, leases and inboxes, or of modules that declare them.

    `store` is an AsyncStore, `connect(url)` or a URL. `authorize(request)` returns an `Access`, or None to deny it;
    without `authorize`, anyone can read and no one can make changes. `links` are shown beside the pages, `where`
    describes the store. Columns named in `hide`, and those named like secrets, are hidden. `audit` is the table (or
    stream) of changes; see `audit_ddl`. Processes that serve the same pages share a `secret`. `hosts` are the accepted
    host names, `"*"` for any; by default those of this machine without `authorize`, and any with it. `origins` are
    further origins of forms, for use behind a proxy.
    """
    source = Source(store)
    things = catalog(declared) if source.tenant is None else for_one_tenant(catalog(declared))
    watch = Watch()
    hidden = frozenset(hide)
    feed = Feed(things, watch, hidden, source.tenant)

    async def look() -> Hashable:
        def read(opened: AsyncStore) -> Program[tuple[Hashable, list[Leader]]]:
            seen: list[Hashable] = [feed.number]
            if opened.dialect != "redis":
                for table, names in things.histories.items():
                    seen.append((yield from last(opened, table, names)))
            found = (yield from leaders(opened, things.leases.values())) if things.leases else []
            return tuple(seen), found

        seen, found = await source.run(read)
        watch.see(found, datetime.now(UTC))
        return seen, tuple((one.holder, one.epoch) for one in found)

    board = Board(
        title=title,
        where=where,
        catalog=things,
        source=source,
        gate=Gate(authorize, secret, hosts, origins),
        audit=Audit(source, audit),
        feed=feed,
        watch=watch,
        pages=Pages(look, remembers=bool(things.leases)),
        plans=Plans(),
        notices=Notices(),
        templates=environment(),
        links=[one if isinstance(one, Link) else Link(*one) for one in links],
        hidden=hidden,
        tenant=source.tenant,
        login=authorize if isinstance(authorize, TokenAccess) else None,
    )
    return Dashboard(board)
