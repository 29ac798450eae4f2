"""KIE.ai, simulated: createTask, recordInfo and signed callbacks, with errors in the body's `code`."""

import asyncio
import base64
import hashlib
import hmac
import json
import random
import secrets
import time
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from imagebot.simulators.painting import paint
from imagebot.simulators.trouble import Trouble

RATIOS = ("1:1", "4:3", "3:4", "16:9", "9:16")
WORDS = {"landscape": "16:9", "portrait": "9:16"}
VIDEO = b"\x00\x00\x00\x18ftypmp42 a film of nothing"


@dataclass
class SimulatedTask:
    task_id: str
    model: str
    param: dict[str, Any]
    state: str = "waiting"
    made: float = 0.0
    ended: float = 0.0

    @property
    def is_video(self) -> bool:
        return "video" in self.model or "seedance" in self.model

    @property
    def prompt(self) -> str:
        return str(self.param["input"]["prompt"])


class KieSimulator:
    """One server; `address` is where results are fetched from."""

    def __init__(self, api_key: str, webhook_key: str, trouble: Trouble, seconds: float = 4.0, size: int = 192) -> None:
        self.trouble = trouble
        self.tasks: dict[str, SimulatedTask] = {}
        self.address = ""
        self.callbacks_sent = 0
        self.expired: set[str] = set()
        self.refusals: list[tuple[int, str]] = []
        """Answers to the next requests of the bot, instead of doing anything; the last one stays."""
        self.looks = 0
        """How often a task was asked about."""
        self.gate = asyncio.Event()
        """While it is closed, no task ends."""
        self.gate.set()
        self._api_key = api_key
        self._webhook_key = webhook_key
        self._seconds = seconds
        self._size = size
        self._working: set[asyncio.Task[None]] = set()
        self._http: aiohttp.ClientSession | None = None

    def routed(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/v1/jobs/createTask", self.create_task)
        app.router.add_get("/api/v1/jobs/recordInfo", self.record_info)
        app.router.add_get("/result/{task}.{kind:png|mp4}", self.result)
        app.router.add_get("/control/tasks", self.listed)
        app.router.add_post("/control/trouble", self.make_trouble)
        app.router.add_post("/control/callback/{task}", self.call_back_now)
        app.on_cleanup.append(self._close)
        return app

    async def create_task(self, request: web.Request) -> web.StreamResponse:
        if (refused := self._refused(request)) is not None:
            return refused
        try:
            told = await request.json()
            prompt, ratio = told["input"]["prompt"], _ratio(told["input"])
            if not isinstance(prompt, str) or not 0 < len(prompt) <= 5000 or ratio not in RATIOS:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            return _answer(422, "the parameters are not valid")
        task = SimulatedTask(secrets.token_hex(16), told["model"], told, made=time.time())
        self.tasks[task.task_id] = task
        work = asyncio.create_task(self._work(task))
        self._working.add(work)
        work.add_done_callback(self._working.discard)
        if self.trouble.strikes("vanish"):
            return await _vanish(request)
        return _answer(200, "success", {"taskId": task.task_id})

    async def record_info(self, request: web.Request) -> web.StreamResponse:
        if (refused := self._refused(request)) is not None:
            return refused
        self.looks += 1
        task = self.tasks.get(request.query.get("taskId", ""))
        return _answer(200, "success", self._data(task)) if task else _answer(404, "no such task")

    async def result(self, request: web.Request) -> web.StreamResponse:
        task = self.tasks.get(request.match_info["task"])
        if task is None or task.state != "success" or task.task_id in self.expired:
            return web.Response(status=404)
        if task.is_video:
            return web.Response(body=VIDEO, content_type="video/mp4")
        wide, _, high = _ratio(task.param["input"]).partition(":")
        picture = paint(task.prompt, self._size, (int(wide), int(high)))
        return web.Response(body=picture, content_type="image/png")

    async def listed(self, _: web.Request) -> web.Response:
        """For tests and storms: every task that was ever made, with the URL that it was made for."""
        told = [
            {"task_id": one.task_id, "state": one.state, "callBackUrl": one.param.get("callBackUrl")}
            for one in self.tasks.values()
        ]
        return web.json_response({"tasks": told, "callbacks_sent": self.callbacks_sent})

    async def make_trouble(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.trouble = Trouble.parsed(told.get("trouble", ""))
        self.expired.update(told.get("expire", ()))
        return web.json_response({})

    async def call_back_now(self, request: web.Request) -> web.Response:
        """Send the callback of a task (again); answers with the status that it was answered with."""
        task = self.tasks.get(request.match_info["task"])
        return web.json_response({"status": await self._call_back(task) if task else 0})

    async def _work(self, task: SimulatedTask) -> None:
        task.state = "queuing"
        await asyncio.sleep(self._seconds * random.uniform(0.1, 0.4))
        task.state = "generating"
        await asyncio.sleep(self._seconds * random.uniform(0.3, 0.9))
        await self.gate.wait()
        failing = self.trouble.strikes("fail") or "please fail" in task.prompt
        task.state, task.ended = "fail" if failing else "success", time.time()
        if self.trouble.strikes("lost"):
            return
        if self.trouble.strikes("late"):
            await asyncio.sleep(self._seconds * 3)
        await self._call_back(task)
        if self.trouble.strikes("duplicate"):
            await asyncio.sleep(random.choice((0.0, 1.1)))
            await self._call_back(task)

    async def _call_back(self, task: SimulatedTask) -> int:
        """Signed over task and timestamp, as KIE does: the body is not covered."""
        url = task.param.get("callBackUrl")
        if not url:
            return 0
        moment = str(int(time.time()))
        digest = hmac.digest(self._webhook_key.encode(), f"{task.task_id}.{moment}".encode(), hashlib.sha256)
        headers = {
            "X-Webhook-Timestamp": moment,
            "X-Webhook-Signature": base64.b64encode(digest).decode(),
        }
        code = 200 if task.state == "success" else 501
        data = {**self._data(task), "consumeCredits": 1, "remainedCredits": 1000}
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=15),
                connector=aiohttp.TCPConnector(limit=40),
                trust_env=False,
            )
        self.callbacks_sent += 1
        try:
            async with self._http.post(url, json={"code": code, "data": data, "msg": ""}, headers=headers) as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    def _data(self, task: SimulatedTask) -> dict[str, Any]:
        urls = [f"{self.address}/result/{task.task_id}.{'mp4' if task.is_video else 'png'}"]
        failed = task.state == "fail"
        return {
            "taskId": task.task_id,
            "model": task.model,
            "state": task.state,
            "param": json.dumps(task.param),
            "resultJson": json.dumps({"resultUrls": urls}) if task.state == "success" else None,
            "failCode": "501" if failed else None,
            "failMsg": "the painter gave up" if failed else None,
            "costTime": round((task.ended - task.made) * 1000) if task.ended else None,
            "completeTime": round(task.ended * 1000) or None,
            "createTime": round(task.made * 1000),
            "updateTime": round(time.time() * 1000),
        }

    def _refused(self, request: web.Request) -> web.Response | None:
        if not self._knows(request):
            return _answer(401, "you do not have access permissions")
        if self.refusals:
            return _answer(*(self.refusals.pop(0) if len(self.refusals) > 1 else self.refusals[0]))
        return _answer(429, "too many requests") if self.trouble.strikes("too_many") else None

    def _knows(self, request: web.Request) -> bool:
        told = request.headers.get("Authorization", "")
        return hmac.compare_digest(told.encode(), f"Bearer {self._api_key}".encode())

    async def _close(self, _: web.Application) -> None:
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        if self._http is not None:
            await self._http.close()


def _ratio(told: dict[str, Any]) -> str:
    """Each model has a name of its own for it."""
    ratio = str(told["aspect_ratio"] if "aspect_ratio" in told else told["image_size"])
    return WORDS.get(ratio, ratio)


def _answer(code: int, message: str, data: dict[str, Any] | None = None) -> web.Response:
    return web.json_response({"code": code, "msg": message, "data": data})


async def _vanish(request: web.Request) -> web.StreamResponse:
    """The task is done, but no callback is sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
