"""The id of an attempt, the account that may scan for it, and the signed token that lets its user see it."""

import base64
import hashlib
import hmac
import re
import secrets
import string
import time
from dataclasses import dataclass

from qrlogin.lifecycle import TOKEN_SECONDS
from raceproof.webhooks import Secret

USER_ID = r"[A-Za-z0-9_-]{1,64}"
SESSION_ID = rf"{USER_ID}:[0-9]{{1,12}}:[a-z0-9]{{8}}"
ANY_ACCOUNT = "any"
CLOCK_SKEW = 300
"""Seconds by which the clocks of two instances may differ."""
_ALPHABET = string.ascii_lowercase + string.digits


class BadSessionId(ValueError):
    """A text that is no id of an attempt."""


@dataclass(frozen=True, slots=True)
class SessionId:
    """`<USER_ID>:<unix>:<8 random>`."""

    user_id: str
    unix: str
    nonce: str

    @classmethod
    def made_for(cls, user_id: str) -> "SessionId":
        """A new one."""
        if not re.fullmatch(USER_ID, user_id):
            raise BadSessionId("a user id is 1 to 64 letters, digits, _ or -")
        nonce = "".join(secrets.choice(_ALPHABET) for _ in range(8))
        return cls(user_id, str(int(time.time())), nonce)

    @classmethod
    def parsed(cls, text: str) -> "SessionId":
        if not re.fullmatch(SESSION_ID, text):
            raise BadSessionId("a session id is <USER_ID>:<unix>:<8 random>")
        return cls(*text.split(":"))

    @property
    def key(self) -> tuple[str, str]:
        """The key of its row, beside the user, who is the tenant."""
        return self.unix, self.nonce

    def __str__(self) -> str:
        return f"{self.user_id}:{self.unix}:{self.nonce}"


class AccountNeeded(ValueError):
    """It is not known which Telegram account this user has."""


def account_of(user_id: str) -> str:
    """The Telegram account of a user whose id is that of the account."""
    if not (user_id.isascii() and user_id.isdigit()):
        raise AccountNeeded("user_id is not a Telegram account id, so account_id is needed")
    return str(int(user_id))


class Signer:
    """Makes and checks tokens of attempts; with several secrets the first one signs and all are accepted.

    A token covers the id, and the id has the time of the start: from it on a token is good for TOKEN_SECONDS.
    """

    def __init__(self, secrets: list[Secret]) -> None:
        if not secrets:
            raise ValueError("tokens need a secret")
        self._secrets = secrets

    def token(self, session_id: SessionId) -> str:
        return self._signature(self._secrets[0], session_id)

    def accepts(self, session_id: SessionId, token: str, now: float | None = None) -> bool:
        """Whether this is the token of the attempt, and not expired."""
        age = (time.time() if now is None else now) - int(session_id.unix)
        told = token.encode(errors="replace")
        fits = [hmac.compare_digest(self._signature(one, session_id).encode(), told) for one in self._secrets]
        return any(fits) and -CLOCK_SKEW < age < TOKEN_SECONDS

    def _signature(self, secret: Secret, session_id: SessionId) -> str:
        made = hmac.digest(secret.reveal_bytes(), f"qrlogin attempt {session_id}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(made).decode().rstrip("=")
