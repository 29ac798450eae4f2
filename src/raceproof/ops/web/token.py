"""Access by one token, for `raceproof web`: asked for once on a page, then a session; or sent as Bearer with each request.

Promise: compared in constant time, never shown, never in a URL or a cookie; wrong ones are answered late and counted.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

from starlette.requests import Request

from raceproof.ops.web.access import Access
from raceproof.ops.web.guesses import Guesses, client_of
from raceproof.ops.web.sessions import Sessions

COOKIE = "raceproof_session"


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """Visitors with the token act as `actor`."""

    token: str = field(repr=False)
    actor: str
    may_change: bool = False
    sessions: Sessions = field(default_factory=Sessions, repr=False, compare=False)
    guesses: Guesses = field(default_factory=Guesses, repr=False, compare=False)

    async def __call__(self, request: Request) -> Access | None:
        if self.sessions.knows(request.cookies.get(COOKIE, "")):
            return Access(self.actor, self.may_change)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and await self.accepts(request, given.strip()):
            return Access(self.actor, self.may_change)
        return None

    async def accepts(self, request: Request, token: str) -> bool:
        """Whether this is the token; a wrong one is counted, and raises 429 where there were too many."""
        client = client_of(request)
        self.guesses.admit(client)
        if hmac.compare_digest(_digest(token), _digest(self.token)):
            self.guesses.right(client)
            return True
        await self.guesses.wrong(client)
        return False


def _digest(token: str) -> bytes:
    """Of one length, so that comparing says nothing about the length either."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
