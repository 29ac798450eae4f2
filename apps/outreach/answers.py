"""What an API of the OpenAI kind answers: texts, scores, refusals, errors and how long it wants to be left alone.

Everything here comes from outside: bounded, read in linear time, and never trusted to be what was asked for.
"""

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from outreach.built_in import CHECKLIST, MOST_WORDS
from outreach.calls import BROKEN, Answer
from outreach.failures import one_line
from raceproof.webhooks import BadJson, parse

MOST_BYTES = 1_000_000
LONGEST_DELAY = 3600.0
CUT = "it was cut off"
_REFUSES = re.compile(
    r"(i['’]m|i am) (very |so |really )?(sorry|unable|not able)|(i )?apologi[sz]e|sorry,? (but )?i\b"
    r"|(i )?(can(['’]t|not)|can not|won['’]t) |as an ai\b|unfortunately,? (i|we) (can|am|are)"
    r"|es tut mir (sehr )?leid|ich kann (leider )?(nicht|keine)|je suis désolé|désolée?,? (mais )?je"
    r"|lo siento|no puedo|mi dispiace",
    re.IGNORECASE,
)
_REFUSAL_WORDS = 60
"""A refusal is short; a long text that begins like one is a description."""
SECRETS = re.compile(r"\b(sk|pk|key|gsk|xai|api)[-_][A-Za-z0-9_*.-]{6,}|\bbearer\s+\S+|://[^/\s@]*@", re.IGNORECASE)

SCORES_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["scores"],
    "properties": {
        "scores": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["criterion", "score", "why"],
                "properties": {
                    "criterion": {"type": "string", "enum": [one.name for one in CHECKLIST]},
                    "score": {"type": "number"},
                    "why": {"type": "string"},
                },
            },
        }
    },
}


class Unusable(Exception):
    """An answer that nothing can be done with; `cut` is one that had too little room, `refused` one that will not change."""

    def __init__(self, why: str, *, cut: bool = False, refused: bool = False) -> None:
        super().__init__(why)
        self.cut = cut
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in the words of the API, without secrets."""

    message: str
    code: str = ""
    parameter: str = ""


def envelope(body: bytes) -> Answer:
    """The first choice; a provider that answers twice is heard once."""
    try:
        whole = parse(body)
        choice = whole["choices"][0]
        message = choice["message"]
        usage = whole.get("usage") or {}
        counted = [max(0, int(usage.get(name) or 0)) for name in ("prompt_tokens", "completion_tokens")]
        text, refusal = message.get("content") or "", message.get("refusal") or ""
        finish = str(choice.get("finish_reason") or "stop")
    except (BadJson, KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        return Answer(f"the API's answer cannot be read: {type(error).__name__}", BROKEN)
    tokens = [min(number, 2**40) for number in counted]
    if not isinstance(text, str) or not isinstance(refusal, str):
        return Answer("the API's answer has no text", BROKEN, "", *tokens)
    return Answer(storable(text), finish[:40], one_line(refusal), *tokens)


def storable(text: str) -> str:
    """A text that every database takes: no NUL, no halves of characters."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def description(answer: Answer) -> str:
    """At most 200 words of plain text."""
    text = " ".join(_checked(answer, room_for=MOST_WORDS).split())
    if not text:
        raise Unusable("the description is empty")
    if _is_refusal(text):
        raise Unusable(f"the model refuses: {one_line(text)}", refused=True)
    return text


def scores(answer: Answer) -> list[dict[str, Any]]:
    """Scores for exactly the criteria that were asked for; the weights are ours."""
    text = _checked(answer)
    if "{" not in text and _is_refusal(text):
        raise Unusable(f"the model refuses: {one_line(text)}", refused=True)
    try:
        found, _ = json.JSONDecoder().raw_decode(text, text.index("{"))
        named = {one["criterion"]: one for one in found["scores"]}
        return [
            {
                "criterion": one.name,
                "weight": one.weight,
                "score": _score(named[one.name]["score"]),
                "why": one_line(str(named[one.name].get("why", ""))) or "the model does not say why",
            }
            for one in CHECKLIST
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unusable(f"the scores cannot be read: {type(error).__name__}: {one_line(text, 80)}") from None


def problem(status: int, body: bytes, secrets: list[str]) -> Problem:
    """What an API says is wrong: {"error": {"message", "code", "param"}}, or any other text."""
    text, code, parameter = "", "", ""
    try:
        whole = parse(body)
        found = whole.get("error", whole) if isinstance(whole, Mapping) else whole
        if isinstance(found, Mapping):
            text = str(found.get("message") or found.get("detail") or "")
            code = str(found.get("code") or found.get("type") or "")
            parameter = str(found.get("param") or "")
        else:
            text = str(found)
    except BadJson:
        text = body[:2000].decode(errors="replace")
    return Problem(
        f"the API answered {status}: {public(text, secrets)}".rstrip(": "),
        one_line(code),
        one_line(parameter),
    )


def public(text: str, secrets: list[str]) -> str:
    """A message as it may be shown: one line, without keys."""
    text = text[:4000]
    for one in secrets:
        text = text.replace(one, "***")
    return one_line(SECRETS.sub("***", text))


def delay_of(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Retry-After in seconds, also fractions of them and dates; None if it is not there or cannot be read."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return min(milliseconds / 1000, LONGEST_DELAY)
    told = headers.get("retry-after", "").strip()
    seconds = _number(told)
    if seconds is None:
        at = _moment(told)
        if at is None:
            return None
        # by the provider's own clock, where it says what that is
        here = _moment(headers.get("date", "")) or (time.time() if now is None else now)
        seconds = max(0.0, at - here)
    return min(seconds, LONGEST_DELAY)


def _checked(answer: Answer, room_for: int | None = None) -> str:
    """The text without fences, unless the answer says itself that it is not one."""
    if answer.finish == BROKEN:
        raise Unusable(answer.text)
    if answer.refusal:
        raise Unusable(f"the model refuses: {answer.refusal}", refused=True)
    if answer.finish == "content_filter":
        raise Unusable("the provider's filter has kept the answer back", refused=True)
    text = unfenced(answer.text)
    if answer.finish == "length" and (room_for is None or len(text.split()) < room_for):
        raise Unusable(CUT, cut=True)
    return text


def unfenced(text: str) -> str:
    """What stands between ``` and ```, if there is such a block; the text as it is otherwise."""
    _, fence, inside = text.partition("```")
    if not fence:
        return text.strip()
    first, newline, rest = inside.partition("\n")
    # a word behind the fence names the language
    block = rest if newline and re.fullmatch(r"\s*[\w+-]{0,20}\s*", first) else inside
    return block.partition("```")[0].strip()


def _is_refusal(text: str) -> bool:
    return len(text.split(None, _REFUSAL_WORDS)) <= _REFUSAL_WORDS and _REFUSES.match(text) is not None


def _score(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError(value)
    return round(min(100.0, max(0.0, number)), 1)


def _number(text: str) -> float | None:
    if not re.fullmatch(r"\s*[0-9]{1,12}(\.[0-9]{0,9})?\s*", text, re.ASCII):
        return None
    return float(text)


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text[:60]).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
