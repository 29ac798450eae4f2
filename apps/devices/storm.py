"""Two instances under load, killed again and again, a broker that restarts, nodes that misbehave; then all is counted.

What must hold: every command ends; no status moved against the guards; no node executed a command twice outside of what
the service itself calls uncertain; nothing was published by two instances at once.
"""

import asyncio
import random
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from appkit.database import Database, open_database
from appkit.storm import Bar, Instance, Instances, Report, percentile, until
from devices.lifecycle import Command, Status
from devices.messages import Topics
from devices.service import MIGRATIONS
from devices.settings import broker_options
from devices.simulator import STORM, Simulator, paths
from devices.tables import commands, doubts, evidence, history, own_tables
from raceproof.intake import Secret
from raceproof.testing import MqttServer, mqtt, postgres

CHANNELS = ("pump", "relay")
AFTERMATH = 15.0
"""Seconds for which the trouble goes on after the last command was submitted."""
PATIENCE = 240.0
"""Seconds for everything to end after that."""


async def blow(number: int, nodes: int, database: str, output: str) -> int:
    """One storm; returns the exit code."""
    report = Report("devices")
    secret = secrets.token_hex(16)
    with mqtt() as broker, Instances() as instances:
        async with temporary_database(database, instances.folder) as url:
            environment = {
                "DEVICES_DATABASE": url,
                "DEVICES_BROKER": broker.url,
                "DEVICES_SECRET": secret,
                "DEVICES_ANSWER": "20",
                "DEVICES_VALID": "120",
                "DEVICES_PUBACK": "3",
            }
            ports = [_free_port() for _ in range(2)]
            services = [
                instances.add(
                    f"instance-{one}",
                    ["devices", "serve"],
                    {**environment, "DEVICES_INSTANCE": f"storm-{one}", "DEVICES_PORT": str(port)},
                )
                for one, port in enumerate(ports)
            ]
            urls = [f"http://127.0.0.1:{port}" for port in ports]
            simulator = Simulator(
                broker_options(broker.url),
                Topics(),
                lambda _: Secret(secret),
                paths(nodes),
                STORM,
                seed=number,
            )
            simulating = asyncio.create_task(simulator.run(heartbeat=5))
            await _ready(urls, instances)
            began = time.monotonic()
            addresses = dict(zip(services, urls, strict=True))
            trouble = asyncio.create_task(
                instances.trouble(services, every=4, is_up=lambda one: _healthy([addresses[one]]))
            )
            restarted: list[float] = []
            restarts = asyncio.create_task(_restarting(broker, restarted, every=15))
            async with open_database(url, MIGRATIONS, own_tables) as opened:
                submitted = await _submit(number, urls, list(simulator.nodes), report)
                ended = await _all_end(opened, number, AFTERMATH)
                for task in (trouble, restarts):
                    task.cancel()
                await asyncio.gather(trouble, restarts, return_exceptions=True)
                await _start_again(services)
                ended = ended or await _all_end(opened, number, PATIENCE)
                await asyncio.sleep(2)  # late responses may still come
                report.counts["seconds"] = round(time.monotonic() - began, 1)
                report.counts["instances killed"] = instances.kills
                report.counts["broker restarts"] = len(restarted)
                await _judge(report, opened, simulator, submitted, ended)
            simulating.cancel()
            await asyncio.gather(simulating, return_exceptions=True)
            if report.violated:
                report.counts["ended by themselves"] = "\n".join(instances.died()) or "nobody"
    return report.show(output)


async def _restarting(broker: MqttServer, restarted: list[float], every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.restart)
        restarted.append(time.monotonic())


@asynccontextmanager
async def temporary_database(kind: str, folder: Path) -> AsyncIterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'storm.db'}"
        return
    server = await asyncio.to_thread(postgres)
    try:
        yield server.database()
    finally:
        await asyncio.to_thread(server.close)


async def _ready(urls: list[str], instances: Instances) -> None:
    if not await until(lambda: _healthy(urls), 120):
        raise SystemExit("the instances did not start:\n" + "\n".join(one.tail() for one in instances.all))


async def _healthy(urls: list[str]) -> bool:
    async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
        try:
            return all([(await client.get(f"{url}/health")).status_code == 200 for url in urls])
        except httpx.HTTPError:
            return False


async def _submit(
    number: int, urls: list[str], nodes: list[str], report: Report
) -> dict[str, tuple[str, str]]:
    """Submit all, each until somebody has said that it is kept; some twice on purpose."""
    chance = random.Random(number)
    submitted: dict[str, tuple[str, str]] = {}
    outcomes: Counter[str] = Counter()
    places = asyncio.Semaphore(40)
    wanted = iter(range(number))

    async def one(client: httpx.AsyncClient, place: int) -> None:
        cmd_id, node, channel = f"storm-{place}", chance.choice(nodes), chance.choice(CHANNELS)
        body = {
            "cmd_id": cmd_id,
            "node": node,
            "channel": channel,
            "cmd": "dose",
            "params": {"ml": place % 9 + 1},
        }
        submitted[cmd_id] = (node, channel)
        for _ in range(2 if chance.random() < 0.05 else 1):
            while True:
                url = chance.choice(urls)
                with suppress(httpx.HTTPError):
                    answer = await client.post(f"{url}/commands", json=body)
                    if answer.status_code in (200, 201):
                        outcomes["created" if answer.status_code == 201 else "was there already"] += 1
                        break
                outcomes["asked again"] += 1
                await asyncio.sleep(0.1)
        places.release()

    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        with Bar("commands submitted", number) as bar:
            async with asyncio.TaskGroup() as group:
                for place in wanted:
                    await places.acquire()
                    group.create_task(one(client, place))
                    bar.at(place)
    report.counts["submitted"] = len(submitted)
    report.counts |= {f"submissions {name}": count for name, count in sorted(outcomes.items())}
    return submitted


_ENDED = (Status.DONE, Status.NO_EFFECT, Status.ERROR, Status.INVALID, Status.BUSY, Status.TIMEOUT)


async def _all_end(opened: Database, number: int, seconds: float) -> bool:
    with Bar("commands ended", number) as bar:

        async def ended() -> bool:
            async with opened.read() as connection:
                is_over = commands.c.status.in_(_ENDED) | (
                    (commands.c.status == Status.SEND_FAILED) & (commands.c.permit == "WITHDRAWN")
                )
                over = (
                    await connection.execute(select(func.count()).select_from(commands).where(is_over))
                ).scalar_one()
            bar.at(over)
            return bool(over >= number)

        return await until(ended, seconds, every=0.5)


async def _start_again(services: list[Instance]) -> None:
    for one in services:
        if not one.running:
            one.start()


async def _judge(
    report: Report, opened: Database, simulator: Simulator, submitted: dict[str, tuple[str, str]], ended: bool
) -> None:
    executed = simulator.executed
    async with opened.read() as connection:
        by_status: dict[str, int] = dict(
            (
                await connection.execute(select(commands.c.status, func.count()).group_by(commands.c.status))
            ).all()
        )
        kept = (await connection.execute(select(func.count()).select_from(commands))).scalar_one()
        uncertain = set((await connection.execute(select(doubts.c.cmd_id))).scalars())
        late = set(
            (
                await connection.execute(select(evidence.c.cmd_id).where(evidence.c.outcome == "late"))
            ).scalars()
        )
        publishes = dict(
            (
                await connection.execute(
                    select(commands.c.cmd_id, commands.c.publishes).where(commands.c.publishes > 1)
                )
            ).all()
        )
        against = await _against_the_guards(connection)
        latencies = await submit_to_sent(connection)
        done = set(
            (
                await connection.execute(select(commands.c.cmd_id).where(commands.c.status == Status.DONE))
            ).scalars()
        )
    report.counts |= {f"ended at {status}": count for status, count in sorted(by_status.items())}
    report.counts["uncertain at some time"] = len(uncertain)
    report.counts["commands with late evidence"] = len(late)
    report.counts["commands executed by nodes"] = len(executed)
    report.counts["p50 from submit to SENT"] = f"{percentile(latencies, 0.5):.3f} s"
    report.counts["p99 from submit to SENT"] = f"{percentile(latencies, 0.99):.3f} s"
    twice = {cmd_id for cmd_id, times in executed.items() if times > 1}
    report.counts["executed twice, and reported as uncertain"] = len(twice & uncertain)
    report.check(
        "every command that was accepted is kept, once", kept == len(submitted), f"{kept} of {len(submitted)}"
    )
    report.check("every command ends", ended, f"{sum(by_status.values())} commands")
    report.check("no status moved against the guards", not against, ", ".join(against[:5]))
    report.check(
        "no node executed a command twice outside of what is reported as uncertain",
        not twice - uncertain,
        ", ".join(sorted(twice - uncertain)[:5]),
    )
    again = {cmd_id for cmd_id in publishes if cmd_id not in uncertain}
    report.check(
        "nothing was published again unless the last try failed or was uncertain",
        *await _failed(opened, again),
    )
    report.check(
        "what is DONE was executed", done <= set(executed), ", ".join(sorted(done - set(executed))[:5])
    )


async def _failed(opened: Database, again: set[str]) -> tuple[bool, str]:
    """Of commands with several tries and no doubt, each has a failed try in its history."""
    if not again:
        return True, ""
    async with opened.read() as connection:
        failed = set(
            (
                await connection.execute(
                    select(history.c.key).where(
                        history.c.move == Command.send_failed.name, history.c.outcome == "moved"
                    )
                )
            ).scalars()
        )
    return again <= failed, ", ".join(sorted(again - failed)[:5])


async def _against_the_guards(connection: AsyncConnection) -> list[str]:
    """Moves in the history that no declaration has, or that do not follow on each other."""
    allowed = {
        (move.name, str(source), str(move.target))
        for move in Command.spec.moves.values()
        for source in move.sources
    }
    rows = await connection.execute(
        select(history.c.key, history.c.move, history.c.before, history.c.after)
        .where(history.c.lifecycle == "Command", history.c.outcome == "moved")
        .order_by(history.c.key, history.c.id)
    )
    wrong = []
    last: dict[str, str] = {}
    for key, move, before, after in rows:
        if (move, before, after) not in allowed or last.get(key, Status.QUEUED) != before:
            wrong.append(f"{key}: {move} from {before} to {after}")
        last[key] = after
    return wrong


async def submit_to_sent(connection: AsyncConnection) -> list[float]:
    rows = await connection.execute(
        select(commands.c.made_at, commands.c.published_at).where(commands.c.published_at.is_not(None))
    )
    return [(published - made).total_seconds() for made, published in rows]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
