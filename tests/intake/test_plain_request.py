"""What is read as a plain request is what aiohttp's parser reads of the same bytes; all else is left to it."""

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from raceproof.intake import plain_request as module
from raceproof.intake.plain_request import PlainRequest
from tests.intake.fix_served import post
from tests.intake.fix_unhurried import unhurried

LINE = "POST /events HTTP/1.1"
PLAIN = post(b'{"a": 1}', "Content-Type: application/json", "X-Signature:   abc  ", "Accept: */*")


def plain_request(data: bytes) -> PlainRequest | None:
    return module.plain_request(data, {LINE})


def test_a_plain_request_is_read() -> None:
    request = plain_request(PLAIN)
    assert request is not None
    assert (request.line, request.body) == (LINE, b'{"a": 1}')
    assert request.headers == {
        "host": "localhost",
        "content-length": "8",
        "content-type": "application/json",
        "x-signature": "abc",
        "accept": "*/*",
    }


UNUSUAL = {
    "nothing": b"",
    "half of the head": PLAIN[:40],
    "half of the body": PLAIN[:-1],
    "more than one": PLAIN + PLAIN,
    "one byte more": PLAIN + b"\n",
    "no length": PLAIN.replace(b"Content-Length: 8\r\n", b""),
    "a length that is no number": PLAIN.replace(b"Length: 8", b"Length: +8"),
    "another digit": PLAIN.replace(b"Length: 8", "Length: ٨".encode()),
    "a length in two": post(b"{}", "Content-Length: 2"),
    "chunks": PLAIN.replace(b"Accept: */*", b"Transfer-Encoding: chunked"),
    "an expectation": post(b"{}", "Expect: 100-continue"),
    "an upgrade": post(b"{}", "Connection: Upgrade", "Upgrade: websocket"),
    "a connection to be closed": post(b"{}", "Connection: close"),
    "a header twice": post(b"{}", "X-A: 1", "x-a: 2"),
    "a folded header": post(b"{}", "X-A: 1\r\n and more"),
    "a name with a space": post(b"{}", "X-A : 1"),
    "a name with nothing": post(b"{}", ": 1"),
    "a line without a colon": post(b"{}", "nonsense"),
    "a bare return": post(b"{}", "X-A: 1\rX-B: 2"),
    "a bare line feed": post(b"{}", "X-A: 1\nX-B: 2"),
    "a NUL": post(b"{}", "X-A: 1\0"),
    "a tab": post(b"{}", "X-A:\t1"),
    "other bytes than ASCII": post(b"{}", "X-A: ä"),
    "no host": PLAIN.replace(b"Host: localhost\r\n", b""),
    "a long head": post(b"{}", "X-A: " + "x" * 9000),
    "many headers": post(b"{}", *(f"X-{number}: 1" for number in range(70))),
    "another path": PLAIN.replace(b"/events", b"/event"),
    "another method": PLAIN.replace(b"POST", b"PUT"),
    "another version": PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "two spaces in the line": PLAIN.replace(b"POST ", b"POST  "),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_whatever_is_unusual_is_left_to_others(what: str) -> None:
    assert plain_request(UNUSUAL[what]) is None


def test_of_all_names_that_were_ever_sent_only_some_are_remembered() -> None:
    """A sender that invents names does not fill the memory, and is read all the same."""
    for number in range(2000):
        request = plain_request(post(b"{}", f"X-Invented-{number}: 1"))
        assert request is not None
        assert request.headers[f"x-invented-{number}"] == "1"
    assert len(module._names) <= 256


def read_by_aiohttp(data: bytes) -> list[tuple[str, dict[str, str], bytes]]:
    """The requests that aiohttp's parser finds: line, headers by lower-case name, body; of bad ones none."""
    loop = asyncio.new_event_loop()
    try:
        parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16, max_line_size=8190, max_field_size=8190)
        try:
            found, upgraded, rest = parser.feed_data(data)
        except Exception:
            return []
        if upgraded or rest:
            return []
        return [
            (
                f"{message.method} {message.path} HTTP/{message.version.major}.{message.version.minor}",
                {name.lower(): value for name, value in message.headers.items()},
                b"".join(payload._buffer) if payload.is_eof() else b"not whole",
            )
            for message, payload in found
        ]
    finally:
        loop.close()


def test_the_comparison_compares() -> None:
    """A request that both read, and one that aiohttp refuses."""
    assert read_by_aiohttp(post(b"{}")) == [(LINE, {"host": "localhost", "content-length": "2"}, b"{}")]
    assert read_by_aiohttp(post(b"{}", "X-A : 1")) == []


_PIECES = st.sampled_from(
    (
        *(
            b"\r\n",
            b"\r",
            b"\n",
            b":",
            b" ",
            b"\t",
            b"\0",
            b"\xff",
            b"\x0b",
            b"\x1c",
            b"\x85",
            b"{}",
            b"\r\n\r\n",
        ),
        *(b"X-A: 1", b"Content-Length: 2", b"content-length:2", b"Host: h", b"Transfer-Encoding: chunked"),
        *(b"Connection: keep-alive", b"Connection: close", b"Expect: x", b"Upgrade: x"),
        *(b"POST /events HTTP/1.1", b"GET / HTTP/1.0"),
    )
)


@unhurried
@given(st.lists(_PIECES, max_size=14), st.integers(0, 6), st.integers(0, 200))
def test_what_is_read_here_aiohttp_reads_alike(pieces: list[bytes], drop: int, place: int) -> None:
    """Pieces of requests put together at random, and into a good one: whatever is read here is read there too."""
    inserted = PLAIN[:place] + b"".join(pieces) + PLAIN[place + drop :]
    head = b"POST /events HTTP/1.1\r\nHost: h\r\n" + b"".join(pieces)
    for data in (inserted, head, head + b"\r\nContent-Length: 2\r\n\r\n{}"):
        request = plain_request(data)
        if request is not None:
            assert read_by_aiohttp(data) == [tuple(request)], data
