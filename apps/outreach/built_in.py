"""The describer and the scorer that need no AI: the same text and the same score for the same podcast, every time.

Words are compared, in any language; what they mean is not.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from outreach import languages
from outreach.words import Said, wanted_words, words_of

MOST_WORDS = 200
MATCH = 50.0
"""The score from which a podcast is a match."""


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
    language: str | None = None
    """A tag such as fr or pt-BR; without one the campaign's own words tell."""


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


def describe(podcast: Podcast) -> str:
    """At most 200 words, from the podcast and its three newest episodes."""
    hosts = f" Hosted by {', '.join(podcast.hosts[:3])}." if podcast.hosts else ""
    about = _sentences(podcast.description, 3) or "The feed does not say what it is about."
    recent = "; ".join(title for title, _ in podcast.episodes[:3])
    language = languages.base(podcast.language)
    listed = Counter(
        word
        for title, summary in podcast.episodes[:3]
        for word in dict.fromkeys(words_of(f"{title} {summary}", language))
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
    asked = _asked_for(wanted)
    keywords = wanted_words(wanted.keywords, asked)
    ideal = sorted(set(words_of(wanted.ideal, asked)))
    recent = " ".join(f"{title} {summary}" for title, summary in podcast.episodes[:5])
    whole = " ".join((podcast.name, podcast.description, description, *podcast.categories, recent))
    found = {
        "topic": _share(keywords, whole),
        "ideal": _share(ideal, whole, enough=0.6),
        "recent episodes": _share(keywords, recent),
        "guests": _guests(podcast, whole),
        "active": _part(podcast, "recency", "the newest episode"),
        "regular": _part(podcast, "frequency", "how often episodes come"),
        "audience": _part(podcast, "audience", "ratings in the directory"),
        "language": _language(podcast, asked),
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
        return 0.0, "the campaign names no word to look for"
    said = Said(text)
    hits = [word for word in wanted if said.has(word)]
    points = min(100.0, 100.0 * len(hits) / (len(wanted) * enough))
    return round(points, 1), f"{len(hits)} of {len(wanted)} words: {', '.join(hits[:5]) or 'none'}"


_GUEST_IN_TITLE = re.compile(
    r"\b(with|featuring|feat\.|interview|guest|mit|zu gast|gast|gespräch|avec|invitée?|entretien|con|invitad[oa]"
    r"|entrevista|ospite|intervista|com|convidad[oa]|met|gesprek|z|rozmowa|gäst|intervju)\b|ゲスト|嘉宾|专访|게스트|интервью|гость|مع|ضيف",
    re.IGNORECASE,
)
_GUESTS_SAID = re.compile(
    r"\b(interview|conversation|guest|gespräch|gäste|entretien|invités|entrevista|invitados|intervist|ospiti|convidados|gesprek|rozmow"
    r"|intervju)|インタビュー|访谈|인터뷰|интервью",
    re.IGNORECASE,
)


def _guests(podcast: Podcast, text: str) -> tuple[float, str]:
    titles = [title for title, _ in podcast.episodes]
    named = [title for title in titles if _GUEST_IN_TITLE.search(title)]
    if not named:
        said = _GUESTS_SAID.search(text) is not None
        return (60.0, "it says that it has guests") if said else (10.0, "no guest in any title")
    points = min(100.0, 40 + 120 * len(named) / len(titles))
    return round(points, 1), f"guests in {len(named)} of {len(titles)} titles"


def _part(podcast: Podcast, name: str, what: str) -> tuple[float, str]:
    value = round(float(podcast.parts.get(name, 0.0)), 1)
    return value, f"{what}: {value:g} of 100"


def _asked_for(wanted: Wanted) -> str | None:
    """The language of the campaign: as it says, or as it is written."""
    said = languages.base(wanted.language) or languages.named_in(wanted.ideal)
    return said or languages.language_of(f"{wanted.ideal} {' '.join(wanted.keywords)}")


def _language(podcast: Podcast, asked: str | None) -> tuple[float, str]:
    """As the feed says, or as it is written: many feeds say en-us, whatever they speak."""
    titles = " ".join(title for title, _ in podcast.episodes[:5])
    written = languages.language_of(f"{podcast.description} {titles}")
    spoken = [one for one in dict.fromkeys((languages.base(podcast.language), written)) if one]
    if asked is None:
        return 50.0, "the campaign does not tell its language"
    if not spoken:
        return 50.0, f"it does not tell its language; {asked} is asked for"
    if asked in spoken:
        return 100.0, f"it is in {asked}"
    return 0.0, f"it is in {' or '.join(spoken)}, not in {asked}"


def _sentences(text: str, most: int) -> str:
    return " ".join(re.split(r"(?<=[.!?])\s+", text.strip())[:most]).strip()
