"""Many podcasts through all stages while workers are killed and frozen, the provider fails, and old locks lie about; then
all is judged.

The note's numbers are in force: 20 rows in a batch, 45 minutes for it, 60 until a marker is stale. It begins with drills
(`storm_drills`). Then a worker is killed, one is frozen past its lease, the provider has an outage, and all are killed at
once and an hour passes in the rows (`storm_clock`), over and over. The last rows are left in peace. What must hold is in
`storm_oracle`.
"""

import asyncio
import json
import random
import secrets
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx
from sqlalchemy import text, update

from appkit.storm import Bar, Instance, Instances, Report, until
from outreach.forms import Form
from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.service import Service, prepared
from outreach.settings import Settings
from outreach.storm_audit import events, install
from outreach.storm_clock import PowerCuts, end_pauses, minutes_pass
from outreach.storm_drills import Drills
from outreach.storm_oracle import Happened, judge
from outreach.storm_rows import BROKEN, ended, examine, fill
from outreach.tables import discoveries
from raceproof.testing import postgres

LIMIT = 1800.0
"""Seconds after which a storm that has not ended has failed."""
LEASE = 4.0
"""Seconds of a claim in columns."""
FROZEN = 1.6 * LEASE
OUTAGE = 3.0
AI_TIMEOUT = 2.0
AT_ONCE = 2
"""Workers of a stage at once."""
MOST_CUTS = 6
"""A power cut may come when nothing is held: then there is another one."""
AFTERWARDS = 15.0
"""Seconds in which a worker that was frozen ends what it had begun, while another has its slot."""
ROUND = ("kill", "freeze", "down", "kill", "power", "freeze", "key", "kill", "rate")
PRICE_IN, PRICE_OUT = 0.15, 0.60


@dataclass(frozen=True, slots=True)
class Plan:
    podcasts: int
    campaigns: int
    workers: int
    form: str
    database: str
    short: bool

    def form_of(self, worker: int) -> Form:
        """With `both`, every other worker still uses markers, as in the middle of a deploy."""
        return (Form.COLUMNS, Form.MARKER)[worker % 2] if self.form == "both" else Form(self.form)

    @property
    def forms(self) -> list[Form]:
        return [Form.COLUMNS, Form.MARKER] if self.form == "both" else [Form(self.form)]

    @property
    def every(self) -> float:
        """Seconds between two troubles."""
        return 1.5 if self.short else 5.0

    @property
    def slow(self) -> float:
        """Seconds for an answer of the provider: in a short storm so long that there is something to kill."""
        return 0.25 if self.short else 0.02

    @property
    def broken(self) -> int:
        """Every so many-th feed is none."""
        return 20 if self.short else BROKEN

    @property
    def newest_form(self) -> Form:
        return Form.COLUMNS if self.form == "both" else Form(self.form)


@dataclass
class Storm:
    """What the parts of a storm work on."""

    plan: Plan
    report: Report
    instances: Instances
    service: Service
    client: httpx.AsyncClient
    provider: str
    url: str
    key: str
    happened: Happened
    workers: list[Instance] = field(default_factory=list)
    cuts: PowerCuts = field(default_factory=PowerCuts)

    def environment(self, number: int, form: Form) -> Mapping[str, str]:
        """Of a worker: with a login of its own at the database, and a key of its own at the provider."""
        name = f"worker-{number}"
        stages = ("enrichment", "ai_description", "vetting", "matching")
        told: dict[str, Any] = {
            "DATABASE": _as(self.url, name),
            "FOLDER": self.instances.folder / "data",
            "FORM": form,
            "RHYTHM": "continuous",
            "LIMITS": json.dumps(dict.fromkeys(stages, AT_ONCE)),
            "SLOT": 3,
            "LEASE": LEASE,
            "POLL": 0.3,
            "REST": 0.3,
            "AI_URL": f"{self.provider}/v1",
            "AI_KEY": f"{self.key}.{name}",
            "AI_RATE": 1000,
            "AI_TIMEOUT": AI_TIMEOUT,
            "AI_PAUSE": 0.15,
            "AI_BUDGET": 1000,
            "AI_PRICE_IN": PRICE_IN,
            "AI_PRICE_OUT": PRICE_OUT,
            "ITEM_TIMEOUT": 20,
            "DRAIN": 10,
        }
        return {f"OUTREACH_{name}": str(value) for name, value in told.items()}

    async def calls(self) -> list[dict[str, Any]]:
        return list((await self.client.get("/log", timeout=60)).json())

    async def outage(self, kind: str) -> None:
        await self.client.post("/control", json={"outage": kind})


async def blow(plan: Plan, output: str) -> int:
    """Run it and print what was counted; 1 if anything that must hold does not."""
    report = Report("outreach")
    with Instances(report) as instances, _database(plan, instances) as url:
        key, port = secrets.token_hex(16), _free_port()
        instances.add("provider", _provider(plan, port), {"OUTREACH_AI_KEY": key})
        settings = Settings(database=url, form=plan.newest_form, lease=LEASE)
        at = f"http://127.0.0.1:{port}"
        async with (
            prepared(settings, Metrics(), Purpose.MIGRATE) as service,
            httpx.AsyncClient(base_url=at, trust_env=False, timeout=10) as client,
        ):
            happened = Happened(limit=AT_ONCE, price_in=PRICE_IN, price_out=PRICE_OUT)
            storm = Storm(plan, report, instances, service, client, at, url, key, happened)
            try:
                await _blow(storm)
            finally:
                if report.violated:
                    await report.keep_database(url, instances.folder)
                    await _keep_calls(storm)
    return report.show(output)


async def _blow(storm: Storm) -> None:
    plan, service, report = storm.plan, storm.service, storm.report
    await _logins(storm)
    await install(service.database, plan.newest_form is Form.COLUMNS)
    seeded = await fill(service, plan.podcasts, plan.campaigns, plan.broken)
    await until(lambda: _answers(storm.client), 60)
    drills = Drills(storm.instances, service.database, service.claiming, storm.provider, LEASE, storm.environment)
    await drills.run(report, plan.forms)
    storm.happened.pauses += drills.pauses
    storm.happened.not_again = drills.products
    await _hold_back(service, plan)
    started = time.monotonic()
    await _rage(storm)
    seconds = time.monotonic() - started
    died = storm.instances.died()
    stopped = await asyncio.gather(*(asyncio.to_thread(one.stop) for one in storm.workers))
    storm.happened.kills = storm.instances.kills
    await examine(service, seeded, report)
    await judge(report, service.database, await events(service.database), await storm.calls(), storm.happened)
    _count(storm, seconds)
    report.check("no process ended by itself", not died, "; ".join(died)[:500], "no-process-died")
    report.check("workers end well on SIGTERM", not any(stopped), stopped, "sigterm-ends-well")


def _count(storm: Storm, seconds: float) -> None:
    report, happened, cuts = storm.report, storm.happened, storm.cuts
    late = sum(one.log.read_text(errors="replace").count("(lost)") for one in storm.workers)
    report.counts |= {
        "kills": happened.kills,
        "workers frozen past their lease": happened.pauses,
        "outages": happened.outages,
        "power cuts": cuts.number,
        "rows held in a power cut": cuts.held,
        "of these by markers, and still held after 46 minutes": cuts.by_marker,
        "late ends that were refused": late,
        "seconds": round(seconds, 1),
        "discoveries a second": round(storm.plan.podcasts * storm.plan.campaigns / seconds),
    }
    report.at_least("kills", 3, happened.kills)
    report.at_least("workers frozen past their lease", 2 + 2 * len(storm.plan.forms), happened.pauses)
    report.at_least("outages", 2, happened.outages)
    report.at_least("power cuts", 1, cuts.number)
    report.at_least("rows held in a power cut", 1, cuts.held)
    if Form.MARKER in storm.plan.forms:
        report.at_least("rows held by markers in a power cut", 1, cuts.by_marker)
    early, stale = cuts.too_early, cuts.too_late
    what = "no claim takes a row before its lock is stale"
    report.check(what, not early, "; ".join(early[:3]), "locks-hold-long-enough")
    what = "a claim takes every row whose lock is stale"
    report.check(what, not stale, "; ".join(stale[:3]), "locks-end-in-time")


async def _hold_back(service: Service, plan: Plan) -> None:
    """The last campaign is vetted when enough has happened, so that there is always something to disturb."""
    rests = "now() + interval '1 year'" if service.database.dialect == "postgres" else "'9999-01-01 00:00:00.000'"
    async with service.database.transaction() as (connection, _):
        last = (
            f"UPDATE campaign_media_discoveries SET vetting_rests_until = {rests} WHERE campaign_id = {plan.campaigns}"  # noqa: S608
        )
        await connection.execute(text(last))


async def _rage(storm: Storm) -> None:
    """Workers at work, disturbed over and over, until nearly every row has ended; the rest in peace."""
    plan, service = storm.plan, storm.service
    for number in range(plan.workers):
        environment = {
            **storm.environment(number, plan.form_of(number)),
            "OUTREACH_INSTANCE": f"worker-{number}",
        }
        storm.workers.append(storm.instances.add(f"worker-{number}", ["outreach", "work"], environment))
    total = plan.podcasts * plan.campaigns
    last = total // plan.campaigns
    with Bar("discoveries ended", total) as bar:

        async def all_ended(but: int = 0) -> bool:
            number = await ended(service.database)
            bar.at(number)
            return number >= total - but

        trouble = asyncio.create_task(_trouble(storm, lambda: all_ended(last + last // 10)))
        try:
            await asyncio.wait_for(asyncio.shield(trouble), LIMIT)
        finally:
            trouble.cancel()
            await asyncio.wait([trouble])
            for one in storm.workers:
                one.signal(signal.SIGCONT)
            await storm.outage("")
        async with service.database.transaction() as (connection, _):
            await connection.execute(update(discoveries).values(vetting_rests_until=None))
        for _ in range(MOST_CUTS):
            await _cut_the_power(storm)
            if storm.cuts.held and (storm.cuts.by_marker or Form.MARKER not in plan.forms):
                break
        await until(all_ended, LIMIT, every=1.0)

    async def all_work() -> bool:
        return all(map(_works, storm.workers))

    await until(all_work, 60)


async def _trouble(storm: Storm, nearly: Any) -> None:
    """One after the other; at least a whole round, and then until nearly everything has ended."""
    choose = random.Random(7)
    for turn in count():
        kind = ROUND[turn % len(ROUND)]
        if turn >= len(ROUND) and (storm.plan.short or await nearly()):
            return
        await asyncio.sleep(storm.plan.every * choose.uniform(0.6, 1.4))
        if kind == "power":
            await _cut_the_power(storm)
            await _hold_back(storm.service, storm.plan)  # its rest has passed as well
            continue
        if kind in ("down", "key", "rate"):
            await storm.outage(kind)
            await asyncio.sleep(OUTAGE)
            await storm.outage("")
            storm.happened.outages += 1
            storm.happened.key_outages += kind == "key"
            continue
        await until(lambda: _some_work(storm), 60)
        victim = choose.choice([one for one in storm.workers if _works(one)] or storm.workers)
        if kind == "freeze":
            await _freeze(storm, victim)
        else:
            await _kill(storm, victim)
            victim.start()


async def _some_work(storm: Storm) -> bool:
    return any(map(_works, storm.workers))


async def _freeze(storm: Storm, victim: Instance) -> None:
    """Past the lease of what it holds: others take its rows over, and then it goes on."""
    await until(lambda: _is_calling(storm, victim), 10, every=0.05)
    since = time.time()
    victim.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(1.0)
        form = storm.plan.form_of(storm.workers.index(victim))
        if form is Form.MARKER:
            keys = await _held_by(storm, victim.name)
            await minutes_pass(storm.service.database, 61, storm.service.claiming.form, keys)
        await asyncio.sleep(FROZEN - 1.0)
    finally:
        victim.signal(signal.SIGCONT)
    storm.happened.pauses += 1
    storm.happened.frozen.append((victim.name, since, time.time() + AFTERWARDS))


async def _is_calling(storm: Storm, victim: Instance) -> bool:
    return victim.name in await _callers(storm)


async def _callers(storm: Storm) -> list[str]:
    return list((await storm.client.get("/under-way")).json())


async def _held_by(storm: Storm, who: str) -> list[int]:
    """Rows whose last change was this worker's, and left them in work."""
    last = "SELECT max(n) FROM storm_audit GROUP BY stage, id"
    asked = f"SELECT id FROM storm_audit WHERE n IN ({last}) AND who = :who AND after = 'in_progress'"  # noqa: S608
    async with storm.service.database.read() as connection:
        return [int(key) for key in (await connection.execute(text(asked), {"who": who})).scalars()]


async def _cut_the_power(storm: Storm) -> None:
    """All die, those that use markers in the middle of a call, and begin again an hour later by the store's clock."""
    forms = [storm.plan.form_of(number) for number in range(storm.plan.workers)]
    last = [one for one, form in zip(storm.workers, forms, strict=True) if form is Form.MARKER] or storm.workers

    async def one_is_calling() -> bool:
        return bool({one.name for one in last} & set(await _callers(storm)))

    for one in storm.workers:
        if one not in last:
            await _kill(storm, one)
    await end_pauses(storm.service.database)  # a stage that an outage has paused holds nothing
    await until(one_is_calling, 30, every=0.02)  # the slots of the dead are free soon
    calling = await _callers(storm)
    for one in sorted(last, key=lambda one: one.name not in calling):
        await _kill(storm, one)
    await storm.cuts.pass_an_hour(storm.service.database, storm.service.claiming)
    for one in storm.workers:
        one.start()


async def _kill(storm: Storm, victim: Instance) -> None:
    storm.instances.kills += victim.running
    await asyncio.to_thread(victim.kill)


def _works(worker: Instance) -> bool:
    """It says so after each start; those that are killed before they say it do not count against the next."""
    return f"{worker.name} works," in worker.said()


def _provider(plan: Plan, port: int) -> list[str]:
    options = f"--port {port} --slow {plan.slow} --fail 0.1 --twice 0.05"
    share = 0.03 if plan.short else 0.01
    for name in ("poison", "refuses", "cut", "garbled", "rejects"):
        options += f" --wrong {name}={share}"
    return ["outreach", "provider", *options.split(), "--wrong", "fenced=0.2"]


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ledger")).status_code == 200
    except httpx.HTTPError:
        return False


async def _logins(storm: Storm) -> None:
    """One for each worker, so that the log of changes says who has written."""
    storm.happened.workers = {f"worker-{number}" for number in range(storm.plan.workers)}
    if storm.plan.database == "sqlite":
        return
    connection = await asyncpg.connect(storm.url)
    for name in storm.happened.workers:
        await connection.execute(f'CREATE ROLE "{name}" SUPERUSER LOGIN')
    await connection.close()


def _as(url: str, login: str) -> str:
    """The same database with another login."""
    if url.startswith("sqlite"):
        return url
    parts = urlsplit(url)
    return parts._replace(netloc=f"{login}@{parts.hostname}:{parts.port}").geturl()


async def _keep_calls(storm: Storm) -> None:
    """What the provider has written down, beside the logs."""
    try:
        lines = "".join(json.dumps(one) + "\n" for one in await storm.calls())
    except httpx.HTTPError:
        return
    await asyncio.to_thread((storm.instances.folder / "calls.jsonl").write_text, lines)


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
