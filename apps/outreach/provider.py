"""A simulated AI provider: a server of its own that speaks the chat API and is slow, fails, answers twice, and charges.

It answers the same for the same question, honours `Idempotency-Key`, and keeps a ledger: how often it was asked for each
intent, whether two asked for the same at once, and what was charged. `GET /ledger` tells.
"""

import asyncio
import hashlib
import json
import random
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from outreach import built_in
from outreach.built_in import Podcast, Wanted
from raceproof.intake import BadJson, parse


class Provider:
    """What it does wrong, and what it remembers."""

    def __init__(self, key: str, *, slow: float, fail: float, twice: float, poison: float, seed: int) -> None:
        self._key = key
        self._slow = slow
        self._fail = fail
        self._twice = twice
        self._poison = poison
        self._random = random.Random(seed)
        self._answered: dict[str, str] = {}
        self._under_way: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.failed = 0
        self.overlaps = 0
        self.charged = 0

    def allowed(self, request: Request) -> bool:
        told = request.headers.get("authorization", "").encode()
        return secrets.compare_digest(told, f"Bearer {self._key}".encode())

    async def answer(
        self, told: dict[str, Any], intent: str, gone: Callable[[], Awaitable[None]]
    ) -> Response:
        """Answer one call, unless whoever asked is gone."""
        content = str(told["messages"][-1]["content"])
        self.calls[intent] += 1
        if self._under_way[intent]:
            self.overlaps += 1
        self._under_way[intent] += 1
        try:
            if self._slow and await _comes(gone(), within=self._random.expovariate(1 / self._slow)):
                return Response(status_code=499)
        finally:
            self._under_way[intent] -= 1
        if _chance(content) < self._poison:
            self.failed += 1
            return JSONResponse({"error": {"message": "the content cannot be processed"}}, 500)
        if self._random.random() < self._fail:
            self.failed += 1
            after = {"retry-after": "0"} if self._random.random() < 0.5 else {}
            return JSONResponse({"error": {"message": "overloaded"}}, 429 if after else 503, headers=after)
        text = self._answered.get(intent)
        if text is None:
            text = self._answered[intent] = _text(json.loads(content))
            self.charged += 1
        choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
        if self._random.random() < self._twice:
            choices.append({**choices[0], "index": 1, "message": {"role": "assistant", "content": "again"}})
        usage = {"prompt_tokens": len(content) // 4, "completion_tokens": len(text) // 4}
        return JSONResponse({"id": intent, "object": "chat.completion", "choices": choices, "usage": usage})

    def ledger(self) -> dict[str, Any]:
        return {
            "calls": self.calls.total(),
            "intents": len(self.calls),
            "answered": len(self._answered),
            "failed": self.failed,
            "overlaps": self.overlaps,
            "charged": self.charged,
            "most_for_one": max(self.calls.values(), default=0),
        }


def provider_app(provider: Provider) -> FastAPI:
    """The server."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        if not provider.allowed(request):
            return JSONResponse({"error": {"message": "Incorrect API key provided"}}, 401)
        try:
            told = parse(await request.body())
            intent = request.headers.get("idempotency-key") or secrets.token_hex(8)
            return await provider.answer(told, intent, partial(_disconnected, request))
        except (BadJson, KeyError, TypeError, IndexError, ValueError) as error:
            return JSONResponse({"error": {"message": f"bad request: {type(error).__name__}"}}, 400)

    @app.get("/ledger")
    async def ledger() -> dict[str, Any]:
        return provider.ledger()

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
    wanted = Wanted(told["campaign"]["keywords"], told["campaign"]["ideal_podcast"])
    return json.dumps({"scores": built_in.score(podcast, str(one["ai_description"]), wanted)})


def _chance(text: str) -> float:
    """A number from 0 to 1, always the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48
