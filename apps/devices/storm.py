"""Two instances under load, killed again and again, a broker that restarts, nodes that misbehave; then all is counted.

What must hold: every command ends; no status moved against the guards; no node executed a command twice outside of what
the service itself calls uncertain; nothing was published by two instances at once.
"""

import asyncio
import logging
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

from appkit.database import Database, open_database
from appkit.storm import Bar, Instance, Instances, Report, until
from devices.judging import judge
from devices.lifecycle import ENDED, Status
from devices.messages import Topics
from devices.service import MIGRATIONS
from devices.settings import broker_options
from devices.simulator import STORM, Simulator, paths
from devices.tables import commands, own_tables
from raceproof.intake import Secret
from raceproof.testing import MqttServer, mqtt, postgres

CHANNELS = ("pump", "relay")
AFTERMATH = 15.0
"""Seconds for which the trouble goes on after the last command was submitted."""
PATIENCE = 240.0
"""Seconds for everything to end after that."""


async def blow(number: int, nodes: int, database: str, output: str) -> int:
    """One storm; returns the exit code."""
    logging.disable(logging.ERROR)  # a broker that is killed is an error to each of its clients
    report = Report("devices")
    secret = secrets.token_hex(16)
    with mqtt() as broker, Instances(report) as instances:
        async with temporary_database(database, instances.folder) as url:
            environment = {
                "DEVICES_DATABASE": url,
                "DEVICES_BROKER": broker.url,
                "DEVICES_SECRET": secret,
                "DEVICES_ANSWER": "20",
                "DEVICES_VALID": "60",
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
                instances.trouble(
                    services, every=4, in_turn=True, is_up=lambda one: _healthy([addresses[one]])
                )
            )
            restarted: list[float] = []
            restarts = asyncio.create_task(_restarting(broker, restarted, every=15))
            async with open_database(url, MIGRATIONS, own_tables) as opened:
                submitted = await _submit(number, urls, list(simulator.nodes), report)
                ended = await _all_end(opened, number, AFTERMATH)
                for task in (trouble, restarts):
                    task.cancel()
                await asyncio.gather(trouble, restarts, return_exceptions=True)
                troubled = time.monotonic() - began
                await _start_again(services)
                ended = ended or await _all_end(opened, number, PATIENCE)
                await asyncio.sleep(2)  # late responses may still come
                report.counts["seconds"] = round(time.monotonic() - began, 1)
                report.counts["instances killed"] = instances.kills
                report.counts["seconds between two kills"] = (
                    round(troubled / instances.kills, 1) if instances.kills else "none"
                )
                report.counts["killed while at work"] = instances.kills_at_work
                report.counts["broker restarts"] = len(restarted)
                await judge(report, opened, simulator, submitted, ended)
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


async def _all_end(opened: Database, number: int, seconds: float) -> bool:
    with Bar("commands ended", number) as bar:

        async def ended() -> bool:
            async with opened.read() as connection:
                is_over = commands.c.status.in_(ENDED) | (
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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
