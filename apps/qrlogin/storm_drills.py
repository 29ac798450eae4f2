"""What a storm does on purpose before the crowd comes: moments that chance would hardly ever meet.

Each drill brings one login to such a moment, by a process that is frozen or a table that is locked, and notes what came
of it. They need Redis and PostgreSQL, which the storm starts.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg
from redis.asyncio import Redis

from appkit.storm import Instance, Report
from qrlogin.simulated import Phone, ScanRefused
from qrlogin.storm_crowd import Crowd

PATIENCE = 20.0
LATE_USERS = 16
"""Of whom about half are with the process that is frozen; when it goes on, some write before it renews its claims."""


class Drills:
    """All of them, with what they need; `number` gives each login a user of its own."""

    def __init__(self, crowd: Crowd, client: "Redis", database: str, ingests: list[Instance], lease: float) -> None:
        self._crowd, self._client, self._database = crowd, client, database
        self._ingests = {one.name: one for one in ingests}
        self._lease = lease
        self.users: list[str] = []
        self.pauses = 0

    async def run(self, report: Report) -> None:
        await asyncio.gather(self._waits(report), self._cancels_early(), self._again())
        await self._cancels_late()
        await self._pauses()

    async def _field(self, session_id: str, name: str) -> str:
        return str(await self._client.hget(f"tg:qr:session:{session_id}", name) or "")

    async def _user(self) -> tuple[str, Phone, str]:
        """A user with a phone, and a login that shows a code."""
        user, phone = self._crowd.new_user()
        self.users.append(user)
        session_id = await self._crowd.start(user)
        await self._until(lambda: self._is(session_id, "qr_rendered"))
        return session_id, phone, await self._code(session_id)

    async def _is(self, session_id: str, *statuses: str) -> bool:
        return await self._field(session_id, "status") in statuses

    async def _code(self, session_id: str, other_than: str = "") -> str:
        found = [""]

        async def shown() -> bool:
            found[0] = await self._crowd.code(session_id) or ""
            return found[0] not in ("", other_than)

        await self._until(shown)
        return found[0]

    async def _until(self, holds: Callable[[], Awaitable[bool]], seconds: float = PATIENCE) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if await holds():
                return True
            await asyncio.sleep(0.02)
        return False

    async def _ends(self, session_id: str, phone: Phone) -> None:
        """Let the user log in, whatever has come of this attempt."""
        if await self._crowd.follow(session_id, phone) != "done":
            await self._crowd.log_in_somehow(session_id.partition(":")[0], phone)

    async def _waits(self, report: Report) -> None:
        """A user who waits for longer than a lease: the attempt stays with its process, and its code is sealed."""
        session_id, phone, code = await self._user()
        fence = await self._field(session_id, "fence")
        stored = str(await self._client.get(f"tg:qr:shown:{session_id}:{fence}"))
        token = code.partition("token=")[2]
        sealed = bool(token) and token not in stored
        report.check("a code is sealed where it is stored", sealed, session_id, "codes-are-sealed")
        await asyncio.sleep(2.5 * self._lease)
        after = await self._field(session_id, "fence")
        report.check(
            "an attempt stays with the process that renews its claim",
            bool(fence) and after == fence,
            f"{session_id}: fence {fence}, then {after}",
            "claims-are-renewed",
        )
        await self._ends(session_id, phone)

    async def _again(self) -> None:
        """A user who has logged in starts another login, and changes their mind: the first stays done."""
        session_id, phone, _ = await self._user()
        await self._ends(session_id, phone)
        second = await self._crowd.start(session_id.partition(":")[0])
        await self._crowd.cancel(second)

    @asynccontextmanager
    async def _locked(self, lock: str) -> AsyncIterator[None]:
        """No other session can use the table of this statement meanwhile."""
        connection: Any = await asyncpg.connect(self._database, timeout=30)
        try:
            async with connection.transaction():
                await connection.execute(lock)
                yield
        finally:
            await connection.close()

    async def _cancels_early(self) -> None:
        """A cancel while the session is on its way to be held: it must not be saved."""
        session_id, phone, code = await self._user()
        async with self._locked("LOCK TABLE held_sessions IN ACCESS EXCLUSIVE MODE"):
            await self._scan(phone, code)
            await self._until(lambda: self._is(session_id, "scanned"))
            await asyncio.sleep(0.5)
            await self._crowd.cancel(session_id)
        await self._crowd.follow(session_id, None)
        await asyncio.sleep(1)
        await self._crowd.log_in_somehow(session_id.partition(":")[0], phone)

    async def _cancels_late(self) -> None:
        """A cancel when the session is decided and not yet kept: it comes too late, and says so."""
        session_id, phone, code = await self._user()
        async with self._locked("LOCK TABLE saved_sessions IN ACCESS EXCLUSIVE MODE"):
            await self._scan(phone, code)
            await self._until(lambda: self._is(session_id, "session_saved"))
            await self._crowd.cancel(session_id)
        await asyncio.sleep(1)
        await self._ends(session_id, phone)

    async def _scan(self, phone: Phone, code: str) -> None:
        with suppress(ScanRefused):
            await phone.scan(code)

    async def _pauses(self) -> None:
        """A process is frozen until another has its attempts; what it writes then is refused."""
        logins = await asyncio.gather(*(self._user() for _ in range(LATE_USERS)))
        held = [(await self._field(session_id, "claimed_by"), session_id) for session_id, _, _ in logins]
        name = max((one for one, _ in held), key=[one for one, _ in held].count)
        frozen = self._ingests[name]
        mine = [login for login, (holder, _) in zip(logins, held, strict=True) if holder == name]
        frozen.signal(signal.SIGSTOP)
        try:
            for _, phone, code in mine:
                await self._scan(phone, code)
            for session_id, _, _ in mine:
                await self._until(partial(self._held_by_another, session_id, name), 4 * self._lease)
        finally:
            frozen.signal(signal.SIGCONT)
            self.pauses += 1
        await asyncio.sleep(2)  # it writes, or learns what it has lost
        await asyncio.gather(*(self._ends(session_id, phone) for session_id, phone, _ in logins))

    async def _held_by_another(self, session_id: str, name: str) -> bool:
        return await self._field(session_id, "claimed_by") not in ("", name)
