"""The describer and the scorer that need no AI: the same text and the same score for the same podcast, every time."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MOST_WORDS = 200
MATCH = 50.0
"""The score from which a podcast is a match."""

_COMMON_TEXT = """
a an and are as at be by for from has have how i in is it its of on or our that the their this to we what when who why will
with you your podcast podcasts episode episodes show shows host hosts guest guests week weekly new about into not can more
all one they them was were but like just every each these those than then there here also
"""
_COMMON = frozenset(_COMMON_TEXT.split())


@dataclass(frozen=True, slots=True)
class Podcast:
    """What is known of a podcast when it is described and vetted."""

    name: str
    description: str
    categories: Sequence[str]
    hosts: Sequence[str]
    language: str | None
    quality: float
    parts: dict[str, float]
    episodes: Sequence[tuple[str, str]]
    """Title and summary, the newest first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a campaign looks for."""

    keywords: Sequence[str]
    ideal: str


@dataclass(frozen=True, slots=True)
class Criterion:
    name: str
    weight: float
    question: str


CHECKLIST = (
    Criterion("topic", 0.25, "Is it about the campaign's keywords?"),
    Criterion("ideal", 0.20, "Does it resemble the ideal podcast?"),
    Criterion("recent episodes", 0.15, "Are the newest episodes about these topics?"),
    Criterion("guests", 0.10, "Does it have guests?"),
    Criterion("active", 0.10, "Is it still being made?"),
    Criterion("regular", 0.05, "Does it come out regularly?"),
    Criterion("audience", 0.05, "Does anybody listen?"),
    Criterion("language", 0.10, "Is it in the campaign's language?"),
)


def words_of(text: str) -> list[str]:
    """The words that say something, as they are."""
    return [word for word in re.findall(r"[^\W\d_]{3,}", text.lower()) if word not in _COMMON]


def describe(podcast: Podcast) -> str:
    """At most 200 words, from the podcast and its three newest episodes."""
    hosts = f" Hosted by {', '.join(podcast.hosts[:3])}." if podcast.hosts else ""
    about = _sentences(podcast.description, 3) or "The feed does not say what it is about."
    recent = "; ".join(title for title, _ in podcast.episodes[:3])
    listed = Counter(
        word
        for title, summary in podcast.episodes[:3]
        for word in dict.fromkeys(words_of(f"{title} {summary}"))
    )
    topics = ", ".join(word for word, _ in listed.most_common(6))
    kinds = f" Filed under {', '.join(podcast.categories[:3])}." if podcast.categories else ""
    text = f"{podcast.name}: {about}{hosts}{kinds}"
    if recent:
        text += f" Recent episodes: {recent}. They speak of {topics}."
    return shortened(text)


def shortened(text: str, most: int = MOST_WORDS) -> str:
    """The first words, as many as a description may have."""
    words = text.split()
    return " ".join(words[:most]) + ("…" if len(words) > most else "")


def score(podcast: Podcast, description: str, wanted: Wanted) -> list[dict[str, Any]]:
    """Each criterion of the checklist with its score from 0 to 100, and why."""
    keywords = sorted({word for keyword in wanted.keywords for word in words_of(keyword)})
    ideal = Counter(words_of(wanted.ideal))
    whole = " ".join((podcast.name, podcast.description, description, *podcast.categories))
    recent = " ".join(f"{title} {summary}" for title, summary in podcast.episodes[:5])
    found = {
        "topic": _share(keywords, whole + " " + recent),
        "ideal": _share(sorted(ideal), whole + " " + recent, enough=0.6),
        "recent episodes": _share(keywords, recent),
        "guests": _guests(podcast, whole + " " + recent),
        "active": _part(podcast, "recency", "the newest episode"),
        "regular": _part(podcast, "frequency", "how often episodes come"),
        "audience": _part(podcast, "audience", "ratings in the directory"),
        "language": _language(podcast, wanted),
    }
    return [
        {"criterion": one.name, "weight": one.weight, "score": found[one.name][0], "why": found[one.name][1]}
        for one in CHECKLIST
    ]


def total(criteria: Sequence[dict[str, Any]]) -> float:
    """The weighted mean, from 0 to 100."""
    weights = sum(float(one["weight"]) for one in criteria)
    return round(sum(float(one["score"]) * float(one["weight"]) for one in criteria) / weights, 1)


def reasoning(criteria: Sequence[dict[str, Any]], whole: float) -> str:
    """Why it scored as it did, in a sentence."""
    ordered = sorted(criteria, key=lambda one: (one["score"] - 50) * one["weight"])
    worst, best = ordered[0], ordered[-1]
    verdict = "a match" if whole >= MATCH else "no match"
    return (
        f"{whole:g} of 100, {verdict}: best in {best['criterion']} ({best['score']:g}, {best['why']}),"
        f" weakest in {worst['criterion']} ({worst['score']:g}, {worst['why']})."
    )


def quality(
    latest: datetime | None, episodes: Sequence[datetime], audience: int | None, social: int, now: datetime
) -> tuple[float, dict[str, float]]:
    """How good a podcast is, 0 to 100: recency .25, frequency .25, audience .20, social .30."""
    days = (now - latest).total_seconds() / 86400 if latest else 10_000
    dated = sorted(episodes)[-12:]
    span = (dated[-1] - dated[0]).total_seconds() / 86400 / 30 if len(dated) > 1 else 0.0
    monthly = (len(dated) - 1) / max(span, 0.25) if len(dated) > 1 else 0.0
    parts = {
        "recency": max(0.0, min(100.0, 100.0 - (days - 14) * 100 / 351)),
        "frequency": min(100.0, monthly * 25.0),
        "audience": min(100.0, (audience or 0) / 10.0),
        "social": min(100.0, social * 34.0),
    }
    parts = {name: round(value, 1) for name, value in parts.items()}
    weights = {"recency": 0.25, "frequency": 0.25, "audience": 0.20, "social": 0.30}
    return round(sum(parts[name] * weight for name, weight in weights.items()), 1), parts


def _share(wanted: Sequence[str], text: str, enough: float = 0.8) -> tuple[float, str]:
    """How many of the words occur, where a part of them is enough for all points."""
    if not wanted:
        return 50.0, "nothing was asked for"
    known = set(words_of(text))
    hits = [
        word
        for word in wanted
        if word in known or any(one.startswith(word[:5]) for one in known if len(word) > 5)
    ]
    points = min(100.0, 100.0 * len(hits) / (len(wanted) * enough))
    return round(points, 1), f"{len(hits)} of {len(wanted)} words: {', '.join(hits[:5]) or 'none'}"


def _guests(podcast: Podcast, text: str) -> tuple[float, str]:
    titles = [title for title, _ in podcast.episodes]
    named = [
        title
        for title in titles
        if re.search(r"\b(with|featuring|feat\.|interview|guest|mit)\b", title, re.I)
    ]
    if not named:
        said = re.search(r"\b(interview|conversation|guest)", text, re.I) is not None
        return (60.0, "it says that it has guests") if said else (10.0, "no guest in any title")
    return round(
        min(100.0, 40 + 120 * len(named) / len(titles)), 1
    ), f"guests in {len(named)} of {len(titles)} titles"


def _part(podcast: Podcast, name: str, what: str) -> tuple[float, str]:
    value = round(float(podcast.parts.get(name, 0.0)), 1)
    return value, f"{what}: {value:g} of 100"


def _language(podcast: Podcast, wanted: Wanted) -> tuple[float, str]:
    ideal = "de" if re.search(r"\b(deutsch|german)", wanted.ideal, re.I) else "en"
    spoken = (podcast.language or "en").lower()[:2]
    return (100.0, f"it is in {spoken}") if spoken == ideal else (0.0, f"it is in {spoken}, not in {ideal}")


def _sentences(text: str, most: int) -> str:
    return " ".join(re.split(r"(?<=[.!?])\s+", text.strip())[:most]).strip()


def utc_now() -> datetime:
    return datetime.now(UTC)
