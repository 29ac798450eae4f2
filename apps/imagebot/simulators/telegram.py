"""Telegram, simulated: the Bot API for the bot, webhooks for its updates, and chats that people or robots write in.

Updates of a user are sent one after the other, again until they are answered with 2xx. Bot tokens are not checked beyond
being the right one.
"""

import asyncio
import hmac
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from imagebot.simulators.trouble import Trouble

Message = dict[str, Any]
Listener = Callable[[int, Message], None]


@dataclass
class Chat:
    """A private chat of one user with the bot."""

    user_id: int
    name: str
    language: str
    messages: list[Message] = field(default_factory=list)
    waiting: asyncio.Queue[tuple[int, dict[str, Any]]] = field(default_factory=asyncio.Queue)
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """Something that the bot has put into a chat, as Telegram has seen it: when, through which address, and what."""

    at: float
    via: str
    method: str
    user: int
    words: str
    button: str


class TelegramSimulator:
    """One bot, many chats."""

    def __init__(self, token: str, trouble: Trouble, connections: int = 40) -> None:
        self.trouble = trouble
        self.chats: dict[int, Chat] = {}
        self.webhook = ""
        self.secret = ""
        self.version = 0
        """Grows with every visible change."""
        self.accepted: set[int] = set()
        self.listeners: list[Listener] = []
        self.calls: dict[str, int] = {}
        self.log: list[Call] = []
        """For those who want to know which instance did what: each may have an address of its own, `/via/NAME`."""
        self.gates: dict[str, asyncio.Event] = {}
        """As `photo_gate`, for the pictures that come through one address."""
        self.held: list[tuple[str, str]] = []
        """Pictures that wait at a gate: through which address, and their caption."""
        self.files: dict[str, bytes] = {}
        self.answered: list[float] = []
        """Seconds that the bot took to answer each webhook."""
        self.photo_gate = asyncio.Event()
        """While it is closed, pictures wait before anything is done with them."""
        self.photo_gate.set()
        self.waiting_photos = 0
        self.refusals: list[tuple[int, str]] = []
        """Answers to the next pictures, instead of taking them."""
        self._token = token
        self._next_update = int(time.time() - 1_700_000_000) * 8
        self._next_message = 0
        self._places = asyncio.Semaphore(connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._http: aiohttp.ClientSession | None = None

    def routed(self) -> web.Application:
        app = web.Application(client_max_size=60 * 1024 * 1024)
        app.router.add_route("*", "/bot{token}/{method}", self.bot_api)
        app.router.add_route("*", "/via/{via}/bot{token}/{method}", self.bot_api)
        app.on_cleanup.append(self._close)
        return app

    # What users do.

    def chat(self, user_id: int, name: str = "", language: str = "en") -> Chat:
        if user_id not in self.chats:
            chat = Chat(user_id, name or f"user {user_id}", language)
            self.chats[user_id] = chat
            self._spawn(self._send_updates(chat))
        return self.chats[user_id]

    def say(self, user_id: int, text: str) -> int:
        """A user writes; returns the update's number."""
        chat = self.chat(user_id)
        message = self._message(chat, text=text, sender=_user(chat))
        return self._update(chat, message={**message, "chat": _chat(chat)})

    def press(self, user_id: int, message_id: int, data: str) -> int:
        """A user presses a button of the bot's message."""
        chat = self.chat(user_id)
        pressed = next((one for one in chat.messages if one["message_id"] == message_id), None)
        if pressed is None:
            return 0
        query = {
            "id": str(random.getrandbits(60)),
            "from": _user(chat),
            "chat_instance": str(user_id),
            "data": data,
            "message": {**pressed, "chat": _chat(chat)},
        }
        return self._update(chat, callback_query=query)

    def photos(self) -> list[tuple[int, Message]]:
        return [(chat.user_id, one) for chat in self.chats.values() for one in chat.messages if one.get("photo")]

    def _update(self, chat: Chat, **content: Any) -> int:
        self._next_update += 1
        update = {"update_id": self._next_update, **content}
        chat.waiting.put_nowait((self._next_update, update))
        if self.trouble.strikes("duplicate"):
            chat.waiting.put_nowait((self._next_update, update))
        return self._next_update

    async def _send_updates(self, chat: Chat) -> None:
        while True:
            number, update = await chat.waiting.get()
            rest = 0.0
            while True:
                async with self._places:
                    status, after = await self._post(update)
                if 200 <= status < 300:
                    self.accepted.add(number)
                    break
                await asyncio.sleep(after if after is not None else rest)
                rest = min(2 * rest or 0.5, 8.0)

    async def _post(self, update: dict[str, Any]) -> tuple[int, float | None]:
        if not self.webhook:
            return 0, 0.2
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=60),
                connector=aiohttp.TCPConnector(limit=64),
                trust_env=False,
            )
        headers = {"X-Telegram-Bot-Api-Secret-Token": self.secret} if self.secret else {}
        began = time.monotonic()
        try:
            async with self._http.post(self.webhook, json=update, headers=headers) as answer:
                after = answer.headers.get("Retry-After", "")
                self.answered.append(time.monotonic() - began)
                return answer.status, min(float(after), 2.0) if after.isdigit() else None
        except (aiohttp.ClientError, TimeoutError):
            return 0, None

    # What the bot does.

    async def bot_api(self, request: web.Request) -> web.StreamResponse:
        if not hmac.compare_digest(request.match_info["token"].encode(), self._token.encode()):
            return _error(401, "Unauthorized")
        method = request.match_info["method"]
        told, files = await _parameters(request)
        told["via"] = request.match_info.get("via", "")
        self.calls[method] = self.calls.get(method, 0) + 1
        handler = getattr(self, f"_{method.lower()}", None)
        if handler is None:
            return _error(404, "Not Found")
        if method.startswith("send") and self.trouble.strikes("too_many"):
            return _error(429, "Too Many Requests: retry after 1", {"retry_after": 1})
        try:
            result = await handler(told, files)
        except _Refused as refused:
            parameters = {"retry_after": 1} if refused.code == 429 else None
            return _error(refused.code, str(refused), parameters)
        if method.startswith("send") and self.trouble.strikes("vanish"):
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        return web.json_response({"ok": True, "result": result})

    async def _getme(self, told: Message, files: Message) -> Any:
        return {
            "id": int(self._token.split(":")[0]),
            "is_bot": True,
            "first_name": "imagebot",
            "username": "imagebot",
        }

    async def _setwebhook(self, told: Message, files: Message) -> Any:
        self.webhook, self.secret = told.get("url", ""), told.get("secret_token", "")
        return True

    async def _deletewebhook(self, told: Message, files: Message) -> Any:
        self.webhook = ""
        return True

    async def _getwebhookinfo(self, told: Message, files: Message) -> Any:
        waiting = sum(chat.waiting.qsize() for chat in self.chats.values())
        return {"url": self.webhook, "has_custom_certificate": False, "pending_update_count": waiting}

    async def _answercallbackquery(self, told: Message, files: Message) -> Any:
        return True

    async def _sendmessage(self, told: Message, files: Message) -> Any:
        chat = self._open_chat(told)
        if not 0 < len(told.get("text", "")) <= 4096:
            raise _Refused(400, "Bad Request: message text is empty or too long")
        self._note("sendMessage", told, told["text"])
        return self._tell(chat, self._message(chat, text=told["text"], **_markup(told)))

    async def _sendphoto(self, told: Message, files: Message) -> Any:
        chat = self._open_chat(told)
        self.waiting_photos += 1
        await self.photo_gate.wait()
        await self._wait_at_gate(told)
        if self.refusals:
            raise _Refused(*self.refusals.pop(0))
        kind = "video" if "video" in told else "photo"
        photo = told.get(kind, "")
        if photo.startswith("attach://"):
            name = f"f{len(self.files)}"
            self.files[name] = files[photo.removeprefix("attach://")]
            source = f"file/{name}"
        elif self.trouble.strikes("refuse_urls") or not await self._can_fetch(photo, kind):
            raise _Refused(400, "Bad Request: failed to get HTTP URL content")
        else:
            source = photo
        self._note("sendPhoto", told, told.get("caption", ""))
        size = {"file_id": source, "file_unique_id": source, "width": 192, "height": 192}
        content = {"photo": [size]} if kind == "photo" else {"video": {**size, "duration": 5}}
        return self._tell(chat, self._message(chat, caption=told.get("caption", ""), **content))

    async def _sendvideo(self, told: Message, files: Message) -> Any:
        return await self._sendphoto(told, files)

    async def _wait_at_gate(self, told: Message) -> None:
        gate, waiting = self.gates.get(told["via"]), (told["via"], str(told.get("caption", "")))
        if gate is None:
            return
        self.held.append(waiting)
        try:
            await gate.wait()
        finally:
            self.held.remove(waiting)

    def _note(self, method: str, told: Message, words: str) -> None:
        rows = (_markup(told).get("reply_markup") or {}).get("inline_keyboard") or [[{}]]
        button = str(rows[0][0].get("callback_data", "")) if rows[0] else ""
        self.log.append(Call(time.time(), told["via"], method, int(told["chat_id"]), words, button))

    async def _senddocument(self, told: Message, files: Message) -> Any:
        return await self._sendphoto({**told, "photo": told.get("document", "")}, files)

    async def _editmessagetext(self, told: Message, files: Message) -> Any:
        chat = self._open_chat(told)
        number = int(told["message_id"])
        for message in chat.messages:
            if message["message_id"] == number:
                changed = {"text": told["text"], "reply_markup": None, **_markup(told)}
                if all(message.get(name) == value for name, value in changed.items()):
                    raise _Refused(400, "Bad Request: message is not modified")
                message.update(changed)
                return self._tell(chat, message)
        raise _Refused(400, "Bad Request: message to edit not found")

    async def _can_fetch(self, url: str, kind: str) -> bool:
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20), trust_env=False)
        try:
            async with self._http.get(url) as answer:
                return answer.status == 200 and answer.content_type.startswith(
                    "video/" if kind == "video" else "image/"
                )
        except (aiohttp.ClientError, ValueError, TimeoutError):
            return False

    def _open_chat(self, told: Message) -> Chat:
        chat = self.chats.get(int(told["chat_id"]))
        if chat is None:
            raise _Refused(400, "Bad Request: chat not found")
        if chat.blocked:
            raise _Refused(403, "Forbidden: bot was blocked by the user")
        return chat

    def _message(self, chat: Chat, sender: Message | None = None, **content: Any) -> Message:
        self._next_message += 1
        bot = {"id": 1, "is_bot": True, "first_name": "imagebot"}
        message = {
            "message_id": self._next_message,
            "date": int(time.time()),
            "from": sender or bot,
            **content,
        }
        chat.messages.append(message)
        self.version += 1
        return message

    def _tell(self, chat: Chat, message: Message) -> Message:
        self.version += 1
        for listener in self.listeners:
            listener(chat.user_id, message)
        told = {name: value for name, value in message.items() if value is not None}
        return {**told, "chat": _chat(chat)}

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self, _: web.Application) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._http is not None:
            await self._http.close()


class _Refused(Exception):
    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code


def _error(code: int, description: str, parameters: dict[str, Any] | None = None) -> web.Response:
    told = {"ok": False, "error_code": code, "description": description}
    return web.json_response(told | ({"parameters": parameters} if parameters else {}), status=code)


async def _parameters(request: web.Request) -> tuple[Message, Message]:
    if request.content_type == "application/json":
        return await request.json(), {}
    told, files = {}, {}
    form = await request.post() if request.can_read_body else {}
    for name, value in {**request.query, **form}.items():
        if isinstance(value, web.FileField):
            files[name] = value.file.read()
        else:
            told[name] = value
    return told, files


def _markup(told: Message) -> Message:
    markup = told.get("reply_markup")
    return {"reply_markup": json.loads(markup) if isinstance(markup, str) else markup} if markup else {}


def _user(chat: Chat) -> Message:
    return {
        "id": chat.user_id,
        "is_bot": False,
        "first_name": chat.name,
        "language_code": chat.language,
    }


def _chat(chat: Chat) -> Message:
    return {"id": chat.user_id, "type": "private", "first_name": chat.name}
