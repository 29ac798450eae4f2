"""qrlogin: two instances on Valkey, a simulated Telegram, and users who open second tabs."""

import asyncio
import itertools
import random
import re
import time
from typing import Any

import httpx

from appkit.storm import until
from raceproof.testing import valkey
from showcase.applications.application import Application, hold
from showcase.children import Child

FIRST = 139_000_000
PATIENCE = 60.0
"""Seconds that a user waits for a login to end."""


class QrloginApplication(Application):
    name = "qrlogin"
    says = "Telegram login by QR code: one attempt for a user at a time, each session saved exactly once."
    every = 3.0

    async def prepare(self) -> None:
        self._valkey = await self.serve(valkey, appendfsync="always")
        self._users = itertools.count(FIRST)
        self._following: set[asyncio.Task[None]] = set()
        self._ended: dict[str, int] = {}
        self._done: set[str] = set()
        self._given_up = 0

    async def simulate(self) -> None:
        telegram = Child(
            self.foreman, "qrlogin-telegram", ["simulate", "--port", "0", "--migrate", "0.2"], {}, self.folder
        )
        self.others.append(await telegram.start())
        self._telegram = ""

        async def told() -> bool:
            found = re.search(r"QRLOGIN_SIMULATED=(\S+)", telegram.tail())
            self._telegram = found.group(1) if found else ""
            return bool(found)

        await until(told, 30, 0.1)

    def environment(self, name: str, port: int) -> dict[str, str]:
        return {
            "QRLOGIN_FOLDER": str(self.folder),
            "QRLOGIN_DATABASE": f"sqlite:///{self.database}",
            "QRLOGIN_STORE": self._valkey.url,
            "QRLOGIN_SIMULATED": self._telegram,
            "QRLOGIN_INSTANCE": name,
            "QRLOGIN_PORT": str(port),
            "QRLOGIN_LEASE": "4",
            "QRLOGIN_STARTS_OF_ADDRESS": "100000",
            "QRLOGIN_STARTS_OF_USER": "1000",
        }

    async def turn(self) -> None:
        """A user logs in, sometimes in two tabs; of both only the second may come through."""
        user = str(next(self._users) if random.random() < 0.7 else FIRST)
        await self._begin(user)
        if random.random() < 0.3:
            await self._begin(user)

    async def duplicate(self) -> str | None:
        user = str(next(self._users))
        await asyncio.gather(*(self._begin(user) for _ in range(3)))
        return f"began the login of user {user} in three tabs at once"

    async def _begin(self, user: str) -> None:
        url = self.url()
        answer = await self.http.post(f"{url}/logins", json={"user_id": user})
        if answer.status_code == 201:
            made = answer.json()
            task = asyncio.create_task(self._follow(made["session_id"], made["token"]))
            self._following.add(task)
            task.add_done_callback(self._following.discard)

    async def _follow(self, session_id: str, token: str) -> None:
        """Scan what is shown, until the attempt has ended; whoever is up is asked."""
        headers = {"Authorization": f"Bearer {token}"}
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            try:
                told = await self._look(session_id, headers)
            except (httpx.HTTPError, ValueError, LookupError):
                continue
            if told.get("ended"):
                status = told["status"]
                self._ended[status] = self._ended.get(status, 0) + 1
                if status == "done":
                    self._done.add(session_id)
                return
        self._given_up += 1

    async def _look(self, session_id: str, headers: dict[str, str]) -> dict[str, Any]:
        url = f"{self.url()}/logins/{session_id}"
        answer = await self.http.get(url, headers=headers)
        answer.raise_for_status()
        told: dict[str, Any] = answer.json()
        if told["code"]:
            await self.http.post(f"{url}/simulated-scan", headers=headers, json={"account": "plain"})
        return told

    async def figures(self) -> dict[str, int]:
        return {
            "logins done": self._ended.get("done", 0),
            "superseded by a newer tab": self._ended.get("superseded", 0),
            "failed or expired": self._ended.get("failed", 0) + self._ended.get("expired", 0),
            "under way": len(self._following),
            "sessions saved": await self.number("SELECT count(*) FROM saved_sessions"),
        }

    async def under_way(self) -> str | None:
        return f"{len(self._following)} logins are under way" if self._following else None

    async def violations(self) -> list[str]:
        several = await self.number(
            """
            SELECT count(*) FROM (SELECT 1 FROM saved_sessions WHERE status = 'current'
                                  GROUP BY user_id HAVING count(*) > 1)
            """
        )
        saved = {key for (key,) in await self.rows("SELECT session_id FROM saved_sessions")}
        found = [f"{several} users have two current sessions"] if several else []
        if missing := self._done - saved:
            found.append(f"{len(missing)} logins are done and have no session")
        if self._given_up:
            found.append(f"{self._given_up} logins have not ended within {PATIENCE:.0f} s")
        return found

    @property
    def store(self) -> str:
        return self._valkey.url

    async def cut(self, seconds: float) -> None:
        """Valkey is killed and comes back with what it had written; the file of sessions is locked meanwhile."""
        holding = asyncio.create_task(asyncio.to_thread(hold, self.database, seconds))
        await asyncio.to_thread(self._valkey.kill)
        await holding
        await asyncio.to_thread(self._valkey.restart)
