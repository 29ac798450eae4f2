"""Telegram as a login sees it: a client for each attempt, by Telethon; see `simulated` for the one without a network."""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar, cast

from qrlogin.settings import Settings
from qrlogin.tl import QRLogin, StringSession, TelegramClient, functions, srp

T = TypeVar("T")

ANSWER_SECONDS = 20.0
"""Seconds for one answer of Telegram's; Telethon itself would wait for ever."""
FLOOD_SECONDS = 5
"""The longest wait that Telegram may ask for and that Telethon sits out by itself."""
CODE_SECONDS = 20.0
"""How long a new code is shown if by the clocks it has expired already: they must be wrong."""


class Silent(Exception):
    """Telegram did not answer in time."""


class Client(Protocol):
    """What a login needs of a Telethon client."""

    async def connect(self) -> None: ...
    async def disconnect(self) -> None: ...
    async def qr_login(self) -> QRLogin: ...
    async def log_out(self) -> bool: ...
    async def _on_login(self, user: Any) -> Any: ...
    async def _switch_dc(self, dc_id: int) -> Any: ...
    async def __call__(self, request: Any) -> Any: ...
    def add_event_handler(self, handler: Any, event: Any) -> None: ...
    def remove_event_handler(self, handler: Any) -> Any: ...

    session: Any
    _sender: Any


class ClientMaker(Protocol):
    """Makes a client: a new one, or one with a session that was saved."""

    def __call__(self, session: str = "") -> Client: ...


async def answered(call: Awaitable[T], seconds: float) -> T:
    """What Telegram answers, within this many seconds and never more than ANSWER_SECONDS; else `Silent`."""
    try:
        async with asyncio.timeout(max(0.0, min(seconds, ANSWER_SECONDS))):
            return await call
    except TimeoutError:
        raise Silent from None


def seconds_of_code(client: Client, code: QRLogin) -> float:
    """How long a code that was just made is good, by Telegram's clock, as Telethon knows it from the connection."""
    offset = client._sender._state.time_offset
    left = (code.expires - datetime.now(UTC)).total_seconds() - float(offset)
    return left if left > 0 else CODE_SECONDS


async def sign_in(client: Client, password: str, seconds: float) -> Any:
    """As Telethon's own `sign_in`, with the proof made in a thread: it takes the better part of a second."""
    asked = await answered(client(functions.account.GetPasswordRequest()), seconds)
    proof = await asyncio.to_thread(srp.compute_check, asked, password)
    told = await answered(client(functions.auth.CheckPasswordRequest(proof)), seconds)
    return await client._on_login(told.user)


def telethon_clients(settings: Settings) -> ClientMaker:
    """Clients of the real Telegram."""
    if settings.api_id is None or settings.api_hash is None:
        raise ValueError("the real Telegram needs QRLOGIN_API_ID and QRLOGIN_API_HASH")
    api_id, api_hash = settings.api_id, settings.api_hash.get_secret_value()
    quiet = logging.getLogger("telethon")
    quiet.setLevel(logging.ERROR)  # its debug output carries requests, and with them tokens

    def make(session: str = "") -> Client:
        made = TelegramClient(
            StringSession(session),
            api_id,
            api_hash,
            device_model="qrlogin",
            base_logger=quiet,
            receive_updates=True,
            flood_sleep_threshold=FLOOD_SECONDS,
        )
        return cast(Client, made)

    return make
