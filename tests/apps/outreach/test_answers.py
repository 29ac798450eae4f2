"""What a model answers, and what it costs: fences, refusals, what is cut off, requests that a provider rejects. B4, B6."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from outreach import reading, reviewing
from outreach.answers import Unusable, delay_of, description, envelope, public, scores, unfenced
from outreach.built_in import CHECKLIST
from outreach.calls import Answer
from outreach.discovery import add_campaign, discover
from outreach.service import Service
from outreach.stages import AI_DESCRIPTION, ENRICHMENT, VETTING

from .conftest import Opening, Reply, ScriptedProvider, said


@pytest.fixture
def url(tmp_path: Path) -> str:
    """What is asked here does not depend on the kind of database."""
    return f"sqlite:///{tmp_path / 'outreach.db'}"


SCORES = json.dumps({"scores": [{"criterion": one.name, "score": 80, "why": "it is"} for one in CHECKLIST]})
DESCRIPTION = "A weekly show about soil and those who work it."


def kind_of(request: dict[str, Any]) -> str:
    return "vet" if "criteria" in json.loads(request["messages"][-1]["content"]) else "describe"


async def prepared(service: Service, stage: str = "vetting") -> None:
    """A discovery that waits for this stage."""
    campaign = await add_campaign(service.database, "Soil", ["soil"], "About soil.")
    await discover(service.database, service.fetcher, campaign, "shipped:deep-soil.xml")
    await service.manager.run_until_idle(ENRICHMENT)
    if stage == "vetting":
        move = AI_DESCRIPTION.move("share")
        await service.database.store.move_many(move, [1])


async def row_of(service: Service) -> dict[str, Any]:
    return await service.database.store.read(VETTING.lifecycle, 1) or {}


async def run(service: Service, stage: Any, times: int = 7) -> None:
    """More often than a row has attempts."""
    for _ in range(times):
        await service.manager.run_until_idle(stage)


@pytest.mark.parametrize(
    "text",
    [
        SCORES,
        f"```json\n{SCORES}\n```",
        f"```\n{SCORES}\n```",
        f"Here you are:\n\n```JSON\n{SCORES}\n```\nAnything else?",
        f"```{SCORES}```",
        f"Sure. {SCORES} I hope this helps.",
    ],
    ids=["plain", "fenced", "no language", "with words", "one line", "among words"],
)
async def test_scores_are_read_at_the_first_call_however_they_are_wrapped(
    opening: Opening, scripted: ScriptedProvider, text: str
) -> None:
    """A fence around the JSON cost five calls, all paid, and then the row."""
    scripted.reply = lambda _: said(text)
    async with opening(**scripted.settings()) as service:
        await prepared(service)
        await run(service, VETTING, 1)
        assert (await row_of(service))["vetting_status"] == "completed"
        assert (await row_of(service))["vetting_score"] == 80.0
    assert len(scripted.asked) == 1


async def test_json_is_asked_for_by_its_schema(opening: Opening, scripted: ScriptedProvider) -> None:
    scripted.reply = lambda request: said(SCORES if kind_of(request) == "vet" else DESCRIPTION)
    async with opening(**scripted.settings()) as service:
        await prepared(service, "ai_description")
        await run(service, AI_DESCRIPTION, 1)
        await run(service, VETTING, 1)
    describing, vetting = scripted.asked
    assert "response_format" not in describing
    schema = vetting["response_format"]["json_schema"]["schema"]["properties"]["scores"]["items"]
    assert schema["properties"]["criterion"]["enum"] == [one.name for one in CHECKLIST]
    assert vetting["response_format"]["json_schema"]["strict"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("response_format", "'response_format' of type 'json_schema' is not supported with this model"),
        ("response_format", "Extra inputs are not permitted"),
        ("temperature", "Unsupported value: 'temperature' does not support 0 with this model"),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead"),
    ],
)
async def test_a_parameter_that_a_provider_rejects_is_left_out(
    opening: Opening, scripted: ScriptedProvider, name: str, words: str
) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        return (400, {}, {"error": {"message": words}}) if name in request else said(SCORES)

    scripted.reply = reply
    async with opening(**scripted.settings()) as service:
        await prepared(service)
        await run(service, VETTING, 1)
        assert (await row_of(service))["vetting_status"] == "completed"
        assert (await row_of(service))["vetting_attempts"] == 1
        assert [one["paused"] for one in (await reading.overview(service.database))["stages"]] == [False] * 4
    assert [name in request for request in scripted.asked] == [True, False]
    assert len(set(scripted.keys)) == 2  # another request is another intent


@pytest.mark.parametrize("unreadable", ["no idea", '{"scores": [', '{"scores": []}', "[1]", '{"scores": 3}', ""])
async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_in_other_words(
    opening: Opening, scripted: ScriptedProvider, unreadable: str
) -> None:
    """The same request at temperature 0 has the same answer: it was sent five times, and paid for."""
    scripted.reply = lambda _: said(unreadable)
    async with opening(**scripted.settings()) as service:
        await prepared(service)
        await run(service, VETTING)
        row = await row_of(service)
        spent = (await reading.overview(service.database))["spent"]
    assert len(scripted.asked) == 2
    first, second = scripted.asked
    assert first["messages"] != second["messages"]
    assert second["temperature"] > 0
    assert row["vetting_status"] == "failed"
    assert "cannot be read" in row["vetting_error"]
    assert spent == pytest.approx(2 * (1000 * 0.15 + 100 * 0.60) / 1e6)


async def test_the_second_try_may_succeed(opening: Opening, scripted: ScriptedProvider) -> None:
    scripted.reply = lambda _: said(SCORES if len(scripted.asked) > 1 else "80, 70 and 60")
    async with opening(**scripted.settings()) as service:
        await prepared(service)
        await run(service, VETTING)
        assert (await row_of(service))["vetting_status"] == "completed"
    assert len(scripted.asked) == 2


async def test_what_was_cut_off_gets_more_room_once(opening: Opening, scripted: ScriptedProvider) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        has_room = request["max_tokens"] > 1000
        return said(SCORES) if has_room else said(SCORES[:100], "length")

    scripted.reply = reply
    async with opening(**scripted.settings()) as service:
        await prepared(service)
        await run(service, VETTING)
        assert (await row_of(service))["vetting_status"] == "completed"
    assert [request["max_tokens"] for request in scripted.asked] == [700, 2100]


async def test_what_is_always_cut_off_is_dead_lettered_after_two_calls(
    opening: Opening, scripted: ScriptedProvider
) -> None:
    scripted.reply = lambda _: said(DESCRIPTION, "length")
    async with opening(**scripted.settings()) as service:
        await prepared(service, "ai_description")
        await run(service, AI_DESCRIPTION)
        row = await row_of(service)
    assert row["ai_description_status"] == "failed"
    assert row["enrichment_error"] == "it was cut off"
    assert len(scripted.asked) == 2


async def test_a_long_description_that_was_cut_off_behind_its_200th_word_is_one(
    opening: Opening, scripted: ScriptedProvider
) -> None:
    scripted.reply = lambda _: said("soil " * 250, "length")
    async with opening(**scripted.settings()) as service:
        await prepared(service, "ai_description")
        await run(service, AI_DESCRIPTION)
        found = await reading.one_podcast(service.database, 1)
    assert found is not None
    assert len(found["ai_description"].split()) == 200
    assert len(scripted.asked) == 1


@pytest.mark.parametrize(
    "reply",
    [
        said("I'm sorry, I can't help with that."),
        said("I’m sorry, but I cannot assist with this request."),
        said("As an AI language model, I can't describe real people."),
        said("Es tut mir leid, dabei kann ich nicht helfen."),
        said("Je suis désolé, je ne peux pas."),
        said(None, "stop", "I can't help with that."),
        said(None, "content_filter"),
        said("A show about", "content_filter"),
    ],
    ids=lambda one: str(one[2])[40:90],
)
@pytest.mark.parametrize("stage", [AI_DESCRIPTION, VETTING], ids=lambda one: str(one.name))
async def test_a_refusal_is_neither_stored_nor_asked_for_again(
    opening: Opening, scripted: ScriptedProvider, reply: Reply, stage: Any
) -> None:
    """It was stored as the podcast's description, for ever."""
    scripted.reply = lambda _: reply
    async with opening(**scripted.settings()) as service:
        await prepared(service, stage.name)
        await run(service, stage)
        row = await row_of(service)
        podcast = await reading.one_podcast(service.database, 1)
    assert podcast is not None
    assert podcast["ai_description"] is None
    assert row[stage.status] == "failed"
    assert "refuses" in row[stage.error] or "filter" in row[stage.error]
    assert len(scripted.asked) == 1


def test_a_description_that_begins_like_a_refusal_is_none() -> None:
    assert description(Answer("Sorry Not Sorry is a show about apologies.")).startswith("Sorry Not")
    long = "I'm sorry, she says, and so begins each of these stories. " * 10
    assert description(Answer(long)).startswith("I'm sorry, she says")


async def test_a_request_that_is_rejected_is_sent_once_and_the_row_dead_lettered_when_others_are_answered(
    opening: Opening, scripted: ScriptedProvider
) -> None:
    def reply(request: dict[str, Any]) -> Reply:
        if "Deep Soil" in request["messages"][-1]["content"]:
            return 400, {}, {"error": {"message": "too long", "code": "context_length_exceeded"}}
        return said(DESCRIPTION)

    scripted.reply = reply
    async with opening(**{**scripted.settings(), "ai_pause": 3600.0}) as service:
        await prepared(service, "ai_description")
        await run(service, AI_DESCRIPTION, 1)
        row = await row_of(service)
        # as long as it is not known that others are answered, it may be the provider's own fault
        assert (row["ai_description_status"], row["ai_description_attempts"]) == ("pending", 0)
        campaign = await add_campaign(service.database, "Soil", ["soil"], "About soil.")
        await discover(service.database, service.fetcher, campaign, "shipped:growth-ledger.xml")
        await service.manager.run_until_idle(ENRICHMENT)
        await run(service, AI_DESCRIPTION, 1)
        async with service.database.transaction() as (connection, _):
            rested = "UPDATE campaign_media_discoveries SET ai_description_rests_until = NULL"
            await connection.exec_driver_sql(rested)
        await run(service, AI_DESCRIPTION)
        row = await row_of(service)
    assert len([one for one in scripted.asked if "Deep Soil" in one["messages"][-1]["content"]]) == 1
    assert row["ai_description_status"] == "failed"
    assert "the API answered 400: too long" in row["enrichment_error"]


async def test_retry_asks_once_more_for_what_nothing_could_be_done_with(
    opening: Opening, scripted: ScriptedProvider
) -> None:
    """The answers that were bought are not bought again, unless a person says so."""
    scripted.reply = lambda _: said("no idea")
    async with opening(**scripted.settings()) as service:
        await prepared(service)
        await run(service, VETTING)
        assert len(scripted.asked) == 2
        scripted.reply = lambda _: said(SCORES)
        [answer] = await reviewing.try_again(service.database, service.claiming, "vetting", [1])
        assert answer.won
        await run(service, VETTING)
        assert (await row_of(service))["vetting_status"] == "completed"
    assert len(scripted.asked) == 3


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": " 3 "}, 3.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:29:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, 20.0),
        ({"retry-after": "999999"}, 3600.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "1e9"}, None),
        ({"retry-after": "99, 99"}, None),
        ({}, None),
    ],
)
def test_how_long_a_provider_wants_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    """Only whole seconds were understood."""
    assert delay_of(headers, now=1792567690.0) == seconds


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Incorrect API key provided: sk-proj-abc*****xyz.", "Incorrect API key provided: ***"),
        ("canary-key-of-mine is wrong", "*** is wrong"),
        ("Authorization: Bearer abcdef was rejected", "Authorization: *** was rejected"),
        ("look at https://me:secret@example.com/x", "look at https***example.com/x"),
        ("two\nlines\x00 and \ud800", "two lines and ?"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_the_words_of_a_provider_are_shown_without_secrets(message: str, shown: str) -> None:
    assert public(message, ["canary-key-of-mine"]) == shown


@given(some.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_text_breaks_the_readers_of_answers(text: str) -> None:
    for read in (description, scores):
        try:
            read(Answer(text))
        except Unusable:
            pass
    assert isinstance(unfenced(text), str)


@given(some.binary(max_size=100) | some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3)
    | some.dictionaries(some.sampled_from(["choices", "message", "content", "usage", "refusal"]), inner, max_size=3),
    max_leaves=12,
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_no_body_breaks_the_reader_of_envelopes(body: bytes) -> None:
    assert isinstance(envelope(body), Answer)
