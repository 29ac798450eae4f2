"""What must not be read by others is sealed: sessions, codes and passwords, with keys that can be rotated.

The first key seals, all of them open. A sealed text says what it is for, so that one cannot be put in another's place.
"""

import json
from dataclasses import dataclass

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from raceproof.webhooks import Secret


class CannotOpen(ValueError):
    """Sealed with a key that is not among ours, or for something else."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A text that only the keys open, and the name of the key that sealed it."""

    key_id: str
    text: str


class Vault:
    """Seals and opens, with named Fernet keys, the newest first."""

    def __init__(self, keys: dict[str, Secret]) -> None:
        if not keys:
            raise ValueError("a vault needs a key")
        self._keys = MultiFernet([Fernet(key.reveal_bytes()) for key in keys.values()])
        self.key_ids = list(keys)

    @property
    def newest(self) -> str:
        """The name of the key that seals."""
        return self.key_ids[0]

    def seal(self, purpose: str, text: str) -> Sealed:
        told = json.dumps([purpose, text]).encode()
        return Sealed(self.newest, self._keys.encrypt(told).decode())

    def open(self, purpose: str, sealed: str) -> str:
        try:
            what, text = json.loads(self._keys.decrypt(sealed.encode()))
        except InvalidToken:
            raise CannotOpen("sealed with a key that is not among QRLOGIN_KEYS") from None
        if what != purpose:
            raise CannotOpen("sealed for something else")
        return str(text)


def parsed_keys(text: str) -> dict[str, Secret]:
    """`name=key,name=key`, the newest first."""
    keys = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, found, key = one.partition("=")
        try:
            Fernet(key.encode())
        except ValueError:
            found = ""
        if not found or not name:
            raise ValueError("keys are name=key,name=key, each key 32 bytes in URL-safe base64")
        keys[name] = Secret(key)
    return keys


def new_key() -> str:
    return Fernet.generate_key().decode()
