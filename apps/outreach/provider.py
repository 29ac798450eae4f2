"""A simulated AI provider: a server of its own that speaks the chat API, is slow, fails, misbehaves, and charges for each
answer.

It keeps a log of every call: who asked, what for (by the content, not by the caller's own key), from when to when, how
many were under way, how it ended. `GET /ledger` sums up, `GET /log` tells all, `POST /control` begins and ends an outage.
What it does wrong for a content it does for the same content every time.
"""

import asyncio
import hashlib
import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from outreach import built_in
from outreach.built_in import Podcast, Wanted
from raceproof.webhooks import BadJson, parse

REFUSAL = "I'm sorry, but I can't help with that."
ROOM = 2000
"""Tokens that an answer needs which is cut off."""
OUTAGES: dict[str, tuple[int, dict[str, str], dict[str, str]]] = {
    "down": (503, {}, {"message": "The server is overloaded", "code": "server_error"}),
    "key": (
        401,
        {},
        {"message": "Incorrect API key provided: sk-canary-1234567890", "code": "invalid_api_key"},
    ),
    "quota": (429, {}, {"message": "You exceeded your current quota", "code": "insufficient_quota"}),
    "rate": (429, {"retry-after": "1.5"}, {"message": "Rate limit reached", "code": "rate_limit_exceeded"}),
}


@dataclass
class Wrong:
    """The shares of contents, or of calls, for which it does something wrong."""

    fail: float = 0.0
    """Of calls: 429 or 503."""
    twice: float = 0.0
    """Of answers: a second choice beside the first."""
    poison: float = 0.0
    """Of contents: 500, always."""
    fenced: float = 0.0
    """Of contents: the answer in a block of Markdown."""
    garbled: float = 0.0
    """Of contents: unreadable, unless it is asked in another way."""
    refuses: float = 0.0
    cut: float = 0.0
    """Of contents: cut off, unless there is more room."""
    rejects: float = 0.0
    """Of contents: 400."""


@dataclass
class Call:
    """One call, as the provider saw it."""

    by: str
    intent: str
    product: str
    began: float
    at_once: int
    ended: float = 0.0
    end: str = "under way"
    words: str = ""
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass
class Provider:
    """What it does wrong, and what it remembers."""

    key: str = field(repr=False)
    slow: float = 0.0
    wrong: Wrong = field(default_factory=Wrong)
    seed: int = 1
    outage: str = ""
    steady: float = 0.0
    """Seconds for each answer, if not as chance has it."""
    calls: list[Call] = field(default_factory=list)
    overlaps: int = 0
    """Times that a product was asked for while it was asked for already."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._under_way: Counter[str] = Counter()

    def caller(self, request: Request) -> str | None:
        """Who asks: the key, and behind a dot a name that an instance may add to it; None if the key is wrong."""
        told = request.headers.get("authorization", "")
        key, _, name = told.removeprefix("Bearer ").partition(".")
        return name or "one" if secrets.compare_digest(key.encode(), self.key.encode()) else None

    async def answer(self, by: str, told: dict[str, Any], intent: str, gone: Callable[[], Awaitable[None]]) -> Response:
        """Answer one call, unless whoever asked is gone."""
        content = json.loads(str(told["messages"][-1]["content"]))
        product = _product(content)
        self.overlaps += self._under_way[product] > 0
        self._under_way[product] += 1
        call = Call(by, intent, product, time.time(), self._under_way.total())
        self.calls.append(call)
        try:
            if (seconds := self._seconds()) and await _comes(gone(), within=seconds):
                call.end = "gone"
                return Response(status_code=499)
            return self._end(call, told, content)
        finally:
            self._under_way[product] -= 1
            call.ended = time.time()

    def _seconds(self) -> float:
        if self.steady:
            return self.steady
        return self._random.expovariate(1 / self.slow) if self.slow else 0.0

    def _end(self, call: Call, told: dict[str, Any], content: dict[str, Any]) -> Response:
        wrong = self.wrong
        if self.outage:
            call.end = self.outage
            status, headers, error = OUTAGES[self.outage]
            return JSONResponse({"error": error}, status, headers=headers)
        if _chance(call.product, "poison") < wrong.poison:
            call.end = "poison"
            return JSONResponse({"error": {"message": "the content cannot be processed"}}, 500)
        if _chance(call.product, "rejects") < wrong.rejects:
            call.end = "rejected"
            error = {
                "message": "This model's maximum context length is 4 tokens",
                "code": "context_length_exceeded",
            }
            return JSONResponse({"error": error}, 400)
        if self._random.random() < wrong.fail:
            call.end = "failed"
            after = {"retry-after": "0"} if self._random.random() < 0.5 else {}
            return JSONResponse({"error": {"message": "overloaded"}}, 429 if after else 503, headers=after)
        text, finish = _text(content), "stop"
        call.end, call.words = "answered", text[:300]
        if _chance(call.product, "refuses") < wrong.refuses:
            text, call.end = REFUSAL, "refused"
        elif _chance(call.product, "cut") < wrong.cut and int(told.get("max_tokens") or 0) < ROOM:
            text, finish, call.end = text[: len(text) // 2], "length", "cut"
        elif _chance(call.product, "garbled") < wrong.garbled and len(told["messages"]) == 2 and "criteria" in content:
            text, call.end = "Here are the scores: 80, 70, 60.", "garbled"
        elif _chance(call.product, "fenced") < wrong.fenced:
            text = f"Sure!\n```json\n{text}\n```\nAnything else?"
        choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}]
        if self._random.random() < wrong.twice:
            choices.append({**choices[0], "index": 1, "message": {"role": "assistant", "content": "again"}})
        call.tokens_in, call.tokens_out = len(json.dumps(content)) // 4, len(text) // 4
        usage = {"prompt_tokens": call.tokens_in, "completion_tokens": call.tokens_out}
        body = {"id": call.intent, "object": "chat.completion", "choices": choices, "usage": usage}
        return JSONResponse(body)

    def ledger(self) -> dict[str, Any]:
        paid = [call for call in self.calls if call.end in PAID]
        return {
            "calls": len(self.calls),
            "products": len({call.product for call in self.calls}),
            "intents": len({call.intent for call in self.calls}),
            "answered": sum(call.end == "answered" for call in self.calls),
            "charged": len(paid),
            "failed": sum(call.end in ("failed", "poison") for call in self.calls),
            "overlaps": self.overlaps,
            "peak": max((call.at_once for call in self.calls), default=0),
            "ends": dict(Counter(call.end for call in self.calls)),
        }


PAID = ("answered", "refused", "cut", "garbled")


def provider_app(provider: Provider) -> FastAPI:
    """The server."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        by = provider.caller(request)
        if by is None:
            return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
        try:
            told = parse(await request.body())
            intent = request.headers.get("idempotency-key") or secrets.token_hex(8)
            return await provider.answer(by, told, intent, partial(_disconnected, request))
        except (BadJson, KeyError, TypeError, IndexError, ValueError) as error:
            return JSONResponse({"error": {"message": f"bad request: {type(error).__name__}"}}, 400)

    @app.get("/ledger")
    async def ledger() -> dict[str, Any]:
        return provider.ledger()

    @app.get("/log")
    async def log() -> list[dict[str, Any]]:
        return [asdict(call) for call in provider.calls]

    @app.get("/under-way")
    async def under_way() -> list[str]:
        """Who has a call under way."""
        return sorted({call.by for call in provider.calls[-100:] if not call.ended})

    @app.post("/control")
    async def control(told: dict[str, str | float]) -> dict[str, str | float]:
        """{"outage": "down"}, or "" for its end; {"steady": 1.5} for slow answers."""
        if "outage" in told:
            provider.outage = str(told["outage"]) if told["outage"] in OUTAGES else ""
        provider.steady = float(told.get("steady", provider.steady))
        return {"outage": provider.outage, "steady": provider.steady}

    return app


async def _disconnected(request: Request) -> None:
    """Comes when the connection of a request is closed."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _comes(event: Awaitable[None], within: float) -> bool:
    """Whether it comes in this time; it is not waited for any longer."""
    try:
        async with asyncio.timeout(within):
            await event
    except TimeoutError:
        return False
    return True


def _product(told: dict[str, Any]) -> str:
    """What is asked for, by the content alone: a podcast's description, or how it fits a campaign."""
    name = str(told["podcast"]["name"])
    if "criteria" not in told:
        return f"describe {name}"
    return f"vet {name} for {' '.join(map(str, told['campaign']['keywords']))}"


def _text(told: dict[str, Any]) -> str:
    """As a diligent model would answer."""
    one = told["podcast"]
    podcast = Podcast(
        name=str(one["name"]),
        description=str(one["description"]),
        categories=one["categories"],
        hosts=one["hosts"],
        language=one["language"],
        quality=0.0,
        parts=one["quality"],
        episodes=[(episode["title"], episode["summary"]) for episode in one["episodes"]],
    )
    if "criteria" not in told:
        return built_in.describe(podcast)
    campaign = told["campaign"]
    wanted = Wanted(campaign["keywords"], campaign["ideal_podcast"], campaign.get("language"))
    return json.dumps({"scores": built_in.score(podcast, str(one["ai_description"]), wanted)})


def _chance(text: str, what: str) -> float:
    """A number from 0 to 1, always the same for the same text."""
    return int.from_bytes(hashlib.sha256(f"{what} {text}".encode()).digest()[:6]) / 2**48
