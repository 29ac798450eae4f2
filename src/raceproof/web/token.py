"""Access by one token, for `raceproof web`: asked for once on a page, then kept in a cookie as its hash, or sent as Bearer.

Promise: compared in constant time, never shown, never in a URL.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

from starlette.requests import Request

from raceproof.web.access import Access

COOKIE = "raceproof_token"


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """Whoever has the token is `actor`. Without a token everybody may look, and nobody may change."""

    token: str = field(repr=False)
    actor: str
    may_change: bool = False

    def __call__(self, request: Request) -> Access | None:
        bearer = request.headers.get("authorization", "").partition("Bearer ")[2]
        given = request.cookies.get(COOKIE, "") or (self.cookie(bearer) if bearer else "")
        if not hmac.compare_digest(given.encode(), self.cookie(self.token).encode()):
            return None
        return Access(self.actor, self.may_change)

    def cookie(self, token: str) -> str:
        """What the browser keeps instead of the token."""
        return hmac.new(b"raceproof dashboard", token.encode(), hashlib.sha256).hexdigest()

    def accepts(self, token: str) -> bool:
        return hmac.compare_digest(self.cookie(token).encode(), self.cookie(self.token).encode())
