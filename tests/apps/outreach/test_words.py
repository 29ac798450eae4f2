"""The scorer that needs no AI, in any language: keywords of two letters, campaigns that are not in English. B6."""

from dataclasses import replace

import pytest

from outreach.built_in import MATCH, Podcast, Wanted, describe, score, total
from outreach.languages import base, language_of, named_in
from outreach.words import Said, tokens, wanted_words, words_of

GOOD = {"recency": 100.0, "frequency": 100.0, "audience": 50.0}
KNITTING = Podcast(
    "Purl and Plain",
    "Two friends talk about knitting, wool and patterns. Said while the kettle is on; it is fair to say that we are hooked.",
    ["Crafts"],
    ["Mona"],
    "en",
    80.0,
    GOOD,
    [("Socks with Hanna", "A chat about heels."), ("Lace with Petra", "She has hair like wool.")],
)
AI_TODAY = Podcast(
    "AI Today",
    "Conversations about AI and HR: how companies hire, train and keep people.",
    ["Business"],
    ["Ada"],
    "en",
    80.0,
    GOOD,
    [("AI in HR with Ann", "How AI reads an application."), ("HR without forms, with Bo", "AI and HR.")],
)
FRENCH = Podcast(
    "La Tribune des fondateurs",
    "Des entretiens avec les fondateurs de jeunes entreprises sur la tarification et la croissance.",
    ["Affaires"],
    ["Zoé"],
    "fr",
    80.0,
    GOOD,
    [
        ("Fixer ses prix, avec Luc", "La tarification d'une jeune entreprise, par son fondateur."),
        ("La croissance, avec Inès", "Comment les fondateurs pensent à la croissance et à la tarification."),
    ],
)
FRENCH_COOKING = Podcast(
    "À table",
    "Des recettes de saison pour toute la famille, dans une cuisine où il fait bon vivre.",
    ["Cuisine"],
    ["Rémi"],
    "fr",
    80.0,
    GOOD,
    [
        ("La soupe au potiron", "Une recette pour les soirs d'automne."),
        ("Le pain", "Avec de la farine et du temps."),
    ],
)
JAPANESE = Podcast(
    "起業家ラジオ",
    "スタートアップの創業者に価格設定と成長について聞くインタビュー番組です。",
    ["ビジネス"],
    ["花子"],
    "ja",
    80.0,
    GOOD,
    [("価格設定の話 ゲスト太郎", "スタートアップの価格設定。"), ("成長の話 ゲスト次郎", "創業者の成長。")],
)


def scored(podcast: Podcast, wanted: Wanted) -> float:
    return total(score(podcast, describe(podcast), wanted))


def part(podcast: Podcast, wanted: Wanted, criterion: str) -> float:
    found = score(podcast, describe(podcast), wanted)
    return next(float(one["score"]) for one in found if one["criterion"] == criterion)


def test_keywords_of_two_letters_count_and_are_no_parts_of_other_words() -> None:
    """For the campaign "AI, HR" a show about knitting scored 65, like "AI Today"."""
    wanted = Wanted(["AI", "HR"], "Conversations about AI and HR.")
    assert scored(AI_TODAY, wanted) >= 75
    assert scored(KNITTING, wanted) < MATCH
    assert part(KNITTING, wanted, "topic") == 0.0


def test_an_abbreviation_is_not_the_word_that_looks_like_it() -> None:
    assert wanted_words(["IT security", "AI"]) == ["IT", "security", "AI"]
    assert not Said("it is what I'd say: j'ai dit").has("IT")
    assert not Said("j'ai dit").has("AI")
    assert Said("What IT does").has("IT")
    assert Said("all about ai").has("ai")


def test_a_keyword_of_signs_or_of_small_words_alone_is_looked_for_as_it_is() -> None:
    assert wanted_words(["C++", "how to", ""]) == ["C++", "how", "to"]
    assert Said("Talks about C++ and Rust").has("C++")
    assert not Said("Talks about Rust").has("C++")


def test_a_campaign_without_any_word_matches_nothing() -> None:
    assert part(KNITTING, Wanted([" "], ""), "topic") == 0.0


@pytest.mark.parametrize(
    "ideal",
    [
        "Des entretiens avec des fondateurs sur la tarification et la croissance.",
        "Interviews with founders about pricing, in French.",
    ],
)
def test_a_french_campaign_finds_french_shows(ideal: str) -> None:
    """The language was English or German, so that French shows had no points for being French."""
    wanted = Wanted(["tarification", "fondateurs"], ideal)
    assert part(FRENCH, wanted, "language") == 100.0
    assert scored(FRENCH, wanted) >= MATCH
    assert scored(FRENCH_COOKING, wanted) < MATCH
    assert part(AI_TODAY, wanted, "language") == 0.0


def test_small_words_of_a_language_are_no_likeness() -> None:
    """Without that, "des", "avec" and "la" make any French show resemble any French ideal."""
    wanted = Wanted(["tarification"], "Des entretiens avec des fondateurs sur la tarification.")
    assert part(FRENCH_COOKING, wanted, "ideal") == 0.0


def test_a_script_without_spaces_is_searched_for_parts() -> None:
    wanted = Wanted(["価格設定", "創業者"], "スタートアップの創業者に価格設定を聞くインタビュー")
    assert part(JAPANESE, wanted, "topic") == 100.0
    assert part(JAPANESE, wanted, "language") == 100.0
    assert part(AI_TODAY, wanted, "topic") == 0.0


def test_a_campaign_may_say_its_language_and_a_feed_may_be_wrong_about_its_own() -> None:
    assert part(FRENCH, Wanted(["tarification"], "Founders", "fr-CA"), "language") == 100.0
    assert part(FRENCH, Wanted(["tarification"], "Founders", "sv"), "language") == 0.0
    mislabelled = replace(FRENCH, language="en-us")
    assert part(mislabelled, Wanted(["tarification"], "Founders", "fr"), "language") == 100.0


def test_a_language_that_nobody_tells_is_neither_right_nor_wrong() -> None:
    silent = replace(KNITTING, language=None, description="Wool!", episodes=[("Purl", "")])
    assert part(silent, Wanted(["wool"], "Wolle", "de"), "language") == 50.0
    assert part(KNITTING, Wanted(["wool"], "wool"), "language") == 50.0


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Interviews with founders about how they price what they sell.", "en"),
        ("Gespräche mit Menschen, die etwas über den Boden wissen.", "de"),
        ("Des entretiens avec les fondateurs de jeunes entreprises.", "fr"),
        ("Entrevistas con las personas que fundaron una empresa.", "es"),
        ("Interviste con chi ha fondato una piccola impresa e non si ferma.", "it"),
        ("Conversas com as pessoas que não param de criar uma empresa.", "pt"),
        ("Gesprekken met mensen die het over een bedrijf hebben.", "nl"),
        ("Разговоры с основателями компаний о ценах.", "ru"),
        ("Розмови із засновниками їхніх компаній.", "uk"),
        ("创业者谈定价", "zh"),
        ("スタートアップの話", "ja"),
        ("창업자와의 대화", "ko"),
        ("حوارات مع مؤسسي الشركات", "ar"),
        ("12 34", None),
        ("", None),
    ],
)
def test_a_text_tells_its_language(text: str, language: str | None) -> None:
    assert language_of(text) == language


def test_tags_and_names_of_languages() -> None:
    assert [base(tag) for tag in ("en-US", "pt_BR", "iw", "fr", "", None, "french", "x" * 99)] == [
        "en", "pt", "he", "fr", None, None, None, None,
    ]  # fmt: skip
    assert named_in("Interviews in Spanish, please") == "es"
    assert named_in("A show about German history") is None
    assert named_in("deutschsprachige Gespräche") == "de"


def test_words_are_found_without_case_and_accents() -> None:
    said = Said("L'Économie du CAFÉ, straße und Kindergärten")
    assert all(said.has(word) for word in ("economie", "café", "cafe", "strasse", "Kindergarten"))
    assert tokens("naïve—हिन्दी भाषा") == ["naïve", "हिन्दी", "भाषा"]
    assert words_of("The AI show: we talk of soil", "en") == ["ai", "talk", "soil"]
