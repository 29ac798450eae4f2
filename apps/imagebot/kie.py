"""KIE.ai: tasks are created and looked at. Errors come in the body's `code`, whatever HTTP says.

It distinguishes the known from the unknown: a createTask without an answer may have made a task.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from imagebot.pace import Pace
from imagebot.settings import Settings, revealed
from raceproof.deliveries import NotSent
from raceproof.webhooks import BadJson, parse

log = logging.getLogger("imagebot.kie")

Alarm = Callable[[int, str], Awaitable[None]]
"""Told of each answer that the admins must know of: its code, and KIE's words."""

LATER = (429, 455)
"""Too many requests, maintenance: nothing was made, ask again."""
OURS = (401, 402, 429)
"""The key is wrong, the credits are used up, too many requests: for the admins to mend, and nothing that a user can help."""
ABOUT_THE_ORDER = (422, 501)
"""KIE does not take this input, or has tried and failed: its words help the user."""
LARGEST_ANSWER = 1024 * 1024


NO_SUCH_TASK = (404, 422, 501)
"""Answers of recordInfo that are about the task; others are about us or about KIE, and pass."""


class KieRefused(Exception):
    """KIE has answered, and it is no: nothing was made, and asking again would change nothing."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"code {code} {why}".strip())
        self.code = code

    @property
    def is_about_the_order(self) -> bool:
        return self.code in ABOUT_THE_ORDER


class KieUnclear(Exception):
    """No answer, or none that can be read: what was asked for may have happened."""


@dataclass(frozen=True, slots=True)
class Task:
    """What recordInfo says about a task."""

    task_id: str
    state: str
    urls: tuple[str, ...]
    error: str
    job_id: str | None
    """Of the callBackUrl that we gave when it was made."""


class Kie:
    """A client with a pace of its own."""

    def __init__(self, session: aiohttp.ClientSession, settings: Settings, alarm: Alarm) -> None:
        self._session = session
        self._alarm = alarm
        self._base = settings.kie_api.rstrip("/")
        self._headers = {"Authorization": f"Bearer {revealed(settings.kie_api_key)}"}
        self._callback = f"{settings.public_url.rstrip('/')}/kie-callback"
        self._timeout = aiohttp.ClientTimeout(total=settings.kie_timeout, connect=10)
        self._queries = Pace(settings.kie_queries)
        self._creations = Pace(settings.kie_creations)

    async def turn_to_create(self) -> None:
        """Wait until a task may be created; before anybody says that it is on its way."""
        await self._creations.turn()

    async def create_task(self, job_id: str, model: str, asked_for: dict[str, Any]) -> str:
        """The new task's id. `NotSent`: surely none was made; `KieRefused`: nor will be; `KieUnclear`: unknown."""
        asked = {
            "model": model,
            "callBackUrl": f"{self._callback}?job={job_id}",
            "input": asked_for,
        }
        answer = await self._ask("POST", "/api/v1/jobs/createTask", json=asked)
        data = self._data(answer)
        task_id = data.get("taskId")
        if not isinstance(task_id, str) or not 0 < len(task_id) <= 200:
            raise KieUnclear("createTask was accepted without a task id")
        return task_id

    async def record_info(self, task_id: str) -> Task:
        """How far a task is, by KIE's own word."""
        await self._queries.turn()
        answer = await self._ask("GET", "/api/v1/jobs/recordInfo", params={"taskId": task_id})
        try:
            data = self._data(answer)
        except KieRefused as error:
            if error.code in NO_SUCH_TASK:
                raise
            raise KieUnclear(str(error)) from error
        if data.get("taskId") != task_id:
            raise KieUnclear("recordInfo tells of another task")
        result, param = _inner(data.get("resultJson")), _inner(data.get("param"))
        urls = tuple(one for one in result.get("resultUrls") or () if isinstance(one, str))
        failed = f"{data.get('failCode') or ''} {data.get('failMsg') or ''}".strip()[:300]
        return Task(task_id, str(data.get("state")), urls, failed, _job_of(param.get("callBackUrl")))

    async def _ask(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            async with self._session.request(
                method, self._base + path, headers=self._headers, timeout=self._timeout, **request
            ) as response:
                body = await response.content.read(LARGEST_ANSWER)
                status = response.status
        except aiohttp.ClientConnectorError as error:
            raise NotSent(f"KIE cannot be reached: {type(error).__name__}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise KieUnclear(f"no answer of KIE: {type(error).__name__}") from error
        try:
            told = parse(body)
        except BadJson:
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("code"), int):
            if status not in OURS:
                raise KieUnclear(f"KIE answered HTTP {status} without a code")
            told = {"code": status, "msg": "no reason given"}
        if told["code"] in OURS:
            await self._tell_admins(told["code"], _why(told))
        return told

    async def _tell_admins(self, code: int, why: str) -> None:
        """An alarm that fails must not change what KIE's answer means."""
        try:
            await self._alarm(code, why)
        except Exception as error:
            log.warning("[KIE_ALARM] code %s could not be told to the admins: %s", code, type(error).__name__)

    def _data(self, told: dict[str, Any]) -> dict[str, Any]:
        code = told["code"]
        if code in LATER:
            raise NotSent(f"KIE: code {code}")
        if code != 200:
            raise KieRefused(code, _why(told))
        data = told.get("data")
        if not isinstance(data, dict):
            raise KieUnclear("KIE answered 200 without data")
        return data


def _why(told: dict[str, Any]) -> str:
    return str(told.get("msg") or told.get("message") or "")[:200]


def _inner(text: Any) -> dict[str, Any]:
    """JSON that comes as a text inside of JSON; of another shape it is as good as none."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _job_of(url: Any) -> str | None:
    named = parse_qs(urlsplit(url).query).get("job") if isinstance(url, str) else None
    return named[0] if named else None
