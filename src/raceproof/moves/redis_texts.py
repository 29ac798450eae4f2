"""How keys, statuses and values stand in Redis and Valkey, which keep texts, and come back from there, as bytes."""

import re
from datetime import datetime
from enum import Enum
from typing import Any

from raceproof.errors import CallError
from raceproof.moves.request import KeyParts
from raceproof.spec import Spec

_LONGEST_FENCE = 40
"""Digits; a counted fence has at most 19."""
_TAKES_NO_WRITES = re.compile(
    r"(?:^|[\s-])(READONLY|OOM|MISCONF|NOREPLICAS|LOADING|MASTERDOWN|CLUSTERDOWN|BUSY)(?:\s|$)"
)
_WHAT_TO_DO = {
    "READONLY": "this server is a replica; connect to the primary",
    "OOM": "it is out of memory; raise maxmemory or free some, and keep maxmemory-policy at noeviction",
    "MISCONF": "it cannot save to its disk; see its log",
    "NOREPLICAS": "fewer replicas are connected than min-replicas-to-write wants",
    "BUSY": "a script of another client blocks it",
}


def takes_no_writes(error: object) -> str | None:
    """What to do about an error that says nothing of the row: the whole store takes no writes now."""
    found = _TAKES_NO_WRITES.search(str(error))
    return None if found is None else _WHAT_TO_DO.get(found[1], "it is not ready yet")


def text_of(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def fence_of_text(value: Any) -> Any:
    """A fence as a number where it is one that was counted; any other text is returned as it stands in the row."""
    text = text_of(value)
    # digits of other alphabets are decimal too, and int() refuses more than 4300 of them
    counted = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _LONGEST_FENCE
    return int(text) if counted else text


def field_text(column: str, value: Any) -> str:
    """A value as a hash field: Redis keeps texts."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bytes | bytearray | list | dict | tuple | set):
        raise CallError(
            f"column {column!r}: a hash field of Redis keeps text and numbers, not {type(value).__name__}"
        )
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        value.encode()  # half a character would be escaped in JSON, and come out as something else
    return value.isoformat() if isinstance(value, datetime) else str(value)


def status_of_reply(spec: Spec[Any], reply: Any) -> Any:
    """A status as the declaration knows it, or, if it does not, its text."""
    if isinstance(reply, bytes) and (known := spec.status_of_bytes.get(reply)) is not None:
        return known
    text = text_of(reply)
    return spec.status_of.get(text, text)


def key_of_member(spec: Spec[Any], text: str, tenant: Any) -> Any:
    """The key that a text stands for, as the caller writes it; None if it is not one, or of another tenant."""
    if spec.plain_key:
        return text
    found = parts_of_text(spec, text)
    if len(found) != len(spec.key_columns) or (spec.tenant and found[0] != str(tenant)):
        return None
    own = found[1:] if spec.tenant else found
    return own if len(own) > 1 else own[0]


def parts_of_text(spec: Spec[Any], text: str) -> KeyParts:
    return tuple(_unescape(part) for part in text.split(":")) if len(spec.key_columns) > 1 else (text,)


def _unescape(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")
