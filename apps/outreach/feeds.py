"""What feeds and directories say: RSS and Atom by feedparser, OPML lists, and search results as iTunes gives them.

Everything here is text from strangers: bounded in size, without document type declarations, and never run or fetched.
"""

import calendar
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import feedparser  # type: ignore[import-untyped]

MOST_EPISODES = 50
MOST_ENTRIES = 2000
LONGEST = 4000
SOCIAL = re.compile(
    r"https?://(?:www\.)?(?:twitter|x|instagram|facebook|linkedin|youtube|tiktok|mastodon)\.[a-z.]+/", re.I
)


class NotAFeed(ValueError):
    """What was read is no podcast feed; the message says why."""


@dataclass(frozen=True, slots=True)
class Episode:
    guid: str
    title: str
    summary: str
    published_at: datetime | None
    seconds: int | None
    transcript_url: str | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """A podcast as its feed tells of it."""

    name: str
    description: str
    website: str | None
    language: str | None
    categories: list[str]
    hosts: list[dict[str, Any]]
    """With a confidence: 0.9 where the feed names an author, 0.3 for a person in the title of an episode."""
    social: int
    episodes: list[Episode] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """An entry of a list or of search results: where the feed is, and what is known without reading it."""

    url: str
    name: str
    audience: int | None = None


def read_feed(body: bytes) -> Feed:
    """A podcast from RSS or Atom."""
    _check(body)
    parsed = feedparser.parse(body, sanitize_html=True, resolve_relative_uris=False)
    channel = parsed.feed
    name = _clean(channel.get("title", ""), 300)
    if not name or not parsed.version:
        why = parsed.get("bozo_exception")
        raise NotAFeed(f"no podcast feed: {type(why).__name__ if why else 'it has no title'}")
    episodes = [_episode(entry) for entry in parsed.entries[:MOST_EPISODES]]
    description = _clean(channel.get("summary") or channel.get("subtitle") or "")
    return Feed(
        name=name,
        description=description,
        website=_link(channel.get("link")),
        language=_clean(channel.get("language", ""), 20) or None,
        categories=[_clean(tag.get("term") or "", 80) for tag in channel.get("tags", []) if tag.get("term")][
            :10
        ],
        hosts=_hosts(channel, episodes),
        social=len(set(SOCIAL.findall(body.decode(errors="replace")))),
        episodes=[one for one in episodes if one.title],
    )


def read_list(body: bytes) -> list[Found]:
    """Feeds that an OPML file or iTunes-style search results name; a feed itself names nobody."""
    if body.lstrip()[:1] == b"{":
        return list(_search_results(body))
    _check(body)
    if b"<opml" in body[:1000].lower():
        return list(_outlines(body))
    return []


def _outlines(body: bytes) -> Iterator[Found]:
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise NotAFeed(f"no OPML: {error}") from None
    for outline in list(root.iter("outline"))[:MOST_ENTRIES]:
        url = outline.get("xmlUrl")
        if url:
            yield Found(url.strip(), _clean(outline.get("title") or outline.get("text") or url, 300))


def _search_results(body: bytes) -> Iterator[Found]:
    try:
        results = json.loads(body)["results"]
        for one in list(results)[:MOST_ENTRIES]:
            if isinstance(one, dict) and isinstance(one.get("feedUrl"), str):
                audience = one.get("userRatingCount")
                yield Found(
                    one["feedUrl"].strip(),
                    _clean(str(one.get("collectionName") or one["feedUrl"]), 300),
                    audience if isinstance(audience, int) and 0 <= audience < 2**31 else None,
                )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAFeed(f"no search results: {type(error).__name__}") from None


def _check(body: bytes) -> None:
    """Entities are how a few bytes become gigabytes; no podcast needs them."""
    if b"<!ENTITY" in body.upper():
        raise NotAFeed("it declares entities, which no feed needs")
    if not body.strip():
        raise NotAFeed("it is empty")


def _episode(entry: Any) -> Episode:
    title = _clean(entry.get("title", ""), 300)
    summary = entry.get("summary") or next((part.get("value", "") for part in entry.get("content", [])), "")
    guid = _clean(entry.get("id") or entry.get("link") or title, 500)
    transcript = entry.get("podcast_transcript") or {}
    return Episode(
        guid,
        title,
        _clean(summary),
        _moment(entry),
        _seconds(entry.get("itunes_duration")),
        _link(transcript.get("url")) if isinstance(transcript, dict) else None,
    )


def _moment(entry: Any) -> datetime | None:
    parsed = entry.get("published_parsed") or entry.get("updated_parsed")
    try:
        return datetime.fromtimestamp(calendar.timegm(parsed), UTC) if parsed else None
    except (OverflowError, ValueError, OSError, TypeError):
        return None


def _seconds(duration: Any) -> int | None:
    """`3600`, `60:00` and `1:00:00` are an hour."""
    parts = str(duration or "").strip().split(":")
    if not all(part.isdecimal() and len(part) < 7 for part in parts) or len(parts) > 3:
        return None
    total = 0
    for part in parts:
        total = total * 60 + int(part)
    return min(total, 2**31 - 1)


_NAME = re.compile(r"\b(?:with|featuring|feat\.?|guest:?)\s+((?:[A-Z][\w'’.-]+\s?){2,3})")


def _hosts(channel: Any, episodes: list[Episode]) -> list[dict[str, Any]]:
    named: dict[str, float] = {}
    author = _clean(channel.get("author", ""), 200)
    for name in re.split(r",| and | & |;", author):
        if name.strip():
            named[name.strip()] = 0.9
    for episode in episodes[:10]:
        for name in _NAME.findall(episode.title):
            named.setdefault(name.strip(), 0.3)
    return [{"name": name, "confidence": confidence} for name, confidence in list(named.items())[:8]]


def _link(value: Any) -> str | None:
    """Only what a browser may safely follow."""
    text = _clean(str(value or ""), 500)
    return text if re.match(r"https?://", text) else None


def _clean(text: Any, longest: int = LONGEST) -> str:
    """Plain text: no tags, no control characters, no halves of characters."""
    plain = html.unescape(re.sub(r"<[^>]*>", " ", str(text)))
    plain = "".join(one if one.isprintable() else " " for one in plain.encode(errors="ignore").decode())
    return " ".join(plain.split())[:longest]
