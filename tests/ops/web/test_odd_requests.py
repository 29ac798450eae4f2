"""Requests that no browser sends: each is answered with 4xx or as if the odd word were not there, never with 5xx."""

import asyncio
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from raceproof.ops.web.queries.statements import _MAKE, whole_number
from tests.ops.web.fix_shop import Shop, served, visitor

ODD = [
    "²", "１２", "1_000", "-1", "+1", "1e9", "0x10", "9" * 19, "9" * 24, "9" * 5000, "\0", "a\0b", "1-2-3", "[", "\ufeff",
]  # fmt: skip
WORDS = [
    ("/lifecycle", "before"), ("/lifecycle", "status"), ("/lifecycle", "of"), ("/races", "before"), ("/races", "table"),
    ("/audit", "before"), ("/item", "key"), ("/find", "q"), ("/attempts", "owner"), ("/bulk", "move"), ("/leader", "span"),
    ("/delivery", "of"), ("/static/icon.svg", "done"), ("/bulk", "done"),
]  # fmt: skip


async def test_odd_words_in_a_url_are_never_the_servers_fault(any_shop: Shop) -> None:
    async with visitor(any_shop.board()) as client:
        for path, word in WORDS:
            for odd in ODD:
                query: dict[str, Any] = {"of": "Order", word: odd}
                answer = await client.get(f"{path}?{urlencode(query)}")
                assert answer.status_code < 500, (path, word, odd[:30], answer.text[-500:])


@pytest.mark.parametrize("path", ["/races", "/audit", "/lifecycle?of=Line"])
async def test_a_place_that_is_not_one_is_a_bad_request(any_shop: Shop, path: str) -> None:
    """And one that is beyond all places shows the first page."""
    if any_shop.store.dialect == "redis" and path != "/audit":
        path = "/audit"
    joined = "&" if "?" in path else "?"
    async with visitor(any_shop.board()) as client:
        for odd in ("²", "9" * 24, "-1", "x"):
            answer = await client.get(f"{path}{joined}{urlencode({'before': odd})}")
            assert answer.status_code == 400, odd
            assert "before=" in answer.text
        if "of=" not in path:
            assert (await client.get(f"{path}?before={'9' * 19}")).status_code == 200


async def raw(base: str, head: str) -> int:
    """Send what httpx would not, and read the status."""
    url = httpx.URL(base)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(head.encode("latin-1") + b"Connection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("host", ["[", "]", "[::1", "a b", "a:b:c", "evil/", "ü", "", "x" * 300 + "%"])
async def test_a_host_that_is_not_one_is_a_bad_request(small_shop: Shop, host: str) -> None:
    """Also where any host is answered."""
    async with served(small_shop.board()) as base:
        for path in ("/", "/nothing", "/static/icon.svg"):
            assert await raw(base, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n") in (400, 404)
        assert await raw(base, f"GET / HTTP/1.1\r\nHost: {host}\r\n") == 400


@pytest.mark.parametrize("origin", ["http://[", "http://]", "[", "null", "//", "http://127.0.0.1:1]", "ü"])
async def test_an_origin_that_is_not_one_is_another_page(small_shop: Shop, origin: str) -> None:
    async with served(small_shop.board(may_change=True)) as base:
        host = httpx.URL(base).netloc.decode()
        head = f"POST /do/move HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n"
        assert await raw(base, head) == 403


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("numeric", "1e999999999"), ("numeric", "-1E-999999999"), ("numeric", "9" * 5000), ("real", "1e300"),
        ("bigint", "9" * 24), ("bigint", "²"), ("timestamp without time zone", "2026-01-01T00:00:00+00:00"),
    ],
)  # fmt: skip
def test_a_key_that_no_column_can_have_is_refused_before_it_is_sent(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        _MAKE[kind](text)


def test_only_plain_digits_are_a_number() -> None:
    assert [whole_number(text) for text in ("7", 7, "²", "١", "", None, "-1", "9" * 20)] == [
        7,
        7,
        *[None] * 6,
    ]
