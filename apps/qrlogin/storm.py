"""A crowd of logins at once, while ingest processes are killed and frozen; and what must hold afterwards."""

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
import click
from redis.asyncio import Redis
from sqlalchemy import text

from appkit.storm import Bar, Instance, Instances, Report, percentile, until
from qrlogin.identity import SessionId
from qrlogin.lifecycle import OPEN
from qrlogin.places import Places, open_places
from qrlogin.sealing import CannotOpen, new_key
from qrlogin.settings import Settings
from qrlogin.simulated import Line, SimulatedTelegram
from qrlogin.storm_crowd import AWAY, PASSWORD, Crowd
from qrlogin.storm_drills import Drills
from qrlogin.storm_oracle import (
    Attempt,
    judge_attempts,
    judge_ends,
    judge_sessions,
    judge_telegram,
    read_attempts,
)
from raceproof.testing import postgres, valkey

LIMIT, LIMIT_IN_SHORT = 900.0, 180.0
"""Seconds for the whole crowd."""
KILL_EVERY, KILL_EVERY_IN_SHORT = 6.0, 2.0
"""Seconds between two kills; of a small crowd, which is through sooner."""
DRILLS = 240.0
"""Seconds for the drills before the crowd."""
LEASE = 6.0
PAUSE = 9.0
"""Seconds for which a process is frozen: longer than its lease."""
SMALL = 200
LEAST_KILLS, LEAST_PAUSES = 2, 2


async def blow(users: int, store: str, output: str) -> int:
    """One instance for the page, two ingest processes that are killed and frozen in turn, and so many users."""
    report = Report("qrlogin")
    with ExitStack() as stack, Instances(report) as instances:
        environment = {
            "QRLOGIN_FOLDER": str(instances.folder / "data"),
            "QRLOGIN_KEYS": f"storm={new_key()}",
            "QRLOGIN_SIGNING": "the secret of a storm",
            "QRLOGIN_PORT": str(random.randint(20000, 30000)),
            "QRLOGIN_METRICS_PORT": "0",
            "QRLOGIN_LEASE": str(LEASE),
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
                    await _Storm(users, report, instances, settings, places, telegram, line).run(environment)
            finally:
                await line.close()
            await report.keep_database(settings.database_url, instances.folder)
    return report.show(output)


@dataclass
class _Storm:
    users: int
    report: Report
    instances: Instances
    settings: Settings
    places: Places
    telegram: SimulatedTelegram
    line: Line

    async def run(self, environment: dict[str, str]) -> None:
        self.instances.add("page", ["qrlogin", "serve", "--no-ingest"], environment)
        self.ingests = [
            self.instances.add(name, ["qrlogin", "ingest"], {**environment, "QRLOGIN_INSTANCE": name})
            for name in ("ingest-1", "ingest-2")
        ]
        async with (
            aiohttp.ClientSession(
                f"http://127.0.0.1:{self.settings.port}",
                connector=aiohttp.TCPConnector(limit=self.users + 200),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=60, sock_read=60),
            ) as client,
            _redis(self.settings.store) as plain,
        ):
            if not await until(lambda: _up(client, self.ingests), 120):
                why = "; ".join(self.instances.died())
                self.report.check("the service started", False, why, "service-started")
                return
            self.crowd = crowd = Crowd(client, self.places, self.line)
            paused = 0
            if plain is not None:
                drills = Drills(crowd, plain, self.settings.database_url, self.ingests, LEASE)
                try:
                    async with asyncio.timeout(DRILLS):
                        await drills.run(self.report)
                except TimeoutError:
                    self.report.check("the drills came to their end", False, name="drills-ended")
                paused = drills.pauses
            seconds = await self._crowd()
            peeked = await crowd.peek()
            self.report.check(
                "no token opens the attempt of another",
                not peeked,
                "; ".join(peeked[:3]),
                "tokens-open-their-own",
            )
            self.report.check(
                "every attempt has ended and no session is in between",
                await until(self._settled, 60),
                "; ".join((await self._open())[:3]),
                "every-attempt-ends",
            )
            async with client.get("/metrics") as answer:
                metrics = await answer.text()
            await self._judge(plain, seconds, paused, metrics)

    async def _crowd(self) -> float:
        crowd, small, wave = self.crowd, self.users <= SMALL, self.users
        trouble = asyncio.create_task(
            self.instances.trouble(
                self.ingests,
                every=KILL_EVERY_IN_SHORT if small else KILL_EVERY,
                in_turn=True,
                is_up=_Progress(crowd, self.users),
                pause=PAUSE,
            )
        )
        began, limit = time.monotonic(), LIMIT_IN_SHORT if small else LIMIT
        with Bar("users logged in", self.users) as bar:
            crowding = [asyncio.create_task(crowd.log_in(number)) for number in range(self.users)]
            while time.monotonic() - began < limit:
                waiting = [task for task in crowding if not task.done()]
                if waiting:
                    await asyncio.wait(waiting, timeout=0.5)
                elif self.instances.kills < LEAST_KILLS or not self.instances.pauses:
                    # a quick machine is through before anything has happened: more users come
                    crowding += [asyncio.create_task(crowd.log_in(self.users + number)) for number in range(wave)]
                    self.users += wave
                else:
                    break
                bar.at(crowd.logged_in)
        seconds = time.monotonic() - began
        trouble.cancel()
        for task in [*crowding, trouble]:
            task.cancel()
        for error in await asyncio.gather(*crowding, trouble, return_exceptions=True):
            if isinstance(error, Exception):
                crowd.strange.append(f"{type(error).__name__}: {error}")
        for one in self.ingests:
            one.signal(signal.SIGCONT)
            if not one.running:
                one.start()
        return seconds

    async def _open(self) -> list[str]:
        rows = [(name, await self.places.row(SessionId.parsed(name))) for name in self.crowd.tokens]
        return [name for name, row in rows if row is not None and row["status"] in OPEN]

    async def _settled(self) -> bool:
        return not await self.places.saving.held(1) and not await self._open()

    async def _judge(self, plain: "Redis | None", seconds: float, paused: int, metrics: str) -> None:
        crowd, report, instances = self.crowd, self.report, self.instances
        attempts = await read_attempts(crowd.tokens, plain, self.places.database)
        async with self.places.database.read() as connection:
            found = await connection.execute(text("SELECT * FROM saved_sessions"))
            rows = [dict(row) for row in found.mappings()]
        opened = {}
        for row in rows:
            if row["status"] == "current":
                with contextlib.suppress(CannotOpen):
                    opened[row["user_id"]] = await self.places.saving.session_of(row["user_id"])
        pauses = instances.pauses + paused
        report.counts |= self._counts(seconds, pauses, attempts)
        report.at_least("kills", LEAST_KILLS, instances.kills)
        report.at_least("pauses", LEAST_PAUSES if plain is not None else 1, pauses)
        refused = {
            one.name: crowd.strangers[one.name]
            for one in attempts
            if one.name in crowd.strangers and one.row.get("reason") == "other_account"
        }
        late = sum(one.late() + len(one.strangers()) for one in attempts)
        report.at_least("scans by strangers that were refused", self.users // 20, len(refused), "enough-strangers")
        if plain is not None:
            report.at_least("late writes of frozen processes", 1, late, "enough-late-writes")
        report.at_least("attempts", self.users, len(attempts))
        report.check("every user has logged in", crowd.logged_in == self.users, crowd.logged_in, "everyone-logged-in")
        report.check("nothing strange was seen", not crowd.strange, "; ".join(crowd.strange[:3]))
        judge_attempts(report, attempts, claims_recorded=plain is not None)
        judge_ends(report, attempts, crowd.ends, crowd.cancelled)
        judge_sessions(report, attempts, rows, crowd.cancelled)
        users = {name.partition(":")[0] for name, status in crowd.ends.items() if status == "done"}
        judge_telegram(report, self.telegram, opened, users, refused, instances.kills)
        if plain is not None:
            await _judge_redis(report, plain)
        sessions = [one for one in opened.values() if one]
        clear = [row["session_id"] for row in rows if any(one in row["sealed"] for one in sessions)]
        report.check("sessions are sealed where they are saved", not clear, "; ".join(clear[:3]), "sessions-are-sealed")
        said = metrics + "".join(one.log.read_text(errors="replace") for one in instances.all)
        secrets = [PASSWORD, *(url.partition("=")[2] for url in crowd.urls), *sessions]
        leaked = [secret for secret in secrets if secret in said]
        report.check("no password, code or session is in any output", not leaked, len(leaked), "no-secret-in-output")
        if report.violated:
            for one in instances.all:
                click.echo(f"--- {one.name}\n{one.tail(5)}", file=sys.stderr)

    def _counts(self, seconds: float, pauses: int, attempts: list[Attempt]) -> dict[str, Any]:
        crowd, kills = self.crowd, self.instances.kills
        return {
            "users": self.users,
            "logged in": crowd.logged_in,
            "attempts": len(crowd.tokens),
            **{f"ended as {status}": number for status, number in sorted(crowd.statuses.items())},
            "ended because of a killed ingest": crowd.reasons["ingest_restarted"],
            "ended because another account scanned": crowd.reasons["other_account"],
            "cancels confirmed": len(crowd.cancelled),
            "kills": kills,
            "pauses": pauses,
            "late writes refused": sum(one.late() for one in attempts),
            "killed while at work": self.instances.kills_at_work,
            "seconds": round(seconds, 1),
            "logins a second": round(crowd.logged_in / seconds, 1),
            "seconds to the code, median": round(percentile(crowd.to_code, 0.5), 2),
            "seconds to the code, 99 %": round(percentile(crowd.to_code, 0.99), 2),
            "seconds to the end, median": round(percentile(crowd.to_done, 0.5), 2),
            "seconds to the end, 99 %": round(percentile(crowd.to_done, 0.99), 2),
            "codes scanned": self.telegram.scans,
            "logged in at Telegram": len(self.telegram.logged_in()),
        }


async def _judge_redis(report: Report, plain: "Redis") -> None:
    """By the server's own count of commands, before our own look at all keys; and by that look."""
    used = [name for name in await plain.info("commandstats") if name in ("cmdstat_keys", "cmdstat_scan")]
    report.check("no command looks at all keys", not used, ", ".join(used), "no-command-reads-all-keys")
    endless = [key async for key in plain.scan_iter("tg:qr:*", count=1000) if await plain.ttl(key) == -1]
    report.check("every key has a time to live", not endless, "; ".join(endless[:3]), "every-key-has-a-ttl")


@contextlib.asynccontextmanager
async def _redis(url: str) -> AsyncIterator["Redis | None"]:
    """A plain client, for those who judge."""
    if not url:
        yield None
        return
    async with Redis.from_url(url, decode_responses=True) as client:
        yield client


async def _up(client: aiohttp.ClientSession, ingests: list[Instance]) -> bool:
    with contextlib.suppress(*AWAY):
        async with client.get("/health") as answer:
            return answer.status == 200 and all("at work" in one.said() for one in ingests)
    return False


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
