"""Many podcasts through all stages while workers are killed, the provider fails, and old locks lie about; then count.

The note's numbers are in force: 20 rows in a batch, 45 minutes for it, 60 until a marker is stale. Every few seconds a
worker is killed, and now and then all of them; then an hour passes in the rows (`storm_clock`), and all begin again.
The last tenth of the rows is left in peace, or a storm would go on for as long as it kills.
"""

import asyncio
import random
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from appkit.storm import Bar, Instance, Instances, Report, until
from outreach.metrics import Metrics
from outreach.service import Service, prepared
from outreach.settings import Settings
from outreach.storm_clock import PowerCuts
from outreach.storm_rows import BROKEN, ended, examine, fill
from raceproof.testing import postgres

LIMIT = 1800.0
"""Seconds after which a storm that has not ended has failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    podcasts: int
    campaigns: int
    workers: int
    form: str
    database: str
    short: bool

    def form_of(self, worker: int) -> str:
        """With `both`, every other worker still uses markers, as in the middle of a deploy."""
        return ("columns", "marker")[worker % 2] if self.form == "both" else self.form

    @property
    def every(self) -> float:
        """Seconds between two kills."""
        return 1.5 if self.short else 5.0

    @property
    def cut(self) -> int:
        """Every so many-th time all are killed."""
        return 3 if self.short else 12

    @property
    def rounds(self) -> int:
        """So many times at most; the last time all are killed, so that no lock is left for an hour."""
        return self.cut * (1 if self.short else 100)

    @property
    def slow(self) -> float:
        """Seconds for an answer of the provider: in a short storm so long that there is something to kill."""
        return 0.2 if self.short else 0.02

    @property
    def broken(self) -> int:
        """Every so many-th feed is none."""
        return 20 if self.short else BROKEN

    @property
    def newest_form(self) -> str:
        return "columns" if self.form == "both" else self.form


async def blow(plan: Plan, output: str) -> int:
    """Run it and print what was counted; 1 if anything that must hold does not."""
    report = Report("outreach")
    with Instances(report) as instances, _database(plan, instances) as url:
        key, port = secrets.token_hex(16), _free_port()
        poison = "0.03" if plan.short else "0.01"
        options = f"--port {port} --slow {plan.slow} --fail 0.1 --twice 0.05 --poison {poison}".split()
        instances.add("provider", ["outreach", "provider", *options], {"OUTREACH_AI_KEY": key})
        environment = _environment(plan, url, f"http://127.0.0.1:{port}/v1", key)
        settings = Settings(database=url, form=plan.newest_form)
        async with prepared(settings, Metrics()) as service, httpx.AsyncClient(trust_env=False) as client:
            seeded = await fill(service, plan.podcasts, plan.campaigns, plan.broken)
            await until(lambda: _answers(client, port), 30)
            started = time.monotonic()
            cuts = await _run(plan, instances, service, environment)
            seconds = time.monotonic() - started
            ledger = (await client.get(f"http://127.0.0.1:{port}/ledger")).json()
            died = instances.died()
            stopped = [one.stop() for one in instances.all if one.name != "provider"]
            await examine(service, seeded, ledger, report)
        report.counts |= {"kills": instances.kills, "power cuts": cuts.number, "seconds": round(seconds, 1)}
        report.counts["rows held in a power cut"] = cuts.held
        report.counts["of these held after 45 minutes, by markers"] = cuts.still_held
        report.check("each lock held for as long as it should, and no longer", cuts.wrong == 0, cuts.wrong)
        report.counts["discoveries a second"] = round(plan.podcasts * plan.campaigns / seconds)
        report.check("no process ended by itself", not died, "; ".join(died)[:500])
        report.check("workers end well on SIGTERM", not any(stopped), stopped)
    return report.show(output)


async def _run(plan: Plan, instances: Instances, service: Service, environment: dict[str, str]) -> PowerCuts:
    """Workers at work, killed now and then, until every row has ended."""
    workers = []
    for number in range(plan.workers):
        own = {"OUTREACH_INSTANCE": f"worker-{number}", "OUTREACH_FORM": plan.form_of(number)}
        workers.append(instances.add(f"worker-{number}", ["outreach", "work"], environment | own))
    total = plan.podcasts * plan.campaigns
    trouble = Trouble(plan, instances, workers, service)
    with Bar("discoveries ended", total) as bar:

        async def all_ended(share: float = 1.0) -> bool:
            number = await ended(service.database)
            bar.at(number)
            return number >= total * share

        async def nearly() -> bool:
            return await all_ended(0.9) and trouble.cuts.number > 0

        troubling = asyncio.create_task(trouble.run())
        try:
            await until(nearly, LIMIT, every=1.0)
        finally:
            troubling.cancel()
            await asyncio.wait([troubling])
        await trouble.cut_the_power()
        await until(all_ended, LIMIT, every=1.0)

    async def all_work() -> bool:
        return all(map(_works, workers))

    await until(all_work, 60)
    return trouble.cuts


class Trouble:
    """Kills one that has come to work every few seconds, and now and then all of them."""

    def __init__(self, plan: Plan, instances: Instances, workers: list[Instance], service: Service) -> None:
        self._plan = plan
        self._instances = instances
        self._workers = workers
        self._service = service
        self.cuts = PowerCuts()

    async def run(self) -> None:
        """Until this is cancelled, or it is enough."""
        choose = random.Random(7)
        rounds = 0
        while rounds < self._plan.rounds:
            await asyncio.sleep(self._plan.every * choose.uniform(0.6, 1.4))
            at_work = [one for one in self._workers if _works(one)]
            if not at_work:
                continue
            rounds += 1
            if rounds % self._plan.cut == 0:
                await self.cut_the_power()
            else:
                victim = choose.choice(at_work)
                await self._kill(victim)
                victim.start()

    async def cut_the_power(self) -> None:
        """All die at once, and begin again an hour later by the store's clock."""
        for one in self._workers:
            await self._kill(one)
        await self.cuts.pass_an_hour(self._service.database, self._service.claiming)
        for one in self._workers:
            one.start()

    async def _kill(self, victim: Instance) -> None:
        self._instances.kills += victim.running
        await asyncio.to_thread(victim.kill)


def _works(worker: Instance) -> bool:
    """It says so after each start; those that are killed before they say it do not count against the next."""
    return f"{worker.name} works," in worker.said()


def _environment(plan: Plan, url: str, ai_url: str, key: str) -> dict[str, str]:
    told: dict[str, Any] = {
        "DATABASE": url,
        "RHYTHM": "continuous",
        "LIMITS": f'{{"enrichment": {plan.workers}, "ai_description": {plan.workers},'
        f' "vetting": {plan.workers}, "matching": {plan.workers}}}',
        "SLOT": 3,
        "POLL": 0.3,
        "REST": 0.3,
        "AI_URL": ai_url,
        "AI_KEY": key,
        "AI_RATE": 1000,
        "AI_CALLS": 12,
        "AI_BUDGET": 1000,
    }
    return {f"OUTREACH_{name}": str(value) for name, value in told.items()}


async def _answers(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/ledger")).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def _database(plan: Plan, instances: Instances) -> Iterator[str]:
    if plan.database == "sqlite":
        yield f"sqlite:///{instances.folder / 'storm.db'}"
        return
    with postgres() as server:
        yield server.database()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
