"""The storm: two instances, many users, callbacks twice, kills, freezes, a database that restarts; then every promise is
counted, by what Telegram, KIE and the ledger say (`storm_checks`)."""

import asyncio
import base64
import hashlib
import hmac
import itertools
import random
import signal
import time
from typing import Any

from sqlalchemy import column, func, select, table

from appkit.storm import Bar, Report, until
from imagebot.lifecycle import UNDER_WAY
from imagebot.measure.ground import Ground, free_port, ground
from imagebot.storm_checks import FROZEN, evidence, job_of, judge
from imagebot.warm import WarmInstance

LOCK_SECONDS = 5
PAUSE = 8.0
"""Seconds that an instance stands still: longer than its lease, and than a request of it may take."""
SHORT_LIMITS = {"LOCK_SECONDS": str(LOCK_SECONDS), "GENERATION_LIMIT": "30"}
TELEGRAM_TROUBLE = "too_many=0.02,vanish=0.03,refuse_urls=0.05,duplicate=0.3"
KIE_TROUBLE = "too_many=0.02,vanish=0.05,duplicate=0.3,late=0.05,lost=0.1,fail=0.03"
LOAD_SECONDS = 35.0
"""The least that the load takes, so that the trouble comes in its midst."""
KILLS, PAUSES, SENDERS = 3, 2, 4


async def blow(users: int, updates: int, generations: int, database: str, output: str) -> int:
    """Run it and print what was counted; 1 if anything that must hold does not."""
    report = Report("imagebot")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _interrupted, asyncio.current_task())
    async with ground(database) as made:
        report.counts["store"] = database
        try:
            await _blow(made, users, updates, generations, report)
            await _freeze_senders(made, report)
            judge(await evidence(made), report, generations)
        except Exception as error:
            report.check("the storm came to its end", False, repr(error), "storm-ended")
        await report.keep_database(made.database_url, made.folder)
        report.keep(made.folder)
    return report.show(output)


def _interrupted(task: Any) -> None:
    """SIGTERM ends a storm as Ctrl-C does: with everything that it started."""
    task.cancel()


def _start(made: Ground, name: str, **extra: str) -> WarmInstance:
    """An instance whose requests Telegram can tell from those of the others."""
    return made.start(name, TELEGRAM_API=f"{made.telegram}/via/{name}", **SHORT_LIMITS, **extra)


async def _blow(made: Ground, users: int, updates: int, generations: int, report: Report) -> None:
    await made.simulate("--seconds", "2", "--size", "8", "--no-people")
    await made.post(f"{made.telegram}/control/trouble", {"trouble": TELEGRAM_TROUBLE})
    await made.post(f"{made.kie}/control/trouble", {"trouble": KIE_TROUBLE})
    victims = [_start(made, name) for name in ("one", "two")]
    await made.reached(made.url("/health"), victims[0])
    began = time.monotonic()
    rate = min(100.0, updates / LOAD_SECONDS)
    robots = {"users": users, "updates": updates, "generations": generations, "rate": rate}
    await made.post(f"{made.telegram}/control/robots", robots)
    trouble = Trouble(made, victims)
    troubling = asyncio.create_task(trouble.run())
    with Bar("updates kept", updates) as bar:
        done = await until(lambda: _all_said(made, bar), max(200.0, updates / 5), 0.5)
    report.counts["seconds of load"] = round(time.monotonic() - began)
    await until(lambda: _mostly_done(made, trouble), 900, 1.0)
    troubling.cancel()
    await asyncio.gather(troubling, return_exceptions=True)
    for victim in victims:
        victim.signal(signal.SIGCONT)
        if victim.exit_code is not None:
            victim.start()
    settled = await until(lambda: _settled(made), max(120.0, generations / 10), 1.0)
    report.counts["seconds in all"] = round(time.monotonic() - began)
    report.counts["database restarts"] = trouble.restarts
    report.counts["disturbances"] = trouble.kills + trouble.pauses + trouble.restarts
    report.check("all robots have said all they had to say", bool(done), name="all-said")
    report.at_least("instances killed", KILLS, trouble.kills)
    report.at_least("instances frozen", PAUSES, trouble.pauses)
    report.check("everything comes to its end", settled, await _counts(made), "everything-ends")
    ends = [await asyncio.to_thread(victim.stop) for victim in victims]
    report.check("SIGTERM ends both in good order", ends == [0, 0], ends, "sigterm-in-good-order")


class Trouble:
    """Every few seconds an instance is killed or frozen, in turn, and once the database restarts."""

    def __init__(self, made: Ground, victims: list[WarmInstance], every: float = 5.0) -> None:
        self._made = made
        self._victims = victims
        self._every = every
        self.kills = 0
        self.pauses = 0
        self.restarts = 0

    @property
    def enough(self) -> bool:
        return self.kills >= KILLS and self.pauses >= PAUSES

    async def run(self) -> None:
        choose = random.Random(7)
        for place in itertools.cycle((0, 1, 1, 0)):  # each of them is killed and frozen
            await asyncio.sleep(self._every * choose.uniform(0.6, 1.4))
            victim = self._victims[place]
            if self.pauses < self.kills:
                victim.signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(PAUSE)
                finally:
                    victim.signal(signal.SIGCONT)
                self.pauses += 1
                continue
            await asyncio.to_thread(victim.kill)
            self.kills += 1
            await asyncio.to_thread(victim.start)
            if self.kills == 2 and self._made.server is not None:
                await asyncio.to_thread(self._made.server.kill)
                await asyncio.to_thread(self._made.server.restart)
                self.restarts += 1


async def _freeze_senders(made: Ground, report: Report) -> None:
    """A sender stands still while its pictures are on their way, until another one has the lock and sends them too.

    Then the first goes on, and Telegram answers it: its mark comes too late, while the other one is in the middle of it.
    """
    await made.post(f"{made.telegram}/control/trouble", {"trouble": ""})
    await made.post(f"{made.kie}/control/trouble", {"trouble": "lost"})
    ports = {"left": free_port(), "right": free_port()}
    times = {"UNCERTAIN_DELIVERY": "resend", "DELIVERY_STALE": "4", "SEND_TIMEOUT": "60", "REUSE_PORT": "0"}
    pair = {
        name: _start(made, name, PORT=str(port), PUBLIC_URL=made.url("", port), **times) for name, port in ports.items()
    }
    for name, process in pair.items():
        await made.reached(made.url("/health", ports[name]), process)
    await made.post(f"{made.telegram}/control/gates", dict.fromkeys(pair, False))
    for number in range(SENDERS):
        await made.post(f"{made.telegram}/control/say/{FROZEN + number}", {"text": "/image frozen"})

    async def held() -> list[tuple[str, str]]:
        told = await made.get(f"{made.telegram}/control/stats") or {"held": []}
        return [(via, job_of(caption)) for via, caption in told["held"]]

    async def all_wait() -> bool:
        return len(await held()) >= SENDERS

    await until(all_wait, 60)
    waiting = await held()
    frozen = max(pair, key=lambda name: sum(via == name for via, _ in waiting))
    other = next(name for name in pair if name != frozen)
    jobs = [job for via, job in waiting if via == frozen]
    pair[frozen].signal(signal.SIGSTOP)
    await asyncio.sleep(LOCK_SECONDS + 1)
    tasks = (await made.get(f"{made.kie}/control/tasks") or {"tasks": []})["tasks"]
    by_job = {str(one["callBackUrl"]).partition("job=")[2]: one["task_id"] for one in tasks}
    for job in jobs:
        await _call_back(made, ports[other], by_job[job])

    async def taken_over() -> bool:
        now = await held()
        return all((other, job) in now for job in jobs)

    report.check("another sender takes over", await until(taken_over, 60), jobs, "frozen-senders-replaced")
    report.at_least("frozen senders", 1, len(jobs))
    pair[frozen].signal(signal.SIGCONT)
    await made.post(f"{made.telegram}/control/gates", {frozen: True})

    async def has_heard() -> bool:
        lines = [line for tag in ("MARK_LOST", "MARK_DELIVERED") for line in pair[frozen].lines(tag)]
        return all(any(f"{job}/" in line for line in lines) for job in jobs)

    report.check("the frozen one hears of its sends", await until(has_heard, 60), jobs, "frozen-senders-resumed")
    await made.post(f"{made.telegram}/control/gates", {other: True})
    report.check("what was frozen ends too", await until(lambda: _settled(made), 90), jobs, "frozen-jobs-end")
    for process in pair.values():
        await asyncio.to_thread(process.stop)


async def _call_back(made: Ground, port: int, task_id: str) -> None:
    """KIE's callback, to one instance."""
    moment = str(int(time.time()))
    digest = hmac.digest(made.webhook_key.encode(), f"{task_id}.{moment}".encode(), hashlib.sha256)
    headers = {"X-Webhook-Timestamp": moment, "X-Webhook-Signature": base64.b64encode(digest).decode()}
    body = {"code": 200, "msg": "", "data": {"taskId": task_id, "state": "success"}}
    await made.post(made.url("/kie-callback", port), body, headers)


async def _all_said(made: Ground, bar: Bar) -> bool:
    stats = await made.get(f"{made.telegram}/control/stats")
    if not stats:
        return False
    bar.at(stats["accepted"])
    return bool(stats["robots"]["done"]) and stats["waiting"] == 0


async def _mostly_done(made: Ground, trouble: Trouble) -> bool:
    """Enough was killed and frozen, and the updates are through: what is left may end in peace."""
    if not trouble.enough:
        return False
    try:
        return (await _counts(made))["telegram_updates"] == 0
    except Exception:  # the database restarts just now
        return False


async def _settled(made: Ground) -> bool:
    """Nothing waits and nothing is under way."""
    stats = await made.get(f"{made.telegram}/control/stats")
    if not stats or stats["waiting"] or stats["held"]:
        return False
    try:
        return not sum((await _counts(made)).values())
    except Exception:  # the database restarts just now
        return False


async def _counts(made: Ground) -> dict[str, int]:
    """What has not come to its end."""
    async with made.opened() as database, database.transaction() as (connection, _):
        found = {}
        for name in ("telegram_updates", "kie_callbacks", "notices"):
            waiting = column("status").in_(("received", "processing"))
            counted = select(func.count()).select_from(table(name)).where(waiting)
            found[name] = int((await connection.execute(counted)).scalar_one())
        counts = await database.jobs.counts()
    return {**found, **{str(status): counts.get(status, 0) for status in UNDER_WAY if counts.get(status)}}
