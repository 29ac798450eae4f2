"""The users of a storm: they log in, have second thoughts, open second tabs, and note what they saw."""

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from qrlogin.identity import SessionId
from qrlogin.places import Places
from qrlogin.seeing import code_url
from qrlogin.simulated import Line, Phone, ScanRefused

TRIES = 12
AWAY = (aiohttp.ClientError, TimeoutError, OSError)
"""The service does not answer; who wants something asks again."""
PASSWORD = "canary-password-7f3a"
FIRST_ACCOUNT, FIRST_STRANGER = 10_000_000, 90_000_000


@dataclass
class Crowd:
    """All users, what they saw, and how long it took."""

    client: aiohttp.ClientSession
    places: Places
    line: Line
    statuses: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    to_code: list[float] = field(default_factory=list)
    to_done: list[float] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    """The end of each attempt, as its user saw it."""
    cancelled: set[str] = field(default_factory=set)
    """Attempts whose cancel was confirmed."""
    urls: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    users: int = 0
    logged_in: int = 0
    strangers: dict[str, int] = field(default_factory=dict)
    """Attempts that the phone of another account scanned, with that account."""

    def new_user(self) -> tuple[str, Phone]:
        """A user, with the phone of the own account; every tenth has a password."""
        self.users += 1
        account = FIRST_ACCOUNT + self.users
        return str(account), Phone(self.line, account, str(account), PASSWORD if self.users % 10 == 0 else None)

    async def log_in(self, number: int) -> None:
        """One user, who tries until it works. Some change their mind, some open a second tab, some have a stranger scan."""
        user_id, phone = self.new_user()
        match number % 10:
            case 1 | 6:
                await self._have_a_stranger_scan(user_id)
            case 2:
                await self.follow(await self.start(user_id), phone, cancels=True)
            case 3:
                first, second = await self.start(user_id), await self.start(user_id)
                if await self.follow(first, None) != "superseded":
                    self.strange.append(f"{first} did not end as superseded though there is a newer one")
                await self.follow(second, phone)
        if await self.log_in_somehow(user_id, phone):
            self.logged_in += 1
        if number % 10 in (4, 9):  # starts another login after all, and changes the mind
            await self.cancel(await self.start(user_id))

    async def log_in_somehow(self, user_id: str, phone: Phone) -> bool:
        for _ in range(TRIES):
            began = time.monotonic()
            if await self.follow(await self.start(user_id), phone) == "done":
                self.to_done.append(time.monotonic() - began)
                return True
        self.strange.append(f"user {user_id} could not log in")
        return False

    async def _have_a_stranger_scan(self, user_id: str) -> None:
        """As in QR phishing: the phone of another account scans the code of this user."""
        account, session_id = FIRST_STRANGER + int(user_id), await self.start(user_id)
        self.strangers[session_id] = account
        if await self.follow(session_id, Phone(self.line, account, "stranger")) == "done":
            self.strange.append(f"a stranger logged in as {user_id}")

    async def start(self, user_id: str) -> str:
        for _ in range(40):
            with contextlib.suppress(*AWAY):
                async with self.client.post("/logins", json={"user_id": user_id}) as answer:
                    if answer.status == 201:
                        told = await answer.json()
                        self.tokens[told["session_id"]] = told["token"]
                        return str(told["session_id"])
            await asyncio.sleep(0.5)
        raise RuntimeError(f"user {user_id} could not start a login")

    async def code(self, session_id: str) -> str | None:
        return await code_url(self.places, SessionId.parsed(session_id))

    async def follow(self, session_id: str, phone: Phone | None, cancels: bool = False) -> str:
        """Scan what is shown and answer what is asked, until it has ended."""
        began, scanned, seen_code = time.monotonic(), "", False
        while True:
            with contextlib.suppress(*AWAY):
                async for told in self._events(session_id):
                    if told.get("session_id", session_id) != session_id:
                        self.strange.append(f"{session_id} was shown {told['session_id']}")
                    if told["ended"]:
                        return self._note_end(session_id, told)
                    if told["code"] and not seen_code:
                        seen_code = True
                        self.to_code.append(time.monotonic() - began)
                    if told["code"] and phone is not None:
                        scanned = await self._scan(session_id, phone, scanned)
                        if cancels and scanned:
                            await asyncio.sleep(random.uniform(0, 0.15))
                            await self.cancel(session_id)
                    if told["password"]:
                        await self._post(session_id, "password", {"password": PASSWORD})

    def _note_end(self, session_id: str, told: dict[str, Any]) -> str:
        if session_id not in self.ends:
            self.statuses[told["status"]] += 1
            self.reasons[told.get("reason") or ""] += 1
        self.ends[session_id] = str(told["status"])
        return str(told["status"])

    async def _scan(self, session_id: str, phone: Phone, before: str) -> str:
        url = await self.code(session_id)
        if url is None or url == before:
            return before
        self.urls.append(url)
        with contextlib.suppress(ScanRefused):  # the next code comes
            await phone.scan(url)
        return url

    async def cancel(self, session_id: str) -> None:
        if await self._post(session_id, "cancel", {}) == 200:
            self.cancelled.add(session_id)

    async def _events(self, session_id: str) -> Any:
        path, headers = f"/logins/{session_id}/events", self._headers(session_id)
        async with self.client.get(path, headers=headers) as stream:
            stream.raise_for_status()
            async for line in stream.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    async def _post(self, session_id: str, what: str, body: dict[str, Any]) -> int:
        path, headers = f"/logins/{session_id}/{what}", self._headers(session_id)
        with contextlib.suppress(*AWAY):
            async with self.client.post(path, json=body, headers=headers) as answer:
                return answer.status
        return 0

    def _headers(self, session_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[session_id]}"}

    async def peek(self) -> list[str]:
        """Try to read the attempts of others; those that could be read."""
        names = list(self.tokens)
        seen = []
        for _ in range(100):
            mine, other = random.sample(names, 2)
            async with self.client.get(f"/logins/{other}", headers=self._headers(mine)) as answer:
                if answer.status != 401:
                    seen.append(f"{other} by the token of {mine}")
        return seen
