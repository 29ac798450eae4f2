"""What a signature scheme is: from headers and raw bytes to `Verified` or `Rejected`, before anything is parsed.

The reason of a rejection is for a counter. The sender never learns it: all rejections look the same.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from raceproof.kernel.errors import DeclarationError
from raceproof.webhooks.headers import Headers
from raceproof.webhooks.reply import Reason
from raceproof.webhooks.secret import Secret

TOLERANCE = 300
"""Seconds that a signed timestamp may be away from our clock, in either direction."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The request is from whom it should be; `event_id` is the id that the signature covers, where there is one."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The request does not prove where it comes from."""

    reason: str


@runtime_checkable
class Scheme(Protocol):
    """A way to prove where a request comes from. `private` are the headers that must never be stored, in lower case."""

    @property
    def private(self) -> frozenset[str]: ...

    def verify(self, headers: Headers, body: bytes, now: float) -> Verified | Rejected: ...


VERIFIED = Verified()
MISSING = Rejected(Reason.SIGNATURE_MISSING)
MALFORMED = Rejected(Reason.SIGNATURE_MALFORMED)
STALE = Rejected(Reason.SIGNATURE_STALE)
MISMATCH = Rejected(Reason.SIGNATURE_MISMATCH)


def keys_of(scheme: str, secrets: tuple[str | Secret, ...], shortest: int) -> tuple[Secret, ...]:
    """The secrets of a scheme, all of them usable: a scheme that would let anybody in is not constructed."""
    if not secrets:
        raise DeclarationError(f"{scheme} has no secret; write Unsigned() if requests are not to be verified")
    keys = []
    for place, given in enumerate(secrets, 1):
        if not isinstance(given, str | Secret):
            raise DeclarationError(f"secret {place} of {scheme} is a {type(given).__name__}, not a text or a Secret")
        key = given if isinstance(given, Secret) else Secret(given)
        if len(key) < shortest:
            raise DeclarationError(
                f"secret {place} of {scheme} has {len(key)} bytes, and {shortest} is the least;"
                " python -c 'import secrets; print(secrets.token_urlsafe(32))' makes a good one"
            )
        keys.append(key)
    return tuple(keys)


def fresh(timestamp: str, now: float) -> Rejected | None:
    """Is a timestamp of the sender near our clock? Only plain digits count, so that it has one form only."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return MALFORMED
    return None if abs(now - int(timestamp)) <= TOLERANCE else STALE
