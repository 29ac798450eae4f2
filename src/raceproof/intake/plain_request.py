"""A whole HTTP/1.1 request that came in one piece, read in a few steps if there is nothing unusual about it.

Whatever is unusual, in the slightest, is nobody's business here and gets None: then it is read by a server's own parser,
from its first byte on. So what is read here must be what every reader of HTTP makes of it: one length, no chunks, each
header once and on one line, names that are tokens, values of printable ASCII.
"""

import re
from collections.abc import Container
from typing import NamedTuple

from raceproof.intake.headers import LoweredDict

_LONGEST_HEAD = 8190
_MOST_HEADERS = 64
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_KNOWN_NAMES = 256
_UNUSUAL = frozenset(("transfer-encoding", "expect", "upgrade", "trailer", "te", "http2-settings"))
_names: dict[str, str] = {}
"""Names of headers that have been looked at, in lower case; senders use the same few."""


class PlainRequest(NamedTuple):
    """The request line as it is, headers by lower-case name, and the body."""

    line: str
    headers: LoweredDict
    body: bytes


def plain_request(data: bytes, lines: Container[str]) -> PlainRequest | None:
    """The request that these bytes are, with one of these request lines; None if they are less, more or anything else."""
    end = data.find(b"\r\n\r\n", 0, _LONGEST_HEAD)
    if end < 0:
        return None
    try:
        line, *fields = str(data[:end], "ascii").split("\r\n")
    except UnicodeDecodeError:
        return None
    if line not in lines or len(fields) > _MOST_HEADERS:
        return None
    headers = LoweredDict()
    for one in fields:
        name, colon, value = one.partition(":")
        known = _names.get(name) or _looked_at(name)
        # of a header that comes twice, readers take the first, the last or both
        if not (known and colon and one.isprintable()) or known in headers:
            return None
        headers[known] = value.strip(" ")
    length = headers.get("content-length", "")
    if not (length.isdecimal() and len(length) < 10 and len(data) == end + 4 + int(length)):
        return None
    if "host" not in headers or not _UNUSUAL.isdisjoint(headers):
        return None
    if headers.get("connection", "keep-alive").lower() != "keep-alive":
        return None
    return PlainRequest(line, headers, data[end + 4 :])


def _looked_at(name: str) -> str | None:
    """The name in lower case, if it is one."""
    if not _TOKEN.fullmatch(name):
        return None
    if len(_names) < _KNOWN_NAMES:
        _names[name] = name.lower()
    return name.lower()
