"""Telegram as a login sees it: a client for each attempt, by Telethon; see `simulated` for the one without a network."""

import logging
from collections.abc import Callable
from typing import Any, Protocol, cast

from qrlogin.settings import Settings
from qrlogin.tl import QRLogin, StringSession, TelegramClient


class Client(Protocol):
    """What a login needs of a Telethon client."""

    async def connect(self) -> None: ...
    async def disconnect(self) -> None: ...
    async def qr_login(self) -> QRLogin: ...
    async def sign_in(self, *, password: str) -> Any: ...
    async def log_out(self) -> bool: ...
    async def _on_login(self, user: Any) -> Any: ...
    async def _switch_dc(self, dc_id: int) -> Any: ...
    async def __call__(self, request: Any) -> Any: ...
    def add_event_handler(self, handler: Any, event: Any) -> None: ...
    def remove_event_handler(self, handler: Any) -> Any: ...

    session: Any


ClientMaker = Callable[[], Client]


def telethon_clients(settings: Settings) -> ClientMaker:
    """Clients of the real Telegram."""
    if settings.api_id is None or settings.api_hash is None:
        raise ValueError("the real Telegram needs QRLOGIN_API_ID and QRLOGIN_API_HASH")
    api_id, api_hash = settings.api_id, settings.api_hash.get_secret_value()
    quiet = logging.getLogger("telethon")
    quiet.setLevel(logging.ERROR)  # its debug output carries requests, and with them tokens

    def make() -> Client:
        made = TelegramClient(
            StringSession(), api_id, api_hash, device_model="qrlogin", base_logger=quiet, receive_updates=True
        )
        return cast(Client, made)

    return make
