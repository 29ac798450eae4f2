"""A phone on which somebody is logged in, and with which they scan codes."""

import base64
import json
import secrets
from typing import Any

from qrlogin.simulated.client import Line
from qrlogin.simulated.frames import Kind
from qrlogin.tl import functions, types

PREFIX = "tg://login?token="


class ScanRefused(Exception):
    """Telegram did not take the code; the message is Telegram's own, as AUTH_TOKEN_EXPIRED."""


class Phone:
    """The phone of one account; with a password, logging in elsewhere asks for it."""

    def __init__(self, line: Line, account_id: int, name: str = "Ann", password: str | None = None) -> None:
        self._line = line
        self._auth = secrets.randbits(63)
        self._told = {"id": account_id, "name": name, "password": password}
        self._introduced = False

    async def scan(self, url: str) -> None:
        """Read a code and confirm it."""
        if not url.startswith(PREFIX):
            raise ScanRefused("that is not a Telegram login code")
        text = url.removeprefix(PREFIX)
        token = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        if not self._introduced:
            await self._line.ask(self._auth, json.dumps(self._told).encode(), Kind.INTRODUCTION)
            self._introduced = True
        told: Any = await self._line.ask(self._auth, bytes(functions.auth.AcceptLoginTokenRequest(token)))
        if isinstance(told, types.RpcError):
            raise ScanRefused(told.error_message)
