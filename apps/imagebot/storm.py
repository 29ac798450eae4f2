"""The storm: two instances, many users, callbacks twice, kills, a database that restarts; then every promise is counted."""

import asyncio
import random
import re
import signal
import time
from collections import Counter
from typing import Any

from sqlalchemy import column, func, select, table, text

from appkit.storm import Bar, Report, percentile, until
from imagebot.lifecycle import GIVEN_BACK, UNDER_WAY
from imagebot.measure.ground import Ground, ground
from imagebot.warm import WarmInstance

NUMBER = re.compile(r"#(j\d+)$")


async def blow(users: int, updates: int, generations: int, database: str, output: str) -> int:
    """Run it and print what was counted; 1 if anything that must hold does not."""
    report = Report("imagebot")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _interrupted, asyncio.current_task())
    async with ground(database) as made:
        report.counts["store"] = database
        await _blow(made, users, updates, generations, report)
        await _judge(made, report)
    return report.show(output)


def _interrupted(task: Any) -> None:
    """SIGTERM ends a storm as Ctrl-C does: with everything that it started."""
    task.cancel()


async def _blow(made: Ground, users: int, updates: int, generations: int, report: Report) -> None:
    await made.simulate("--trouble", "storm", "--seconds", "2", "--size", "8", "--no-people")
    victims = [made.start(name) for name in ("one", "two")]
    await made.reached(made.url("/health"), victims[0])
    began = time.monotonic()
    robots = {"users": users, "updates": updates, "generations": generations, "rate": 100}
    await made.post(f"{made.telegram}/control/robots", robots)
    trouble = Trouble(made, victims)
    troubling = asyncio.create_task(trouble.run())
    with Bar("updates kept", updates) as bar:
        done = await until(lambda: _all_said(made, bar), 1800, 0.5)
    report.counts["seconds of load"] = round(time.monotonic() - began)
    await until(lambda: _mostly_done(made, trouble), 900, 1.0)
    troubling.cancel()
    await asyncio.gather(troubling, return_exceptions=True)
    for victim in victims:
        if victim.exit_code is not None:
            victim.start()
    settled = await until(lambda: _settled(made), 300, 1.0)
    report.counts["seconds in all"] = round(time.monotonic() - began)
    report.counts["instances killed"] = trouble.kills
    report.counts["database restarts"] = trouble.restarts
    report.check("all robots have said all they had to say", bool(done))
    report.check("everything comes to its end", bool(settled), sum((await _counts(made)).values()))
    ends = [await asyncio.to_thread(victim.stop) for victim in victims]
    report.check("SIGTERM ends both in good order", ends == [0, 0], ends)
    words = "".join(victim.log for victim in victims)
    report.counts["changes of ACTIVE"] = words.count("is ACTIVE")
    for tag in ("DELIVER_LOCK_WIN", "POLL_LOCK_WIN", "DELIVER_LOCK_SKIP", "POLL_LOCK_SKIP"):
        report.counts[tag] = words.count(f"[{tag}]")


class Trouble:
    """A kill every few seconds, and one restart of the database."""

    def __init__(self, made: Ground, victims: list[WarmInstance], every: float = 7.0) -> None:
        self._made = made
        self._victims = victims
        self._every = every
        self.kills = 0
        self.restarts = 0

    async def run(self) -> None:
        choose = random.Random(7)
        while True:
            await asyncio.sleep(self._every * choose.uniform(0.6, 1.4))
            victim = choose.choice(self._victims)
            await asyncio.to_thread(victim.kill)
            self.kills += 1
            await asyncio.to_thread(victim.start)
            if self.kills == 2 and self._made.server is not None:
                await asyncio.to_thread(self._made.server.kill)
                await asyncio.to_thread(self._made.server.restart)
                self.restarts += 1


async def _all_said(made: Ground, bar: Bar) -> bool:
    stats = await made.get(f"{made.telegram}/control/stats")
    if not stats:
        return False
    bar.at(stats["accepted"])
    return bool(stats["robots"]["done"]) and stats["waiting"] == 0


async def _mostly_done(made: Ground, trouble: Trouble) -> bool:
    """Enough was killed, and the updates are through: what is left may end in peace."""
    if trouble.kills < 4:
        return False
    try:
        return (await _counts(made))["telegram_updates"] == 0
    except Exception:  # the database restarts just now
        return False


async def _settled(made: Ground) -> bool:
    """Nothing waits and nothing is under way."""
    stats = await made.get(f"{made.telegram}/control/stats")
    if not stats or stats["waiting"]:
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


async def _judge(made: Ground, report: Report) -> None:
    stats = await made.get(f"{made.telegram}/control/stats?full")
    tasks = (await made.get(f"{made.kie}/control/tasks")) or {"tasks": [], "callbacks_sent": 0}
    async with made.opened() as database, database.transaction() as (connection, _):

        async def rows(statement: str) -> list[Any]:
            return list((await connection.execute(text(statement))).mappings())

        updates = {
            int(row["event_id"]): row["status"] for row in await rows("SELECT * FROM telegram_updates")
        }
        jobs = await rows(
            "SELECT job_id, status, price, user_id FROM generation_jobs WHERE confirmed_at IS NOT NULL"
        )
        balances = await rows("SELECT * FROM user_balances")
        ledger = await rows(
            "SELECT user_id, SUM(amount) AS balance, SUM(held) AS held FROM transactions GROUP BY user_id"
        )
        kinds = await rows(
            "SELECT kind, count(*) AS number, SUM(amount) AS amount FROM transactions GROUP BY kind"
        )
    _judge_updates(report, stats, updates)
    _judge_jobs(report, jobs, stats["photo_captions"], tasks)
    _judge_money(report, jobs, balances, ledger, kinds)


def _judge_updates(report: Report, stats: Any, updates: dict[int, str]) -> None:
    accepted = set(stats["accepted_ids"])
    report.counts["updates accepted"] = len(accepted)
    report.counts["updates said, with repeats"] = stats["robots"]["said"]
    times = [1000 * one for one in stats["answered"]]
    report.counts["answer time p50 / p99, ms"] = (
        f"{percentile(times, 0.5):.0f} / {percentile(times, 0.99):.0f}"
    )
    lost = [one for one in accepted if updates.get(one) != "done"]
    report.check("every accepted update was dealt with", not lost, f"{len(lost)} not")
    dead = sum(status == "dead" for status in updates.values())
    report.check("no update was set aside", dead == 0, dead)


def _judge_jobs(report: Report, jobs: list[Any], captions: list[Any], tasks: Any) -> None:
    photos: Counter[str] = Counter()
    for _, caption in captions:
        found = NUMBER.search(caption)
        photos[found.group(1) if found else "?"] += 1
    made = Counter(str(one["callBackUrl"]).partition("job=")[2] for one in tasks["tasks"])
    statuses = Counter(row["status"] for row in jobs)
    report.counts["jobs paid"] = len(jobs)
    report.counts["jobs by end"] = dict(statuses)
    report.counts["pictures in chats"] = sum(photos.values())
    report.counts["tasks at KIE"] = len(tasks["tasks"])
    report.counts["callbacks of KIE"] = tasks["callbacks_sent"]
    known = {row["job_id"]: row["status"] for row in jobs}
    delivered = [job for job, status in known.items() if status == "delivered"]
    given_back = [job for job, status in known.items() if status in GIVEN_BACK]
    doubtful = [job for job, status in known.items() if status == "uncertain"]
    report.check(
        "a delivered picture is in its chat once", all(photos[job] == 1 for job in delivered), len(delivered)
    )
    report.check(
        "what was given back is in no chat", all(photos[job] == 0 for job in given_back), len(given_back)
    )
    report.check(
        "an uncertain one is there once or not", all(photos[job] <= 1 for job in doubtful), len(doubtful)
    )
    rest = len(known) - len(delivered) - len(given_back) - len(doubtful)
    report.check("every paid job has one of these ends", rest == 0, f"{rest} not")
    report.check(
        "no job has two tasks", max(made.values(), default=0) <= 1, sum(n > 1 for n in made.values())
    )
    strange = [job for job in (*photos, *made) if job not in known]
    report.check("no picture and no task without a paid job", not strange, len(strange))


def _judge_money(
    report: Report, jobs: list[Any], balances: list[Any], ledger: list[Any], kinds: list[Any]
) -> None:
    sums = {row["user_id"]: (int(row["balance"]), int(row["held"])) for row in ledger}
    wrong = [row for row in balances if sums.get(row["user_id"], (0, 0)) != (row["balance"], row["held"])]
    report.check("every balance is the sum of its ledger", not wrong, f"{len(wrong)} of {len(balances)} not")
    below = [row for row in balances if row["balance"] < 0 or row["held"] < 0]
    report.check("no balance is below zero", not below, len(below))
    by_status: Counter[str] = Counter()
    for row in jobs:
        by_status[row["status"]] += row["price"]
    held = sum(row["held"] for row in balances)
    report.check("held is exactly what is uncertain", held == by_status["uncertain"], held)
    numbers = {row["kind"]: int(row["number"]) for row in kinds}
    report.counts["ledger"] = numbers
    delivered = sum(row["status"] == "delivered" for row in jobs)
    report.check("charged once for each delivered job", numbers.get("charge", 0) == delivered, delivered)
    given_back = sum(row["status"] in GIVEN_BACK for row in jobs)
    report.check("given back once for each other end", numbers.get("release", 0) == given_back, given_back)
    report.check("held once for each paid job", numbers.get("hold", 0) == len(jobs), len(jobs))
