"""In which language a text is: by its script, or by the small words that every sentence has. Enough to compare two texts."""

import re
import unicodedata
from collections import Counter

_STOPWORDS = {
    "en": """
        a an and are as at be by for from has have how i in is it its of on or our that the their this to we
        what when who why will with you your about into not can more all one they them was were but like just
        every each these those than then there here also my his her she he do does so if no yes
    """,
    "de": """
        der die das und ist in den von zu mit sich des auf für nicht ein eine einer einem einen als auch es an
        werden aus er hat dass sie nach wird bei um am sind noch wie einen über so zum war haben nur oder aber
        vor zur bis mehr durch man wir ich ihr uns unser unsere was wer
    """,
    "fr": """
        le la les de des du et est un une en que qui dans pour pas sur avec ce cette ces il elle ils elles
        nous vous je tu se son sa ses leur leurs au aux par plus ou mais comme ne sont être avoir nos votre
        vos notre chaque
    """,
    "es": """
        el la los las de del y es un una en que por para con no se su sus lo como más pero al este esta estos
        estas son ser hay nos nuestro nuestra sobre cada entre cuando donde quien
    """,
    "it": """
        il lo la i gli le di del della dei delle e è un una in che per con non si su come più ma al alla da
        dal sono questo questa nel nella ogni chi dove anche noi nostro
    """,
    "pt": """
        o a os as de do da dos das e é um uma em que por para com não se seu sua como mais mas ao no na nos
        nas são este esta cada sobre quem onde também nosso nossa
    """,
    "nl": """
        de het een en van in is dat op te zijn met voor niet aan er om ook als maar bij uit naar over dan nog
        wordt door hun wij ons onze je jij ik elke wat wie
    """,
    "sv": """
        och att det som en på är av för med till den har de inte om ett men var jag sig från vi så kan när där
        hur våra vår varje
    """,
    "pl": """
        i w na z do że się nie jest to o jak ale po co tak za od dla przez przy są oraz czy tym które który
    """,
    "tr": """
        ve bir bu da de için ile çok ne gibi daha olan olarak ama her biz siz ki en mi
    """,
}
STOPWORDS = {code: frozenset(words.split()) for code, words in _STOPWORDS.items()}
_NAMES = {
    "en": "english|englisch|anglais|inglés",
    "de": "german|deutsch|allemand|alemán",
    "fr": "french|français|francais|französisch|francés",
    "es": "spanish|español|espanol|spanisch|espagnol",
    "it": "italian|italiano|italienisch|italien",
    "pt": "portuguese|português|portugues|portugiesisch",
    "nl": "dutch|nederlands|niederländisch",
    "sv": "swedish|svenska|schwedisch",
    "pl": "polish|polski|polnisch",
    "tr": "turkish|türkçe|türkisch",
    "ja": "japanese|japanisch|japonais",
    "zh": "chinese|mandarin|chinesisch|chinois",
    "ko": "korean|koreanisch|coréen",
    "ru": "russian|russisch|russe|русском",
    "ar": "arabic|arabisch|arabe",
    "hi": "hindi",
}
_SCRIPTS = {
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "HANGUL": "ko",
    "CJK": "zh",
    "CYRILLIC": "ru",
    "ARABIC": "ar",
    "HEBREW": "he",
    "THAI": "th",
    "GREEK": "el",
    "DEVANAGARI": "hi",
    "BENGALI": "bn",
    "TAMIL": "ta",
    "GEORGIAN": "ka",
    "ARMENIAN": "hy",
}
_OLD = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "nn": "nb"}
ENOUGH = 2
"""Small words of a language that a text must have."""
LONGEST = 4000


def base(tag: str | None) -> str | None:
    """The language of a tag: `fr` of `fr-CA`, `he` of the old `iw`."""
    found = re.match(r"\s*([A-Za-z]{2,3})(?:[-_]|\s*$)", tag or "")
    return _OLD.get(found[1].lower(), found[1].lower()) if found else None


def language_of(text: str) -> str | None:
    """The language of a text, if it can be told."""
    text = text[:LONGEST]
    scripts = Counter(_script(letter) for letter in text if letter.isalpha())
    letters = scripts.total()
    if not letters:
        return None
    if scripts["HIRAGANA"] + scripts["KATAKANA"] > letters / 10:
        return "ja"  # along with the characters of Chinese
    script, number = scripts.most_common(1)[0]
    if script in _SCRIPTS and number > letters / 2:
        if script == "CYRILLIC" and re.search("[іїєґ]", text.lower()):
            return "uk"
        return "fa" if script == "ARABIC" and re.search("[پچژگ]", text) else _SCRIPTS[script]
    words = re.findall(r"[^\W\d_]+", text.lower())
    hits = Counter({code: sum(word in known for word in words) for code, known in STOPWORDS.items()})
    (best, most), (_, next_most) = hits.most_common(2)
    return best if most >= ENOUGH and most > next_most else None


def named_in(text: str) -> str | None:
    """The language that a text asks for by name: in French, German-language, auf Deutsch."""
    for code, names in _NAMES.items():
        named = rf"\b(?:in|auf|en|em|på|po|на)\s+(?:{names})\b"
        meant = rf"\b(?:{names})(?:[- ]?(?:language|speaking|sprachig\w*)|\s+podcasts?\b)"
        if re.search(f"{named}|{meant}", text[:LONGEST], re.IGNORECASE):
            return code
    return None


def common_words(language: str | None) -> frozenset[str]:
    """Words that say nothing about a text in this language; those of English stand in many others too."""
    return STOPWORDS["en"] | STOPWORDS.get(language or "en", frozenset())


def _script(letter: str) -> str:
    return "LATIN" if letter < "ɐ" else unicodedata.name(letter, "?").split()[0]
