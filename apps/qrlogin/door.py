"""Who may start a login, who may see one, and how often."""

import secrets
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from pydantic import StringConstraints

from appkit.access import same_origin
from qrlogin.identity import SESSION_ID, SessionId, Signer
from qrlogin.limits import Limit
from qrlogin.miniapp import user_of
from qrlogin.settings import Settings

COOKIE = "qrlogin"
SessionText = Annotated[str, StringConstraints(pattern=f"^{SESSION_ID}$")]


@dataclass(frozen=True, slots=True)
class Door:
    """Who may do what, and how often."""

    settings: Settings
    signer: Signer
    of_user: Limit
    of_address: Limit
    passwords: Limit

    @property
    def open(self) -> bool:
        """Whether anybody may start a login: only where nobody else can come."""
        return self.settings.token is None and self.settings.bot_token is None

    def vouched(self, request: Request) -> bool:
        """Whether this is our own backend, with the token."""
        token = self.settings.token
        return token is not None and _same(_bearer(request), token.get_secret_value())

    def starter(self, request: Request, wanted: str | None, account: int | None) -> str:
        """The user for whom this request may start a login; a Mini App only for the account that Telegram signed."""
        bot_token = self.settings.bot_token
        if self.vouched(request):
            return _named(wanted)
        told = request.headers.get("x-telegram-init-data")
        if bot_token is not None and told is not None:
            user = user_of(told, bot_token.get_secret_value())
            if user is not None and wanted in (None, user) and account in (None, int(user)):
                return user
        if self.open:
            return _named(wanted)
        raise HTTPException(401, "a token, or the data of a Mini App, is needed")

    def enter(self, session_id: SessionText, request: Request) -> SessionId:
        """The attempt in the path, for those who have its token; the same answer whether there is such an attempt or not."""
        wanted = SessionId.parsed(session_id)
        told = _bearer(request) or request.cookies.get(COOKIE, "")
        if not self.signer.accepts(wanted, told):
            raise HTTPException(401, "the token of this attempt is needed")
        return wanted

    def check_origin(self, request: Request) -> None:
        """403 for a page of another origin. A proxy may have changed our Host: then QRLOGIN_URL says what it was."""
        ours = urlsplit(self.settings.url)
        origin = None if "sec-fetch-site" in request.headers else request.headers.get("origin")
        if not same_origin(request) and (not ours.netloc or origin != f"{ours.scheme}://{ours.netloc}"):
            raise HTTPException(403, "a page of another origin may not change anything here")

    def count_start(self, request: Request, user_id: str) -> None:
        """Refuse too many starts of one user, or from one address; a backend has one address for all its users."""
        address = request.client.host if request.client else ""
        here = self.vouched(request) or self.of_address.allows(address)
        if not (here and self.of_user.allows(user_id)):
            raise HTTPException(429, "too many logins were started; wait a minute", {"Retry-After": "60"})


def _named(user_id: str | None) -> str:
    if user_id is None:
        raise HTTPException(422, "user_id is needed")
    return user_id


def _bearer(request: Request) -> str:
    kind, _, told = request.headers.get("authorization", "").partition(" ")
    return told if kind.lower() == "bearer" else ""


def _same(told: str, wanted: str) -> bool:
    return secrets.compare_digest(told.encode(), wanted.encode())
