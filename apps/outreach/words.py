"""Words of a text in any language, and whether the words of a campaign occur in it."""

import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache

from outreach.languages import common_words

_OWN_TEXT = """
podcast podcasts episode episodes show shows host hosts guest guests week weekly new folge folgen épisode épisodes episodio
episodios episódio episódios puntata puntate aflevering afleveringen
"""
_OWN = frozenset(_OWN_TEXT.split())
"""Words of podcasts themselves."""
SHORTEST = 2
INITIALS = 3
"""Letters of what counts as an abbreviation if it is written in capitals, such as AI and HR."""
STEM = 5


@lru_cache(4096)
def _is_part(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "LMN"


def tokens(text: str) -> list[str]:
    """Runs of letters, marks and digits, as they are written."""
    return "".join(one if _is_part(one) else " " for one in text).split()


@lru_cache(20_000)
def folded(word: str) -> str:
    """Without case and accents: café and CAFE are one word."""
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(one for one in plain if unicodedata.category(one) != "Mn") or word


def words_of(text: str, language: str | None = None) -> list[str]:
    """The words that say something, in lower case: abbreviations, and words of three letters and more."""
    common = common_words(language)
    return [
        word.lower()
        for word in tokens(text)
        if (len(word) > SHORTEST or _unspaced(word) or is_abbreviation(word))
        and not word.isdigit()
        and word.lower() not in common
        and word.lower() not in _OWN
    ]


def wanted_words(keywords: Sequence[str], language: str | None = None) -> list[str]:
    """What to look for: the words of all keywords, as they are written; small words only where a keyword has no others."""
    found: dict[str, None] = {}
    common = common_words(language)
    for keyword in keywords:
        parts = [word for word in tokens(keyword) if len(word) >= SHORTEST or _unspaced(word)]
        telling = [word for word in parts if is_abbreviation(word) or word.lower() not in common]
        for word in telling or parts or [keyword.strip()]:
            if word:
                found[word] = None
    return list(found)


def is_abbreviation(word: str) -> bool:
    return SHORTEST <= len(word) <= INITIALS and word.isupper() and word.isalnum()


class Said:
    """A text in which words are looked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def has(self, word: str) -> bool:
        """Whether it occurs: an abbreviation as written, others without case and accents, long ones by their beginning."""
        if is_abbreviation(word):
            return word in self._written
        plain = folded(word)
        if plain in self._known:
            return True
        if _unspaced(word) or tokens(word) != [word]:
            return plain in self._whole
        return len(plain) > STEM and any(one.startswith(plain[:STEM]) for one in self._known)

    @cached_property
    def _written(self) -> frozenset[str]:
        return frozenset(tokens(self._text))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(map(folded, self._written))

    @cached_property
    def _whole(self) -> str:
        return folded(self._text)


def _unspaced(word: str) -> bool:
    """Of a script that puts no spaces between words: there a word is a part of a run of letters."""
    return any(
        "\u0e00" <= one <= "\u0eff"
        or "\u1000" <= one <= "\u109f"
        or "\u1780" <= one <= "\u17ff"
        or "\u3040" <= one <= "\u30ff"
        or "\u3400" <= one <= "\u9fff"
        or "\uf900" <= one <= "\ufaff"
        for one in word
    )
