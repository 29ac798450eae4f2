"""What feeds and directories say: RSS and Atom by feedparser, OPML lists, and search results of iTunes and PodcastIndex.

Everything here is text from strangers: bounded in size, without document type declarations, and never run or fetched. Large
ones are read in a process of their own, see `feed_reader`.
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

from outreach.bounded import is_packed

MOST_EPISODES = 50
MOST_ENTRIES = 2000
LONGEST = 4000
READ_AHEAD = 10
"""How many times as long a text may be before its tags are taken out."""
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
    # tags are taken out here: what feedparser does with them is quadratic in some, as `<!--`
    parsed = feedparser.parse(body, sanitize_html=False, resolve_relative_uris=False)
    channel = parsed.feed
    name = _clean(channel.get("title", ""), 300)
    if not name or not parsed.version:
        why = parsed.get("bozo_exception")
        raise NotAFeed(f"no podcast feed: {type(why).__name__ if why else 'it has no title'}")
    episodes = [_episode(entry) for entry in _newest(parsed.entries)]
    description = _clean(channel.get("summary") or channel.get("subtitle") or "")
    return Feed(
        name=name,
        description=description,
        website=_link(channel.get("link")),
        language=_clean(channel.get("language", ""), 20) or None,
        categories=[_clean(tag.get("term") or "", 80) for tag in channel.get("tags", []) if tag.get("term")][:10],
        hosts=_hosts(channel, episodes),
        social=len(set(SOCIAL.findall(body.decode(errors="replace").lower()))),
        episodes=[one for one in episodes if one.title],
    )


def _newest(entries: list[Any]) -> list[Any]:
    """The newest episodes, in whatever order the feed has them; without dates the first that it names."""
    dated = [(_moment(entry), place, entry) for place, entry in enumerate(entries)]
    dated.sort(key=lambda one: (0.0 if one[0] is None else -one[0].timestamp(), one[1]))
    return [entry for _, _, entry in dated[:MOST_EPISODES]]


def read_list(body: bytes) -> list[Found]:
    """Feeds that an OPML file or search results name; a feed itself names none."""
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
    """As iTunes gives them (`results` with `feedUrl`), or PodcastIndex (`feeds` with `url`)."""
    try:
        whole = json.loads(body)
        results, address, title = ("results", "feedUrl", "collectionName")
        if "results" not in whole:
            results, address, title = ("feeds", "url", "title")
        for one in list(whole[results])[:MOST_ENTRIES]:
            if isinstance(one, dict) and isinstance(one.get(address), str) and not one.get("dead"):
                audience = one.get("userRatingCount")
                yield Found(
                    one[address].strip(),
                    _clean(str(one.get(title) or one[address]), 300),
                    audience if isinstance(audience, int) and 0 <= audience < 2**31 else None,
                )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAFeed(f"no search results: {type(error).__name__}") from None


def _check(body: bytes) -> None:
    """Entities, and what is packed twice, are how a few bytes become gigabytes; no podcast needs them."""
    if is_packed(body):
        raise NotAFeed("it is packed once more inside")
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
    plain = html.unescape(without_tags(str(text)[: longest * READ_AHEAD]))
    plain = "".join(one if one.isprintable() else " " for one in plain.encode(errors="ignore").decode())
    return " ".join(plain.split())[:longest]


_UNTIL = (("<script", "</script"), ("<style", "</style"), ("<!--", "--"))
"""What is no text up to its own end."""


def without_tags(text: str) -> str:
    """The text with a space in the place of each `<…>`, in linear time; a `<` that nothing closes stays."""
    parts, at, lower = [], 0, text.lower()
    while (begins := text.find("<", at)) >= 0:
        inside = next((end for begin, end in _UNTIL if lower.startswith(begin, begins)), "")
        found = lower.find(inside, begins + 4) if inside else begins
        ends = text.find(">", found) if found >= 0 else -1
        if ends < 0:
            break
        parts.append(text[at:begins])
        at = ends + 1
    return " ".join((*parts, text[at:]))
