"""Who may read and who may change: the gate that every request passes first.

Promise: a reader can never change anything; a change comes from this page (same origin, with its CSRF token), by POST and
with a reason. Not promised: that `authorize` identifies the visitor correctly; that is up to the host application.
"""

import hashlib
import hmac
import inspect
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from raceproof.ops.web.forms import one, read_form

COOKIE = "raceproof_page"
FIELD = "csrf"
LONGEST_NAME = 200
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_HOST = ("*",)
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Access:
    """The visitor's name for the audit, and whether they may make changes."""

    actor: str
    may_change: bool = False


Authorize = Callable[[Request], Access | Awaitable[Access | None] | None]
"""Given a request: the visitor's access, or None to deny it."""

ANONYMOUS = Access("anonymous")


class Gate:
    """Admits requests, and issues the tokens of forms."""

    def __init__(
        self,
        authorize: Authorize | None,
        secret: str | bytes | None = None,
        hosts: Iterable[str] | None = None,
        origins: Iterable[str] = (),
    ) -> None:
        self._authorize = authorize
        self._secret = secret.encode() if isinstance(secret, str) else secret or secrets.token_bytes(32)
        if hosts is None:
            # without authorize, answer only to host names that another site cannot point at this machine
            hosts = LOOPBACK if authorize is None else ANY_HOST
        names = {host.lower().rstrip(".") for host in hosts}
        self._hosts = None if "*" in names else names
        self._origins = frozenset(origins)

    async def admit(self, request: Request, changes: bool) -> Access:
        """The visitor's access; raises the HTTP error to answer with if the request is refused."""
        self.check_host(request)
        access = await self._who(request)
        if not changes:
            return access
        if request.method != "POST":
            raise HTTPException(405, "changes must be made by POST", headers={"Allow": "POST"})
        if not access.may_change:
            raise HTTPException(403, "you have read-only access")
        self.check_origin(request)
        request.state.form = await read_form(request)
        if not self._is_ours(request, access, one(request.state.form, FIELD)):
            raise HTTPException(403, "the form is stale or from another page: reload the page and try again")
        return access

    async def _who(self, request: Request) -> Access:
        if self._authorize is None:
            return ANONYMOUS
        answer = self._authorize(request)
        access = await answer if inspect.isawaitable(answer) else answer
        if access is None:
            raise HTTPException(401, "you have no access to this dashboard")
        return Access(access.actor[:LONGEST_NAME], access.may_change)

    def check_host(self, request: Request) -> None:
        """Refuse host names that another site has pointed at this machine (DNS rebinding)."""
        given = _HOST.fullmatch(request.headers.get("host", "").lower())
        if given is None:
            raise HTTPException(400, "the Host header must be a host name")
        if self._hosts is None:
            return
        name = given["name"].strip("[]").rstrip(".")
        if name not in self._hosts:
            raise HTTPException(
                421,
                f"unknown host name {name[:100]}: add it to hosts= of the dashboard, or pass --name to raceproof web",
            )

    def check_origin(self, request: Request) -> None:
        """Require Sec-Fetch-Site or Origin, and refuse a request if either names another site."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None and site != "same-origin":
            raise HTTPException(403, "the request comes from another page")
        if origin is not None and origin not in self._origins:
            host = request.headers.get("host", "")
            if not host or _netloc(origin) != host.lower():
                raise HTTPException(403, "the request comes from another page")
        if site is None and origin is None:
            raise HTTPException(403, "the request must have a Sec-Fetch-Site or an Origin header")

    def token(self, page: str, access: Access) -> str:
        """The CSRF token for the forms of one browser and actor."""
        return hmac.new(self._secret, f"{page}\0{access.actor}".encode(), hashlib.sha256).hexdigest()

    def _is_ours(self, request: Request, access: Access, given: str) -> bool:
        page = request.cookies.get(COOKIE, "")
        return bool(page) and hmac.compare_digest(self.token(page, access).encode(), given.encode())


def _netloc(origin: str) -> str | None:
    """Host and port of an origin; None if it is not one."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def page_cookie(request: Request) -> tuple[str, bool]:
    """The random cookie of this browser, and whether it is new."""
    found = request.cookies.get(COOKIE, "")
    return (found, False) if len(found) == 43 else (secrets.token_urlsafe(32), True)
