"""What a page works with: the request, the visitor's access, the declarations and the store."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, TypeVarTuple
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from raceproof.declare.spec import Spec
from raceproof.kernel.redis import parts_of_text
from raceproof.kernel.secrecy import HIDDEN, is_secret
from raceproof.kernel.statement import Program
from raceproof.ops.web.access import COOKIE, FIELD, Access, Gate, page_cookie
from raceproof.ops.web.audit import Audit
from raceproof.ops.web.bulk import Plans
from raceproof.ops.web.catalog import Catalog
from raceproof.ops.web.filters import problem
from raceproof.ops.web.forms import Form
from raceproof.ops.web.links import Link
from raceproof.ops.web.live import Feed, Pages
from raceproof.ops.web.notices import Notices
from raceproof.ops.web.queries.leases import Watch
from raceproof.ops.web.source import Source
from raceproof.ops.web.token import TokenAccess
from raceproof.store import AsyncStore

T = TypeVar("T")
Given = TypeVarTuple("Given")
SHARED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """The answer of the store, or why there is none."""

    value: T | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    """The parts of a dashboard, one of each."""

    title: str
    where: str
    catalog: Catalog
    source: Source
    gate: Gate
    audit: Audit
    feed: Feed
    watch: Watch
    pages: Pages
    plans: Plans
    notices: Notices
    templates: Environment
    links: Sequence[Link]
    hidden: frozenset[str]
    tenant: Any
    """The tenant whose rows are shown; None: all rows."""
    login: TokenAccess | None
    """Checks the token; None if the host authorizes visitors."""


@dataclass(slots=True)
class Visit:
    """One request."""

    board: Board
    request: Request
    access: Access
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def catalog(self) -> Catalog:
        return self.board.catalog

    @property
    def form(self) -> Form:
        found: Form = self.request.state.form
        return found

    def asked(self, name: str) -> str | None:
        """A query parameter."""
        return self.request.query_params.get(name) or None

    def url(self, path: str, **query: Any) -> str:
        """A page of ours, under whatever prefix we are; lists become repeated words."""
        given = {name: value for name, value in query.items() if value is not None}
        root = self.request.scope.get("root_path", "").rstrip("/")
        return f"{root}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    def item(self, spec: Spec[Any], parts: Iterable[Any]) -> str:
        return self.url("/item", of=self.catalog.name_of(spec), key=[str(part) for part in parts])

    def item_of_text(self, spec: Spec[Any], text: str) -> str:
        """The page of a row that a history knows by the text of its key."""
        return self.item(spec, parts_of_text(spec, text))

    def lifecycle(self, name: str | None) -> Spec[Any]:
        spec = self.catalog.lifecycles.get(name or "")
        if spec is None:
            raise HTTPException(404, "no such lifecycle")
        return spec

    def secret(self, column: str) -> bool:
        return is_secret(column, self.board.hidden)

    def masked(self, column: str | None, value: Any) -> Any:
        """A value of this column, or the mask of a hidden one."""
        return HIDDEN if value is not None and column is not None and self.secret(column) else value

    async def ask(self, question: Callable[[AsyncStore, *Given], Program[T]], *given: *Given) -> Reply[T]:
        """Read from the store; an error becomes part of the reply."""
        try:
            return Reply(await self.board.source.run(lambda store: question(store, *given)))
        except HTTPException:
            raise
        except Exception as error:
            return Reply(None, problem(error))

    async def ask_shared(
        self, name: Hashable, question: Callable[[AsyncStore, *Given], Program[T]], *given: *Given
    ) -> Reply[T]:
        """The same, but an answer from a moment ago may be reused."""
        source = self.board.source
        key = (question.__qualname__, name)
        try:
            return Reply(
                await source.shared(key, SHARED_SECONDS, lambda: source.run(lambda store: question(store, *given)))
            )
        except Exception as error:
            return Reply(None, problem(error))

    def page(self, template: str, code: int = 200, **values: Any) -> Response:
        """Render a page; a form on it carries the token of this browser."""
        cookie, new = page_cookie(self.request)
        html = self.board.templates.get_template(template).render(
            visit=self,
            board=self.board,
            catalog=self.catalog,
            access=self.access,
            now=self.now,
            url=self.url,
            csrf_field=FIELD,
            csrf=self.board.gate.token(cookie, self.access) if self.access.may_change else "",
            path=self.request.scope["path"].removeprefix(self.request.scope.get("root_path", "")) or "/",
            notice=self.board.notices.find(self.asked("done"), self.access.actor),
            **values,
        )
        response = HTMLResponse(html, code)
        if new and self.access.may_change:
            response.set_cookie(
                COOKIE, cookie, path=self.cookie_path, httponly=True, samesite="strict", secure=self.is_secure
            )
        return response

    @property
    def cookie_path(self) -> str:
        return self.request.scope.get("root_path", "") or "/"

    @property
    def is_secure(self) -> bool:
        return bool(self.request.scope.get("scheme") == "https")

    def back(self, url: str) -> Response:
        """Redirect to a page after a change."""
        return RedirectResponse(url, 303)

    def done(self, url: str, outcome: str, text: str) -> Response:
        """The same with a notice about the outcome, which only this actor can see."""
        number = self.board.notices.keep(self.access.actor, outcome, text)
        return self.back(f"{url}{'&' if '?' in url else '?'}done={number}")
