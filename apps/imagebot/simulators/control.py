"""The other side of the simulated Telegram: a page to chat on, and the same for programs."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aiohttp import web

from imagebot.simulators.robots import Robots
from imagebot.simulators.telegram import TelegramSimulator
from imagebot.simulators.trouble import Trouble

PAGE = Path(__file__).parent / "page"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: http://127.0.0.1:*;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


class Control:
    """Routes that are added to the simulator's own."""

    def __init__(self, simulator: TelegramSimulator) -> None:
        self._simulator = simulator
        self._robots: Robots | None = None

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/", self.page)
        app.router.add_get("/page/{name}", self.page)
        app.router.add_get("/file/{name}", self.file)
        app.router.add_get("/control/chats", self.chats)
        app.router.add_get("/control/chat/{user}", self.chat)
        app.router.add_post("/control/say/{user}", self.say)
        app.router.add_post("/control/press/{user}", self.press)
        app.router.add_post("/control/block/{user}", self.block)
        app.router.add_post("/control/trouble", self.trouble)
        app.router.add_post("/control/robots", self.start_robots)
        app.router.add_post("/control/gates", self.gates)
        app.router.add_get("/control/stats", self.stats)

    async def page(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "chat.html")
        path = PAGE / name
        if path.parent != PAGE or path.suffix not in KINDS or not path.exists():
            return web.Response(status=404)
        return web.Response(text=path.read_text(), content_type=KINDS[path.suffix], headers=HEADERS)

    async def file(self, request: web.Request) -> web.Response:
        """A picture that was uploaded as bytes."""
        found = self._simulator.files.get(request.match_info["name"])
        return web.Response(body=found, content_type="image/png") if found else web.Response(status=404)

    async def chats(self, _: web.Request) -> web.Response:
        people = [
            {"user_id": one.user_id, "name": one.name, "language": one.language, "blocked": one.blocked}
            for one in list(self._simulator.chats.values())[:20]
        ]
        return web.json_response(people)

    async def chat(self, request: web.Request) -> web.Response:
        chat = self._simulator.chat(int(request.match_info["user"]))
        return web.json_response({"version": self._simulator.version, "messages": chat.messages[-100:]})

    async def say(self, request: web.Request) -> web.Response:
        told = await request.json()
        number = self._simulator.say(int(request.match_info["user"]), str(told["text"])[:4096])
        return web.json_response({"update_id": number})

    async def press(self, request: web.Request) -> web.Response:
        told = await request.json()
        user = int(request.match_info["user"])
        return web.json_response({"update_id": self._simulator.press(user, int(told["message_id"]), str(told["data"]))})

    async def block(self, request: web.Request) -> web.Response:
        told = await request.json()
        self._simulator.chat(int(request.match_info["user"])).blocked = bool(told["blocked"])
        return web.json_response({})

    async def trouble(self, request: web.Request) -> web.Response:
        self._simulator.trouble = Trouble.parsed((await request.json()).get("trouble", ""))
        return web.json_response({})

    async def start_robots(self, request: web.Request) -> web.Response:
        told = await request.json()
        self._robots = Robots(self._simulator, **told)
        self._robots.start()
        return web.json_response({})

    async def gates(self, request: web.Request) -> web.Response:
        """`{"one": false}`: pictures that come through /via/one wait until it is true."""
        for via, is_open in (await request.json()).items():
            gate = self._simulator.gates.setdefault(via, asyncio.Event())
            gate.set() if is_open else gate.clear()
        return web.json_response({})

    async def stats(self, request: web.Request) -> web.Response:
        simulator = self._simulator
        told: dict[str, Any] = {
            "accepted": len(simulator.accepted),
            "waiting": sum(chat.waiting.qsize() for chat in simulator.chats.values()),
            "photos": len(simulator.photos()),
            "calls": simulator.calls,
            "robots": self._robots.told() if self._robots else None,
            "held": simulator.held,
        }
        if "full" in request.query:
            told["photo_captions"] = [(user, one.get("caption", "")) for user, one in simulator.photos()]
            told["accepted_ids"] = sorted(simulator.accepted)
            told["answered"] = simulator.answered
            told["log"] = [asdict(one) for one in simulator.log]
        return web.json_response(told)
