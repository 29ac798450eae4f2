"""Questions to an API of the OpenAI kind: which request is sent, and what its failures mean.

A parameter that a provider rejects is left out from then on. The same request is never sent twice for an answer that
could not be used: the one repetition has more room, or other words.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from outreach.answers import MOST_BYTES, Problem, delay_of, problem, public
from outreach.bounded import TooLarge, read_bounded
from outreach.settings import Settings

MOST_TOKENS = 700
ROOM = 3
"""How many times as much room the repetition of an answer has that was cut off."""
REMINDER = (
    "Your last answer to this could not be used. Answer exactly in the form that is asked for, and with nothing else."
)
_QUOTA = (402,)
_REQUEST = (400, 413, 415, 422)
_ADDRESS = (301, 302, 303, 307, 308, 404, 405, 410)


@dataclass(frozen=True, slots=True)
class Question:
    """One question: instructions, and data that are no instructions."""

    kind: str
    system: str
    content: str
    schema: Mapping[str, Any] | None = None
    """Of the JSON that is wanted; None for a text."""


class Failed(Exception):
    """A call without an answer. `kind`: unreachable, key, quota, rate, address, request, silent or trouble."""

    def __init__(
        self,
        kind: str,
        reason: str,
        outcome: str,
        *,
        for_all: bool = False,
        seconds: float | None = None,
        parameter: str = "",
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.outcome = outcome
        """For the ledger: `not sent`, `failed`, `rejected` or `unknown`."""
        self.for_all = for_all
        """It says nothing of this question: every other call would fail as well."""
        self.seconds = seconds
        """For which the provider wants to be left alone."""
        self.parameter = parameter
        """Of the request, which the provider says is wrong."""


@dataclass
class Terms:
    """What the provider does not take, as far as it has said so to this process."""

    without: set[str] = field(default_factory=set)


class Chat:
    """POST /chat/completions, with an end for every call, cancellable at any time."""

    def __init__(self, settings: Settings) -> None:
        assert settings.ai_key is not None
        self._seconds = settings.ai_timeout
        self._secrets = [settings.ai_key.get_secret_value()]
        self._terms = Terms()
        self._client = httpx.AsyncClient(
            base_url=settings.ai_url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {self._secrets[0]}", "Accept-Encoding": "identity"},
            timeout=settings.ai_timeout,
            trust_env=False,
            follow_redirects=False,
        )
        self.model = settings.ai_model

    async def close(self) -> None:
        await self._client.aclose()

    def request(self, question: Question, again: str = "") -> dict[str, Any]:
        """The request: the first, one with more `room`, or one in other `words`."""
        messages = [
            {"role": "system", "content": question.system},
            {"role": "user", "content": question.content},
        ]
        if again == "words":
            messages.insert(1, {"role": "system", "content": REMINDER})
        room = MOST_TOKENS * (ROOM if again == "room" else 1)
        request: dict[str, Any] = {"model": self.model, "messages": messages}
        without = self._terms.without
        request["max_completion_tokens" if "max_tokens" in without else "max_tokens"] = room
        if "temperature" not in without:
            request["temperature"] = 0.4 if again == "words" else 0
        if question.schema is not None and "response_format" not in without:
            form = {"name": question.kind, "strict": True, "schema": question.schema}
            request["response_format"] = {"type": "json_schema", "json_schema": form}
        return request

    def adapts(self, request: Mapping[str, Any], failed: Failed) -> bool:
        """Whether the provider has rejected a parameter that can be left out; it is from now on."""
        if failed.kind != "request":
            return False
        said = f"{failed.parameter} {failed}"
        for name in ("max_tokens", "temperature", "response_format"):
            # not all say which one they mean, and most that say nothing mean the last
            if name in request and (name in said or name == "response_format"):
                self._terms.without.add(name)
                return True
        return False

    async def send(self, request: Mapping[str, Any], intent: str) -> bytes:
        """The body of an answer, or `Failed`."""
        try:
            async with asyncio.timeout(self._seconds):
                built = self._client.build_request(
                    "POST", "chat/completions", json=request, headers={"Idempotency-Key": intent}
                )
                answer = await self._client.send(built, stream=True)
                try:
                    body = await read_bounded(answer, MOST_BYTES)
                finally:
                    await answer.aclose()
        except (
            httpx.ConnectError,
            httpx.ConnectTimeout,
            httpx.PoolTimeout,
            httpx.UnsupportedProtocol,
        ) as error:
            why = f"the AI provider cannot be reached: {public(str(error), self._secrets) or type(error).__name__}"
            raise Failed("unreachable", why, "not sent", for_all=True) from None
        except (TimeoutError, httpx.TimeoutException):
            why = f"the AI provider has not answered within {self._seconds:g} s"
            raise Failed("silent", why, "unknown") from None
        except (httpx.HTTPError, TooLarge) as error:
            why = (
                f"the answer of the AI provider broke off: {public(str(error), self._secrets) or type(error).__name__}"
            )
            raise Failed("trouble", why, "unknown") from None
        if answer.status_code == 200:
            return body
        found = problem(answer.status_code, body, self._secrets)
        raise classified(answer.status_code, found, delay_of(answer.headers))


def classified(status: int, found: Problem, seconds: float | None) -> Failed:
    """Whose fault an answer other than 200 is."""
    said = f"{found.code} {found.message}".lower()
    if status in _QUOTA or (status == 429 and any(word in said for word in ("quota", "billing", "credit"))):
        return Failed("quota", found.message, "failed", for_all=True, seconds=seconds)
    if status == 401 or (status == 400 and "api key" in said):
        return Failed("key", found.message, "failed", for_all=True, seconds=seconds)
    if status == 403:  # of the key, or of this content alone
        return Failed("key", found.message, "failed", seconds=seconds)
    if status == 429:
        return Failed("rate", found.message, "failed", for_all=seconds is not None, seconds=seconds)
    if status in _ADDRESS or "model_not_found" in said:
        return Failed("address", found.message, "failed", for_all=True)
    if status in _REQUEST:
        return Failed("request", found.message, "rejected", parameter=found.parameter)
    return Failed("trouble", found.message, "failed", for_all=bool(seconds), seconds=seconds)
