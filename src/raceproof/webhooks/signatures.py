"""The signature schemes. All of them look at the raw bytes, compare in constant time, and try every signature listed
with every secret given, so that a secret can be replaced while requests arrive: give the new one and the old one.

A scheme without a usable secret is not constructed. Where a scheme signs a timestamp, it must be within 300 seconds of
`now`. A scheme without one cannot detect a replay: that is left to the inbox, which knows the ids of 30 days.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable
from typing import Literal

from raceproof.kernel.errors import DeclarationError
from raceproof.webhooks.headers import AnyHeaders, headers_of
from raceproof.webhooks.scheme import MALFORMED, MISMATCH, MISSING, VERIFIED, Rejected, Verified, fresh, keys_of
from raceproof.webhooks.secret import Secret

Algorithm = Literal["sha1", "sha256", "sha384", "sha512"]
Encoding = Literal["hex", "base64"]
Signed = Callable[[bytes, str], bytes | None]
"""The bytes that a signature covers, made of the body and the timestamp; None if the body does not have them."""

_SHORTEST = 16
_TELEGRAM = re.compile(r"[A-Za-z0-9_-]{1,256}")
_HEADER = re.compile(r"[A-Za-z0-9_-]+")
_LISTED = re.compile(r"[,\s]+")


class Unsigned:
    """Nothing is verified: anybody who knows the address can send. Has to be written out to be had."""

    private: frozenset[str] = frozenset()

    def verify(self, headers: AnyHeaders, body: bytes, now: float) -> Verified | Rejected:
        return VERIFIED


class StandardWebhooks:
    """https://www.standardwebhooks.com: `webhook-id`, `webhook-timestamp` and a list of `v1,…` in `webhook-signature`.

    Secrets are base64, with or without `whsec_`, of at least 24 bytes. The id is signed and becomes the event id.
    """

    private = frozenset({"webhook-signature"})

    def __init__(self, *secrets: str | Secret) -> None:
        given = keys_of("StandardWebhooks", secrets, 1)
        self._keys = keys_of("StandardWebhooks", tuple(_from_base64(key) for key in given), 24)

    def verify(self, headers: AnyHeaders, body: bytes, now: float) -> Verified | Rejected:
        headers = headers_of(headers)
        event_id = headers.get("webhook-id")
        timestamp = headers.get("webhook-timestamp")
        listed = headers.get("webhook-signature")
        if not event_id or not timestamp or not listed:
            return MISSING
        # a dot in the id would let the border between id, timestamp and body be moved
        if "." in event_id or not (event_id.isascii() and event_id.isprintable() and listed.isascii()):
            return MALFORMED
        if bad := fresh(timestamp, now):
            return bad
        signatures = [one[3:].encode() for one in listed.split() if one.startswith("v1,")]
        message = b"%b.%b.%b" % (event_id.encode(), timestamp.encode(), body)
        if _matches(self._keys, message, "sha256", "base64", signatures):
            return Verified(event_id)
        return MISMATCH


class TelegramSecret:
    """The `secret_token` of Telegram's setWebhook, which comes back in `X-Telegram-Bot-Api-Secret-Token`.

    It does not cover the body, and no timestamp either: whoever has seen one request can make others.
    """

    private = frozenset({"x-telegram-bot-api-secret-token"})

    def __init__(self, *secrets: str | Secret) -> None:
        self._keys = keys_of("TelegramSecret", secrets, _SHORTEST)
        if not all(_TELEGRAM.fullmatch(key.reveal_bytes().decode("latin-1")) for key in self._keys):
            raise DeclarationError(
                "a secret of TelegramSecret is not 1 to 256 of A-Z a-z 0-9 _ -, as Telegram wants it"
            )

    def verify(self, headers: AnyHeaders, body: bytes, now: float) -> Verified | Rejected:
        headers = headers_of(headers)
        token = headers.get("x-telegram-bot-api-secret-token")
        if not token:
            return MISSING
        if not token.isascii():
            return MALFORMED
        given = token.encode()
        for key in self._keys:
            if hmac.compare_digest(key.reveal_bytes(), given):
                return VERIFIED
        return MISMATCH


class Hmac:
    """An HMAC over the body in a header of your choice; for a scheme that has no name here.

    `header` holds the signature, or several with commas or spaces between, each after `prefix`. With `signature_field` it
    holds `name=value` pairs instead, as Stripe's `t=…,v1=…`. A timestamp comes from `timestamp_header` or
    `timestamp_field`, and then it has to be signed too. `signed` says what the signature covers: a text with `{body}` and
    `{timestamp}`, or a function of the body and the timestamp that returns the bytes, or None if the body has not what they
    are made of.
    """

    def __init__(
        self,
        *secrets: str | Secret,
        header: str,
        algorithm: Algorithm = "sha256",
        encoding: Encoding = "hex",
        prefix: str = "",
        signature_field: str | None = None,
        timestamp_field: str | None = None,
        timestamp_header: str | None = None,
        signed: str | Signed | None = None,
    ) -> None:
        self._keys = keys_of("Hmac", secrets, _SHORTEST)
        if algorithm not in ("sha1", "sha256", "sha384", "sha512"):
            raise DeclarationError(f"Hmac does not know the algorithm {algorithm!r}")
        if encoding not in ("hex", "base64"):
            raise DeclarationError(f"Hmac does not know the encoding {encoding!r}")
        for name in (header, timestamp_header):
            if name is not None and not _HEADER.fullmatch(name):
                raise DeclarationError(f"{name!r} is not the name of a header")
        if timestamp_field is not None and (signature_field is None or timestamp_header is not None):
            raise DeclarationError("timestamp_field goes with signature_field, and not with timestamp_header")
        timed = timestamp_field is not None or timestamp_header is not None
        if signed is None:
            signed = "{timestamp}.{body}" if timed else "{body}"
        if isinstance(signed, str) and (signed.count("{body}") != 1 or signed.count("{timestamp}") != int(timed)):
            # a timestamp that is not signed can be rewritten by whoever replays the request
            raise DeclarationError(f"signed={signed!r} must have {{body}} once, and {{timestamp}} if there is one")
        self._header = header.lower()
        self._algorithm = algorithm
        self._encoding: Encoding = encoding
        self._prefix = prefix
        self._signature_field = signature_field
        self._timestamp_field = timestamp_field
        self._timestamp_header = timestamp_header.lower() if timestamp_header else None
        self._timed = timed
        self._signed = _filled(signed) if isinstance(signed, str) else signed
        self.private = frozenset({self._header})

    def verify(self, headers: AnyHeaders, body: bytes, now: float) -> Verified | Rejected:
        headers = headers_of(headers)
        listed = headers.get(self._header)
        if not listed:
            return MISSING
        if not listed.isascii():
            return MALFORMED
        timestamp = headers.get(self._timestamp_header) if self._timestamp_header else None
        if self._signature_field is not None:
            fields = [part.strip().partition("=") for part in listed.split(",")]
            signatures = [value for name, _, value in fields if name == self._signature_field]
            if self._timestamp_field is not None:
                timestamps = [value for name, _, value in fields if name == self._timestamp_field]
                if len(timestamps) > 1:
                    return MALFORMED
                timestamp = timestamps[0] if timestamps else None
        else:
            signatures = _LISTED.split(listed)
        if self._timed:
            if not timestamp:
                return MISSING
            if bad := fresh(timestamp, now):
                return bad
        message = self._signed(body, timestamp or "")
        if message is None:
            return MALFORMED
        if _matches(self._keys, message, self._algorithm, self._encoding, self._bare(signatures)):
            return VERIFIED
        return MISMATCH

    def _bare(self, signatures: Iterable[str]) -> list[bytes]:
        prefix, skip = self._prefix, len(self._prefix)
        return [one[skip:].encode() for one in signatures if one.startswith(prefix)]


def _filled(template: str) -> Signed:
    """What a text with `{body}` and perhaps `{timestamp}` stands for."""
    before, after = template.split("{body}")
    if "{timestamp}" in template:
        return lambda body, timestamp: (
            before.replace("{timestamp}", timestamp).encode() + body + after.replace("{timestamp}", timestamp).encode()
        )
    if before or after:
        return lambda body, timestamp: before.encode() + body + after.encode()
    return lambda body, timestamp: body


def _matches(
    keys: Iterable[Secret], message: bytes, algorithm: str, encoding: Encoding, signatures: list[bytes]
) -> bool:
    """Does any signature fit any key? Hexadecimal digits may be upper case, everything else must be to the letter."""
    in_hex = encoding == "hex"
    if in_hex:
        signatures = [signature.lower() for signature in signatures]
    for key in keys:
        digest = hmac.digest(key.reveal_bytes(), message, algorithm)
        expected = digest.hex().encode() if in_hex else base64.b64encode(digest)
        for signature in signatures:
            if hmac.compare_digest(expected, signature):
                return True
    return False


def _from_base64(key: Secret) -> Secret:
    try:
        return Secret(base64.b64decode(key.reveal_bytes().removeprefix(b"whsec_"), validate=True))
    except binascii.Error:
        raise DeclarationError("a secret of StandardWebhooks is not base64, with or without whsec_ before it") from None
