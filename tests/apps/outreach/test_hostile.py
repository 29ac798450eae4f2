"""Documents made to hurt: packed in layers, or slow to parse; and feeds that begin with the oldest. Checklist 14."""

import asyncio
import errno
import gzip
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from outreach import feed_reader
from outreach.bounded import TooLarge, unpacked
from outreach.feed_reader import SMALL, FeedReader, feed_from
from outreach.feeds import MOST_EPISODES, NotAFeed, read_feed, read_list, without_tags
from outreach.fetching import Fetcher, NoNetwork, NotFetched, _is_no_network
from outreach.transcribing import plain

MOST = 100_000
PATIENCE = 60.0
"""Seconds for what takes hours if it is not linear."""
HEAD = '<?xml version="1.0"?><rss version="2.0"><channel><title>Show</title>'
FEED = f"{HEAD}<item><title>One</title><guid>1</guid></item></channel></rss>".encode()


def layers(times: int) -> bytes:
    """Some bytes of zeros, gzipped so often."""
    body = bytes(20_000_000)
    for _ in range(times):
        body = gzip.compress(body)
    return body


PAGES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "/plain": ("", lambda: FEED),
    "/gzip": ("gzip", lambda: gzip.compress(FEED)),
    "/deflate": ("deflate", lambda: zlib.compress(FEED)),
    "/raw-deflate": ("deflate", lambda: zlib.compress(FEED)[2:-4]),
    "/bomb": ("gzip", lambda: layers(1)),
    "/bomb-in-bomb": ("gzip, gzip", lambda: layers(2)),
    "/three": ("gzip, gzip, gzip", lambda: layers(3)),
    "/brotli": ("br", lambda: FEED),
    "/lies": ("gzip", lambda: FEED),
    "/half": ("gzip", lambda: gzip.compress(FEED)[:-9]),
    "/inside": ("gzip", lambda: gzip.compress(layers(1))),
    "/large": ("", lambda: b"x" * (MOST + 1)),
}


class _Host(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        coding, body = PAGES[self.path]
        self.send_response(200)
        if coding:
            self.send_header("Content-Encoding", coding)
        self.end_headers()
        self.wfile.write(body())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Host)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["/plain", "/gzip", "/deflate", "/raw-deflate"])
async def test_one_layer_of_compression_is_read(host: str, path: str) -> None:
    assert await Fetcher(PATIENCE, MOST, frozenset({host})).get(f"http://{host}{path}") == FEED


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/bomb", "unpacked it is larger"),
        ("/bomb-in-bomb", "not asked for"),
        ("/three", "not asked for"),
        ("/brotli", "not asked for"),
        ("/lies", "cannot be unpacked"),
        ("/half", "breaks off"),
        ("/large", "larger than"),
    ],
)
async def test_what_grows_when_it_is_unpacked_is_refused_before_it_has_grown(host: str, path: str, why: str) -> None:
    """1,827 bytes that were gzipped twice became 2 GB."""
    fetcher = Fetcher(PATIENCE, MOST, frozenset({host}))
    tracemalloc.start()
    try:
        with pytest.raises(NotFetched, match=why):
            await fetcher.get(f"http://{host}{path}")
        # the server is a thread of this process and makes up to 20 MB of its own
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


async def test_what_is_packed_once_more_inside_is_no_feed(host: str) -> None:
    body = await Fetcher(PATIENCE, MOST, frozenset({host})).get(f"http://{host}/inside")
    for read in (read_feed, read_list):
        with pytest.raises(NotAFeed, match="packed once more"):
            read(body)


@given(some.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_bytes_break_the_unpacking(packed: bytes) -> None:
    try:
        assert len(unpacked(packed, 1000)) <= 1000
    except TooLarge:
        pass


@pytest.mark.parametrize("part", ["<", "<!--", "<a ", "&lt;", "<script>", "</", "<b>", "&#", "<a b="])
async def test_a_text_of_signs_is_read_in_linear_time_while_others_work(part: str) -> None:
    """40 kB of `<` took two seconds, 80 kB four times as long; and nothing else was done meanwhile."""
    signs = part * (1_000_000 // len(part))
    body = f"{HEAD}<description><![CDATA[{signs}]]></description></channel></rss>".encode()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    async with asyncio.timeout(PATIENCE):
        feed = await FeedReader().read(body)
        assert feed.name == "Show"
        await asyncio.to_thread(plain, signs)
    ticking.cancel()
    assert ticks > 5


async def test_a_document_that_keeps_the_parser_busy_costs_its_deadline_and_no_more() -> None:
    """Hundreds of thousands of attributes; the next feed is read as if nothing had been."""
    attributes = " ".join(f'a{number}="1"' for number in range(300_000))
    busy = f"{HEAD}<item><title>One</title><enclosure {attributes}/></item></channel></rss>".encode()
    with pytest.raises(NotAFeed, match=r"could not be read within 0\.5 s"):
        await FeedReader(seconds=0.5).read(busy)
    large = f"{HEAD}<item><title>One</title><guid>1</guid></item>{' ' * SMALL}</channel></rss>".encode()
    assert (await FeedReader().read(large)).episodes[0].title == "One"


async def test_a_large_feed_is_read_apart_and_is_the_same() -> None:
    items = "".join(
        f"<item><title>Episode {number}</title><guid>{number}</guid>"
        f"<pubDate>{number % 28 + 1:02d} Nov 2026 06:00:00 GMT</pubDate></item>"
        for number in range(500)
    )
    body = f"{HEAD}{items}</channel></rss>".encode()
    assert len(body) > SMALL
    assert await FeedReader().read(body) == read_feed(body)
    child = feed_reader._running[0]
    assert await FeedReader().read(body) == read_feed(body)
    assert feed_reader._running == [child]
    with pytest.raises(NotAFeed, match="no title"):
        await FeedReader().read(b"<rss><channel>" + b" " * SMALL + b"</channel></rss>")


def test_what_comes_back_from_the_reader_is_a_feed() -> None:
    told: dict[str, Any] = {
        "name": "x",
        "description": "",
        "website": None,
        "language": None,
        "categories": [],
        "hosts": [],
    }
    assert feed_from({**told, "social": 0, "episodes": []}).episodes == []


@pytest.mark.parametrize("oldest_first", [True, False])
def test_the_newest_episodes_are_kept_in_whatever_order_a_feed_has_them(oldest_first: bool) -> None:
    """An oldest-first feed was cut to its oldest fifty."""
    first = datetime(2026, 1, 1, tzinfo=UTC)
    days = range(1, 201) if oldest_first else range(200, 0, -1)
    items = "".join(
        f"<item><title>Day {day}</title><guid>{day}</guid>"
        f"<pubDate>{format_datetime(first + timedelta(days=day))}</pubDate></item>"
        for day in days
    )
    feed = read_feed(f"{HEAD}{items}</channel></rss>".encode())
    assert [one.title for one in feed.episodes] == [f"Day {day}" for day in range(200, 200 - MOST_EPISODES, -1)]


def test_episodes_without_dates_stay_in_their_order_behind_the_others() -> None:
    items = "".join(f"<item><title>{name}</title></item>" for name in "ab")
    dated = "<item><title>c</title><pubDate>01 Nov 2026 06:00:00 GMT</pubDate></item>"
    feed = read_feed(f"{HEAD}{items}{dated}</channel></rss>".encode())
    assert [one.title for one in feed.episodes] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a <b>c</b> d", "a c d"),
        ("a < b", "a < b"),
        ("<script>alert(1)</script>x<STYLE>p{}</style>y", "x y"),
        ("<!-- a > b -->z", "z"),
        ("<script>never ends", "<script>never ends"),
        ("", ""),
    ],
)
def test_tags_are_taken_out(text: str, left: str) -> None:
    assert " ".join(without_tags(text).split()) == left


@given(some.text(alphabet="<>!-ab/ script", max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_tag_is_left_in_any_text(text: str) -> None:
    left = without_tags(text)
    assert "<" not in left or ">" not in left[left.index("<") :] or "<script" in text or "<!--" in text


def test_search_results_of_podcastindex_are_read() -> None:
    body = b"""{"status": "true", "feeds": [
        {"id": 1, "title": "Deep Soil", "url": "https://example.com/soil.xml", "dead": 0},
        {"id": 2, "title": "Gone", "url": "https://example.com/gone.xml", "dead": 1}, {"id": 3}]}"""
    assert [(one.name, one.url) for one in read_list(body)] == [("Deep Soil", "https://example.com/soil.xml")]


async def test_a_machine_without_a_network_is_told_from_a_host_that_is_not_there() -> None:
    """Otherwise every row is dead-lettered while the cable is out."""
    assert _is_no_network(OSError(errno.ENETUNREACH, "unreachable"))
    assert _is_no_network(socket.gaierror(socket.EAI_AGAIN, "try again"))
    assert not _is_no_network(socket.gaierror(socket.EAI_NONAME, "unknown"))
    assert not _is_no_network(OSError(errno.ECONNREFUSED, "refused"))
    assert issubclass(NoNetwork, NotFetched)
