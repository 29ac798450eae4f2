"""A crowd of logins at once, while ingest processes are killed; and what must hold afterwards."""

import asyncio
import contextlib
import json
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import click
from sqlalchemy import select

from appkit.storm import Bar, Instance, Instances, Report, percentile, until
from qrlogin.beside_redis import BesideRedis
from qrlogin.identity import SessionId
from qrlogin.lifecycle import OPEN, Standing
from qrlogin.places import Places, open_places
from qrlogin.sealing import new_key
from qrlogin.seeing import code_url
from qrlogin.settings import Settings
from qrlogin.simulated import Line, Phone, ScanRefused, SimulatedTelegram
from qrlogin.tables import saved_sessions
from qrlogin.tl import StringSession
from raceproof.testing import postgres, valkey

LIMIT = 900.0
"""Seconds for the whole crowd."""
KILL_EVERY = 6.0
KILL_EVERY_IN_SHORT = 2.0
"""Seconds between two kills; of a small crowd, which is through sooner."""
SMALL = 200
TRIES = 12
AWAY = (aiohttp.ClientError, TimeoutError, OSError)
"""The service does not answer; who wants something asks again."""
PASSWORD = "canary-password-7f3a"
FIRST_ACCOUNT = 10_000_000


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
    urls: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    logged_in: int = 0

    async def log_in(self, number: int) -> None:
        """One user, who tries until it works: some have a password, some change their mind, some open a second tab."""
        user_id, habit = str(FIRST_ACCOUNT + number), random.random()
        phone = Phone(self.line, FIRST_ACCOUNT + number, user_id, PASSWORD if number % 10 == 0 else None)
        for attempt in range(TRIES):
            began = time.monotonic()
            session_id = await self._start(user_id)
            second = None
            if attempt == 0 and habit < 0.1:
                second = await self._start(user_id)
            elif attempt == 0 and habit < 0.15:
                await self._post(session_id, "cancel", {})
            status = await self._follow(session_id, phone if second is None else None, began)
            if second is not None:
                if status != "superseded":
                    self.strange.append(f"{session_id} ended as {status} though there is a newer one")
                status = await self._follow(second, phone, began)
            if status == "done":
                self.logged_in += 1
                self.to_done.append(time.monotonic() - began)
                return
        self.strange.append(f"user {user_id} could not log in")

    async def _start(self, user_id: str) -> str:
        for _ in range(20):
            with contextlib.suppress(*AWAY):
                async with self.client.post("/logins", json={"user_id": user_id}) as answer:
                    if answer.status == 201:
                        told = await answer.json()
                        self.tokens[told["session_id"]] = told["token"]
                        return str(told["session_id"])
            await asyncio.sleep(0.5)
        raise RuntimeError(f"user {user_id} could not start a login")

    async def _follow(self, session_id: str, phone: Phone | None, began: float) -> str:
        """Scan what is shown and answer what is asked, until it has ended."""
        scanned: str | None = None
        seen_code = False
        while True:
            with contextlib.suppress(*AWAY):
                async for told in self._events(session_id):
                    if told["session_id"] != session_id:
                        self.strange.append(f"{session_id} was shown {told['session_id']}")
                    if told["ended"]:
                        self.statuses[told["status"]] += 1
                        self.reasons[told["reason"] or ""] += 1
                        return str(told["status"])
                    if told["code"] and not seen_code:
                        seen_code = True
                        self.to_code.append(time.monotonic() - began)
                    if told["code"] and phone is not None:
                        url = await code_url(self.places, SessionId.parsed(session_id))
                        if url is not None and url != scanned:
                            scanned = url
                            self.urls.append(url)
                            with contextlib.suppress(ScanRefused):  # the next code comes
                                await phone.scan(url)
                    if told["password"]:
                        await self._post(session_id, "password", {"password": PASSWORD})

    async def _events(self, session_id: str) -> Any:
        path, headers = f"/logins/{session_id}/events", self._headers(session_id)
        async with self.client.get(path, headers=headers) as stream:
            stream.raise_for_status()
            async for line in stream.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    async def _post(self, session_id: str, what: str, body: dict[str, Any]) -> None:
        path, headers = f"/logins/{session_id}/{what}", self._headers(session_id)
        with contextlib.suppress(*AWAY):
            async with self.client.post(path, json=body, headers=headers):
                pass

    def _headers(self, session_id: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[session_id]}"}

    async def peek(self) -> int:
        """Try to read the attempts of others; how many answers were not a refusal."""
        names = list(self.tokens)
        seen = 0
        for _ in range(100):
            mine, other = random.sample(names, 2)
            async with self.client.get(f"/logins/{other}", headers=self._headers(mine)) as answer:
                seen += answer.status != 401
        return seen


async def blow(users: int, store: str, output: str) -> int:
    """One instance for the page, two ingest processes that are killed in turn, and so many users."""
    report = Report("qrlogin")
    with ExitStack() as stack, Instances(report) as instances:
        environment = {
            "QRLOGIN_FOLDER": str(instances.folder / "data"),
            "QRLOGIN_KEYS": f"storm={new_key()}",
            "QRLOGIN_SIGNING": "the secret of a storm",
            "QRLOGIN_PORT": str(random.randint(20000, 30000)),
            "QRLOGIN_LEASE": "10",
            "QRLOGIN_STARTS_OF_ADDRESS": "1000000",
            "QRLOGIN_STARTS_OF_USER": "1000",
        }
        if store == "valkey":
            environment["QRLOGIN_STORE"] = stack.enter_context(valkey()).url
            environment["QRLOGIN_DATABASE"] = stack.enter_context(postgres()).database()
        async with SimulatedTelegram(migrate=0.2) as telegram:
            environment["QRLOGIN_SIMULATED"] = f"127.0.0.1:{telegram.port}"
            settings = Settings(
                **{name.removeprefix("QRLOGIN_").lower(): value for name, value in environment.items()}  # type: ignore[arg-type]
            )
            line = Line("127.0.0.1", telegram.port)
            try:
                async with open_places(settings) as places:
                    await _blow(users, report, instances, environment, settings, places, telegram, line)
            finally:
                await line.close()
    return report.show(output)


async def _blow(
    users: int, report: Report, instances: Instances, environment: dict[str, str], settings: Settings,
    places: Places, telegram: SimulatedTelegram, line: Line,
) -> None:  # fmt: skip
    instances.add("page", ["qrlogin", "serve", "--no-ingest"], environment)
    ingests = [
        instances.add(name, ["qrlogin", "ingest"], {**environment, "QRLOGIN_INSTANCE": name})
        for name in ("ingest-1", "ingest-2")
    ]
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{settings.port}",
        connector=aiohttp.TCPConnector(limit=users + 200),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=60, sock_read=60),
    ) as client:

        async def up() -> bool:
            with contextlib.suppress(*AWAY):
                async with client.get("/health") as answer:
                    return answer.status == 200
            return False

        if not await until(up, 120):
            report.check("the service started", False, "; ".join(instances.died()))
            return
        crowd = Crowd(client, places, line)
        every = KILL_EVERY if users > SMALL else KILL_EVERY_IN_SHORT
        trouble = asyncio.create_task(
            instances.trouble(ingests, every=every, in_turn=True, is_up=_Progress(crowd, users))
        )
        began = time.monotonic()
        with Bar("users logged in", users) as bar:
            crowding = [asyncio.create_task(crowd.log_in(number)) for number in range(users)]
            while not all(task.done() for task in crowding) and time.monotonic() - began < LIMIT:
                await asyncio.wait(crowding, timeout=0.5)
                bar.at(crowd.logged_in)
        seconds = time.monotonic() - began
        trouble.cancel()
        for task in crowding:
            task.cancel()
        for error in await asyncio.gather(*crowding, return_exceptions=True):
            if isinstance(error, Exception):
                crowd.strange.append(f"{type(error).__name__}: {error}")
        for one in ingests:
            if not one.running:
                one.start()
        peeked = await crowd.peek()

        async def settled() -> bool:
            return not await places.saving.held(1) and not await _still_open(crowd)

        report.check("every attempt has ended and no session is in between", await until(settled, 60))
        async with client.get("/metrics") as answer:
            metrics = await answer.text()
    await _judge(users, report, instances, crowd, places, telegram, seconds, peeked, metrics)


class _Progress:
    """Whether an ingest is at work, and the crowd has got on since the last kill: on a busy machine it would never else."""

    def __init__(self, crowd: Crowd, users: int) -> None:
        self._crowd = crowd
        self._step = users // 40
        self._enough = 0

    async def __call__(self, ingest: Instance) -> bool:
        if "at work" not in ingest.said() or self._crowd.logged_in < self._enough:
            return False
        self._enough = self._crowd.logged_in + self._step
        return True


async def _still_open(crowd: Crowd) -> int:
    rows = [await crowd.places.row(SessionId.parsed(name)) for name in crowd.tokens]
    return sum(row is not None and row["status"] in OPEN for row in rows)


async def _judge(
    users: int, report: Report, instances: Instances, crowd: Crowd, places: Places,
    telegram: SimulatedTelegram, seconds: float, peeked: int, metrics: str,
) -> None:  # fmt: skip
    async with places.database.read() as connection:
        rows = list((await connection.execute(select(saved_sessions))).mappings())
    current = [row for row in rows if row["status"] == Standing.CURRENT]
    sessions = {row["session_id"]: await places.saving.session_of(row["user_id"]) for row in current}
    usable = Counter(row["user_id"] for row in current if _works(telegram, row, sessions[row["session_id"]]))
    ghosts = len(telegram.logged_in()) - len(rows)
    report.counts |= {
        "users": users,
        "logged in": crowd.logged_in,
        "attempts": len(crowd.tokens),
        **{f"ended as {status}": number for status, number in sorted(crowd.statuses.items())},
        "ended because of a killed ingest": crowd.reasons["ingest_restarted"],
        "kills": instances.kills,
        "seconds between two kills": round(seconds / instances.kills, 1) if instances.kills else "none",
        "killed while at work": instances.kills_at_work,
        "seconds": round(seconds, 1),
        "logins a second": round(crowd.logged_in / seconds, 1),
        "seconds to the code, median": round(percentile(crowd.to_code, 0.5), 2),
        "seconds to the code, 99 %": round(percentile(crowd.to_code, 0.99), 2),
        "seconds to the end, median": round(percentile(crowd.to_done, 0.5), 2),
        "seconds to the end, 99 %": round(percentile(crowd.to_done, 0.99), 2),
        "codes scanned": telegram.scans,
        "left at Telegram by killed processes": ghosts,
    }
    report.check("every user has logged in", crowd.logged_in == users, f"{crowd.logged_in} of {users}")
    report.check("nothing strange was seen", not crowd.strange, "; ".join(crowd.strange[:3]))
    report.check(
        "every user has one current session, of the own account, that works at Telegram",
        len(usable) == users and set(usable.values()) == {1},
        f"{len(usable)} users",
    )
    finished = {row["session_id"] for row in rows}
    done = [name for name in crowd.tokens if await _status(places, name) == "done"]
    report.check(
        "a session was saved for every attempt that is done, exactly once",
        set(done) <= finished and len(finished) == len(rows),
        f"{len(done)} done, {len(rows)} saved",
    )
    others = [name for name in finished - set(done) if await _status(places, name) != "superseded"]
    report.check("no session was saved for another attempt", not others, "; ".join(others[:3]))
    report.check("no token opens the attempt of another", peeked == 0, f"{peeked} of 100")
    if isinstance(places.beside, BesideRedis):
        endless, _ = await places.beside.endless()
        report.check("every key has a time to live", not endless, "; ".join(endless[:3]))
    said = metrics + "".join(one.log.read_text(errors="replace") for one in instances.all)
    secrets = [PASSWORD, *(url.partition("=")[2] for url in crowd.urls), *filter(None, sessions.values())]
    leaked = [secret for secret in secrets if secret in said]
    report.check("no password, code or session is in any output", not leaked, f"{len(leaked)}")
    if report.violated:
        for one in instances.all:
            click.echo(f"--- {one.name}\n{one.tail(5)}", file=sys.stderr)


def _works(telegram: SimulatedTelegram, row: Any, session: str | None) -> bool:
    """Whether this session is one that Telegram knows, of the account of its user."""
    if session is None:
        return False
    key = StringSession(session).auth_key.key
    device = telegram.devices.get(int.from_bytes(key[:8], "big"))
    if device is None or not device.authorized or device.account is None:
        return False
    return {row["account_id"], row["user_id"]} == {str(device.account.id)}


async def _status(places: Places, name: str) -> str | None:
    row = await places.row(SessionId.parsed(name))
    return None if row is None else str(row["status"])
