"""Who may look and who may change: the one gate that every request passes before anything else is done with it.

Promise: a reader can never change anything; a change comes from this page (same origin and a token that only it has), by
POST, with a reason. Not promised: that `authorize` knows who is there; that is the host's own part.
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
    """Who is there, as the audit will call them, and whether they may change things."""

    actor: str
    may_change: bool = False


Authorize = Callable[[Request], Access | Awaitable[Access | None] | None]
"""Given a request: who it is, or None for somebody who may not even look."""

NOBODY = Access("anonymous")


class Gate:
    """Decides about each request, and makes the tokens of its forms."""

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
            # who looks without being asked who they are must at least come by a name that nobody else can give this machine
            hosts = LOOPBACK if authorize is None else ANY_HOST
        names = {host.lower().rstrip(".") for host in hosts}
        self._hosts = None if "*" in names else names
        self._origins = frozenset(origins)

    async def admit(self, request: Request, changes: bool) -> Access:
        """Who it is; raises what the request is to be answered with if it may not be."""
        self.check_host(request)
        access = await self._who(request)
        if not changes:
            return access
        if request.method != "POST":
            raise HTTPException(405, "changes are made by POST", headers={"Allow": "POST"})
        if not access.may_change:
            raise HTTPException(403, "you may look here, and not change anything")
        self.check_origin(request)
        request.state.form = await read_form(request)
        if not self._is_ours(request, access, one(request.state.form, FIELD)):
            raise HTTPException(403, "the form is not from this page, or too old: load the page again")
        return access

    async def _who(self, request: Request) -> Access:
        if self._authorize is None:
            return NOBODY
        told = self._authorize(request)
        access = await told if inspect.isawaitable(told) else told
        if access is None:
            raise HTTPException(401, "you may not look here")
        return Access(access.actor[:LONGEST_NAME], access.may_change)

    def check_host(self, request: Request) -> None:
        """A name that somebody else has pointed at this machine is not a name of this page (DNS rebinding)."""
        given = _HOST.fullmatch(request.headers.get("host", "").lower())
        if given is None:
            raise HTTPException(400, "the Host header is not a host name")
        if self._hosts is None:
            return
        name = given["name"].strip("[]").rstrip(".")
        if name not in self._hosts:
            raise HTTPException(
                421,
                f"this page does not answer to the host name {name[:100]}; to allow it, add it to hosts= of the dashboard "
                "or say --name to raceproof web",
            )

    def check_origin(self, request: Request) -> None:
        """At least one of the two headers by which a browser says where a request comes from, and none against it."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None and site != "same-origin":
            raise HTTPException(403, "the request comes from another page")
        if origin is not None and origin not in self._origins:
            host = request.headers.get("host", "")
            if not host or _netloc(origin) != host.lower():
                raise HTTPException(403, "the request comes from another page")
        if site is None and origin is None:
            raise HTTPException(403, "the request does not say which page it comes from")

    def token(self, page: str, access: Access) -> str:
        """What a form of this person's browser carries; it is worth nothing in another."""
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
    """The random word of this browser, and whether it is new."""
    found = request.cookies.get(COOKIE, "")
    return (found, False) if len(found) == 43 else (secrets.token_urlsafe(32), True)
