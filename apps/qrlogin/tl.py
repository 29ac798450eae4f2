"""What is used of Telethon, in one place: it comes without types."""
# mypy: disable-error-code="import-untyped"

from telethon import TelegramClient, events
from telethon import password as srp
from telethon.client.auth import AuthMethods
from telethon.crypto import AuthKey
from telethon.errors import (
    FloodWaitError,
    PasswordHashInvalidError,
    RPCError,
    SessionPasswordNeededError,
    rpc_message_to_error,
)
from telethon.extensions import BinaryReader
from telethon.sessions import StringSession
from telethon.tl import functions, types
from telethon.tl.custom import QRLogin

__all__ = [
    "AuthKey",
    "AuthMethods",
    "BinaryReader",
    "FloodWaitError",
    "PasswordHashInvalidError",
    "QRLogin",
    "RPCError",
    "SessionPasswordNeededError",
    "StringSession",
    "TelegramClient",
    "events",
    "functions",
    "rpc_message_to_error",
    "srp",
    "types",
]
