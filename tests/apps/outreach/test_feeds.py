"""Texts from strangers: feeds, lists, search results, and the addresses that they name. B6 and the security checklist."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sqlalchemy import select

from outreach.built_in import MOST_WORDS, Podcast, Wanted, describe, score, total
from outreach.discovery import SHIPPED, add_campaign, discover
from outreach.feeds import NotAFeed, read_feed, read_list
from outreach.fetching import Fetcher, NotFetched
from outreach.metrics import Metrics
from outreach.monitoring import marked_at
from outreach.opening import Purpose
from outreach.service import prepared
from outreach.settings import Settings
from outreach.stages import ENRICHMENT
from outreach.tables import episodes
from outreach.transcribing import transcriber


def test_a_shipped_feed_tells_name_hosts_and_episodes() -> None:
    feed = read_feed((SHIPPED / "growth-ledger.xml").read_bytes())
    assert (feed.name, feed.language, len(feed.episodes)) == ("The Growth Ledger", "en-us", 6)
    assert feed.hosts[0] == {"name": "Dana Okafor", "confidence": 0.9}
    assert feed.episodes[0].seconds == 1840
    assert "<p>" not in feed.episodes[0].summary


def test_an_atom_feed_is_a_feed_too() -> None:
    assert read_feed((SHIPPED / "protocol-tea.xml").read_bytes()).name == "Protocol & Tea"


def test_lists_name_feeds() -> None:
    assert len(read_list((SHIPPED / "subscriptions.opml").read_bytes())) == 11
    found = read_list((SHIPPED / "search-startups.json").read_bytes())
    assert (found[0].name, found[0].audience) == ("The Growth Ledger", 412)


BOMB = b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><rss><channel>&b;</channel></rss>'


@pytest.mark.parametrize(
    "body", [b"", b"   ", b"<html></html>", b"\x00\x01", BOMB, b"<rss", b'{"results": 3}', b"[1]"], ids=repr
)
def test_what_is_no_feed_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(NotAFeed, match=r"\w"):
        read_list(body) or read_feed(body)


@given(some.binary(max_size=300) | some.text(max_size=300).map(lambda text: f"<rss><channel>{text}".encode()))
@settings(max_examples=60, deadline=None)
def test_no_document_breaks_the_reader(body: bytes) -> None:
    for read in (read_feed, read_list):
        try:
            read(body)
        except NotAFeed:
            pass


@given(some.text(max_size=80).map(lambda text: f"PROCESSING:{text}"))
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_the_reader_of_markers(text: str) -> None:
    marked_at(text)


@given(some.recursive(some.none() | some.integers() | some.text(), some.lists, max_leaves=5))
@settings(max_examples=60, deadline=None)
def test_no_search_result_breaks_the_reader(entry: object) -> None:
    for told in ({"results": entry}, {"results": [{"feedUrl": entry, "collectionName": entry}]}):
        try:
            read_list(json.dumps(told).encode())
        except NotAFeed:
            pass


PODCAST = Podcast(
    "Deep Soil",
    "About soil. " * 200,
    ["Science"],
    ["Ingrid"],
    "en",
    50.0,
    {"recency": 90.0},
    [("Clay", "Soil.")] * 9,
)


def test_a_description_has_at_most_200_words_and_is_always_the_same() -> None:
    text = describe(PODCAST)
    assert len(text.split()) <= MOST_WORDS
    assert text == describe(PODCAST)


def test_a_score_is_between_0_and_100_and_says_why() -> None:
    criteria = score(PODCAST, describe(PODCAST), Wanted(["soil"], "Farming and soil"))
    assert 7 <= len(criteria) <= 10
    assert all(0 <= one["score"] <= 100 and one["why"] for one in criteria)
    assert sum(one["weight"] for one in criteria) == pytest.approx(1.0)
    best = [{**one, "score": 100.0} for one in criteria]
    assert (total(best), total([{**one, "score": 0.0} for one in criteria])) == (100.0, 0.0)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/feed",
        "https://127.0.0.1/feed",
        "https://[::1]/feed",
        "https://[::ffff:10.0.0.1]/feed",
        "https://10.1.2.3/feed",
        "https://１２７.0.0.1/feed",
        "https://①27.0.0.1/feed",
        "https://169.254.169.254/latest/meta-data",
        "https://192.168.0.1/",
        "https://0.0.0.0/",
        "https://user:password@example.com/feed",
        "https://localhost/feed",
        "file:///etc/passwd",
        "https://",
        "https://example.com:99999/",
        "ftp://example.com/feed",
    ],
)
async def test_addresses_inside_are_never_reached(url: str) -> None:
    with pytest.raises(NotFetched):
        await Fetcher(5.0, 1000).get(url)


TRANSCRIPT = b"WEBVTT\n\n1\n00:00:01.000 --> 00:00:02.000\n<v Ann>Hello there</v>\nand you\n"
FEED = """<?xml version="1.0"?><rss version="2.0" xmlns:podcast="https://podcastindex.org/namespace/1.0"><channel>
<title>Spoken</title>
<item><title>One</title><guid>1</guid><podcast:transcript url="http://{host}/1.vtt" type="text/vtt"/></item>
<item><title>Two</title><guid>2</guid><podcast:transcript url="http://{host}/gone" type="text/vtt"/></item>
<item><title>Three</title><guid>3</guid></item></channel></rss>"""


class _Host(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/feed")
            self.end_headers()
            return
        self.send_response(200 if self.path != "/gone" else 410)
        self.end_headers()
        body = b"x" * (2000 if self.path == "/large" else 10)
        self.wfile.write(TRANSCRIPT if self.path == "/1.vtt" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Host)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_what_is_fetched_is_bounded_and_not_redirected(host: str) -> None:
    fetcher = Fetcher(5.0, 1000, frozenset({host}))
    assert await fetcher.get(f"http://{host}/feed") == b"x" * 10
    for path, why in (("moved", "redirects"), ("gone", "410"), ("large", "larger")):
        with pytest.raises(NotFetched, match=why):
            await fetcher.get(f"http://{host}/{path}")


async def test_transcripts_that_a_feed_names_are_fetched_and_others_left_alone(host: str, tmp_path: Path) -> None:
    told = Settings(database=f"sqlite:///{tmp_path / 'outreach.db'}", rest=3600.0)
    (tmp_path / "feed.xml").write_text(FEED.replace("{host}", host))
    async with prepared(told, Metrics(), Purpose.MIGRATE) as service:
        campaign = await add_campaign(service.database, "One", ["speech"], "About speech.")
        await discover(service.database, service.fetcher, campaign, str(tmp_path / "feed.xml"))
        await service.manager.run_until_idle(ENRICHMENT)
        fetcher = Fetcher(5.0, 1000, frozenset({host}))
        await transcriber(service.database, told, fetcher).run(until_idle=True)
        async with service.database.read() as connection:
            rows = (await connection.execute(select(episodes).order_by(episodes.c.guid))).mappings().all()
    assert [row["transcription_status"] for row in rows] == ["completed", "pending", "none"]
    assert rows[0]["transcript"] == "Hello there and you"
    assert "410" in rows[1]["transcription_error"]
