"""What an endpoint answers, and why: one table from the reason to the reply.

A sender sees the reply alone. Every signature that does not hold gets the very same one; the reason is for counters, and
there are few of them, so that they can be labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class Reason(StrEnum):
    """Why a request got its reply."""

    RECEIVED = "received"
    SIGNATURE_MISSING = "signature_missing"
    SIGNATURE_MALFORMED = "signature_malformed"
    SIGNATURE_STALE = "signature_stale"
    SIGNATURE_MISMATCH = "signature_mismatch"
    BAD_JSON = "bad_json"
    NO_EVENT_ID = "no_event_id"
    NO_ORDERING_KEY = "no_ordering_key"
    UNREADABLE = "unreadable"
    TOO_SLOW = "too_slow"
    TOO_BIG = "too_big"
    ENCODED = "encoded"
    BUSY = "busy"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer. `close`: the rest of the request was not read, so the connection is of no further use."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    close: bool = False


def _said(status: int, text: str, *headers: tuple[str, str], close: bool = False) -> Reply:
    plain = ("content-type", "text/plain; charset=utf-8")
    return Reply(status, f"{text}\n".encode(), (plain, *headers), close)


OK = Reply(200)
UNAUTHORIZED = _said(401, "not authorized")

REPLIES: Mapping[str, Reply] = MappingProxyType(
    {
        Reason.RECEIVED: OK,
        Reason.SIGNATURE_MISSING: UNAUTHORIZED,
        Reason.SIGNATURE_MALFORMED: UNAUTHORIZED,
        Reason.SIGNATURE_STALE: UNAUTHORIZED,
        Reason.SIGNATURE_MISMATCH: UNAUTHORIZED,
        Reason.BAD_JSON: _said(400, "the body is not JSON that we accept"),
        Reason.NO_EVENT_ID: _said(400, "the event has no id"),
        Reason.NO_ORDERING_KEY: _said(400, "the event has no ordering key"),
        Reason.UNREADABLE: _said(400, "the body cannot be read", close=True),
        Reason.TOO_SLOW: _said(408, "the body took too long", close=True),
        Reason.TOO_BIG: _said(413, "the body is too big", close=True),
        Reason.ENCODED: _said(415, "a body with a content encoding is not accepted", close=True),
        Reason.BUSY: _said(503, "busy", ("retry-after", "1"), close=True),
        Reason.FAILED: _said(503, "not stored", ("retry-after", "5")),
    }
)
