"""Two instances under load, killed together and alone and stopped past their lease, a broker that hangs and restarts, nodes
that misbehave; then all is counted. What must hold is in `judging`.
"""

import asyncio
import json
import logging
import random
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import httpx
from sqlalchemy import func, insert, select, update

from appkit.database import Database, open_database
from appkit.storm import Bar, Instance, Instances, Report, until
from devices.judging import Asked, Happened, judge
from devices.lifecycle import DISPATCH_LEASE, ENDED, Status
from devices.messages import Topics
from devices.service import MIGRATIONS
from devices.settings import broker_options
from devices.simulator import STORM, Simulator, paths
from devices.tables import commands, own_tables
from raceproof.testing import MqttServer, mqtt, postgres
from raceproof.webhooks import Secret

CHANNELS = ("pump", "relay")
CALM = 30.0
"""Seconds over which commands are submitted at least, so that there is load while something goes wrong."""
FROZEN = DISPATCH_LEASE + 2
"""Seconds for which an instance is stopped: it wakes up and believes in claims that it has lost."""
PATIENCE = 240.0
"""Seconds for everything to end after that."""
DOUBTS = 8


@dataclass(frozen=True, slots=True)
class Storm:
    """What the parts of a storm work on."""

    broker: MqttServer
    services: list[Instance]
    urls: list[str]
    simulator: Simulator
    opened: Database
    happened: Happened


async def blow(number: int, nodes: int, database: str, output: str) -> int:
    """One storm; returns the exit code."""
    logging.disable(logging.ERROR)  # a broker that is killed is an error to each of its clients
    report = Report("devices")
    secret = secrets.token_hex(16)
    with mqtt() as broker, Instances(report) as instances:
        async with temporary_database(database, instances.folder) as url:
            ports = [_free_port() for _ in range(2)]
            services = [
                instances.add(
                    f"instance-{one}",
                    ["devices", "serve"],
                    {
                        "DEVICES_DATABASE": url,
                        "DEVICES_BROKER": broker.url,
                        "DEVICES_SECRET": secret,
                        "DEVICES_ANSWER": "20",
                        "DEVICES_VALID": "60",
                        "DEVICES_HOLD": "5",
                        "DEVICES_PUBACK": "3",
                        "DEVICES_INSTANCE": f"storm-{one}",
                        "DEVICES_PORT": str(port),
                    },
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
            async with open_database(url, MIGRATIONS, own_tables) as opened:
                storm = Storm(broker, services, urls, simulator, opened, Happened())
                began = time.monotonic()
                await _rage(storm, number, report)
                await _doubt(storm)
                storm.happened.ended = await _all_end(opened, len(storm.happened.submitted), PATIENCE)
                await asyncio.sleep(2)  # late responses may still come
                report.counts["seconds"] = round(time.monotonic() - began, 1)
                for what in ("kills", "blackouts", "pauses", "broker_restarts", "broker_pauses"):
                    report.counts[what.replace("_", " ")] = getattr(storm.happened, what)
                await judge(report, opened, simulator, storm.happened)
            simulating.cancel()
            await asyncio.gather(simulating, return_exceptions=True)
            if report.violated:
                report.counts["ended by themselves"] = "\n".join(instances.died()) or "none"
                lines = "".join(json.dumps(asdict(one)) + "\n" for one in simulator.log)
                await asyncio.to_thread((instances.folder / "nodes.jsonl").write_text, lines)
                await report.keep_database(url, instances.folder)
    return report.show(output)


async def _rage(storm: Storm, number: int, report: Report) -> None:
    """Load while instances and the broker fail; until enough has happened."""
    troubles = [asyncio.create_task(one) for one in (_break_instances(storm), _break_broker(storm))]
    await _submit(number, storm, report)
    happened = storm.happened

    async def enough() -> bool:
        return min(happened.pauses, happened.blackouts, happened.broker_restarts, happened.broker_pauses) > 0

    await until(enough, 90)
    for task in troubles:
        task.cancel()
    await asyncio.gather(*troubles, return_exceptions=True)
    for one in storm.services:
        one.signal(signal.SIGCONT)
        if not one.running:
            one.start()


async def _break_instances(storm: Storm) -> None:
    """Both are killed at once; then one sleeps past its lease while the other is killed again and again."""
    first, second = storm.services
    while True:
        await asyncio.sleep(4)
        for one in storm.services:
            await asyncio.to_thread(one.kill)
        storm.happened.blackouts += 1
        storm.happened.kills += 2
        for one in storm.services:
            one.start()
        await until(lambda: _healthy(storm.urls), 30)
        await asyncio.sleep(2)
        sleeping = asyncio.create_task(second.pause(FROZEN))
        try:
            while not sleeping.done():
                await asyncio.wait([sleeping], timeout=6)
                await asyncio.to_thread(first.kill)
                storm.happened.kills += 1
                first.start()
                await until(lambda: _healthy(storm.urls[:1]), 30)
            storm.happened.pauses += 1
        finally:
            sleeping.cancel()
            await asyncio.gather(sleeping, return_exceptions=True)


async def _break_broker(storm: Storm) -> None:
    """It hangs for longer than a PUBACK is waited for, and is killed, in turn."""
    while True:
        await asyncio.sleep(8)
        await asyncio.to_thread(storm.broker.pause)
        try:
            await asyncio.sleep(4.5)
        finally:
            await asyncio.to_thread(storm.broker.resume)
        storm.happened.broker_pauses += 1
        await asyncio.sleep(8)
        await asyncio.to_thread(storm.broker.kill)
        await asyncio.to_thread(storm.broker.restart)
        storm.happened.broker_restarts += 1


async def _doubt(storm: Storm) -> None:
    """Dispatchers are killed while they publish; what they published arrives, and the nodes boot and forget it."""
    await until(lambda: _healthy(storm.urls), 60)
    await asyncio.sleep(1)
    chosen = list(storm.simulator.nodes)[:DOUBTS]
    await asyncio.to_thread(storm.broker.pause)
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        for place, node in enumerate(chosen):
            await _keep(client, storm, f"doubt-{place}", node, "doubt", "dose", [storm.urls[place % 2]])
    await until(lambda: _sending(storm.opened), 2, every=0.05)
    for one in storm.services:
        await asyncio.to_thread(one.kill)
    await asyncio.to_thread(storm.broker.resume)
    await until(lambda: _taken(storm, DOUBTS), 5)
    for node in chosen:
        await storm.simulator.nodes[node].reboot()
    storm.happened.in_doubt = {
        one.cmd_id for one in storm.simulator.log if one.kind == "taken" and one.cmd_id.startswith("doubt-")
    }
    await _contradict(storm, chosen[:4])
    await asyncio.sleep(2)  # the broker has the greetings and the answers
    for one in storm.services:
        one.start()
    await until(lambda: _healthy(storm.urls), 60)


async def _contradict(storm: Storm, chosen: list[str]) -> None:
    """Commands whose sending has failed, as far as the table knows, and nodes that say DONE all the same."""
    now = datetime.now(UTC)
    for place, node in enumerate(chosen):
        cmd_id = f"contradicted-{place}"
        row: dict[str, object] = {
            "cmd_id": cmd_id,
            "node": node,
            "channel": "late",
            "cmd": "dose",
            "params": "{}",
            "status": "QUEUED",
        }
        row |= {
            "permit": "ALLOWED",
            "rank": 1,
            "line": f"{node}/late",
            "made_at": now,
            "claims": 0,
            "publishes": 0,
        }
        row |= {"valid_until": now + timedelta(seconds=45), "rests_until": now + timedelta(seconds=300)}
        async with storm.opened.transaction() as (connection, _):
            await connection.execute(insert(commands).values(**row))
            failed = update(commands).where(commands.c.cmd_id == cmd_id)
            await connection.execute(failed.values(status="SEND_FAILED"))
        storm.happened.submitted[cmd_id] = Asked(node, "late", False, time.time(), time.time())
        answer = {"cmd_id": cmd_id, "status": "DONE", "ts": int(time.time() * 1000)}
        storm.simulator.nodes[node].said(Topics().response(node, "late"), json.dumps(answer).encode())


async def _sending(opened: Database) -> bool:
    """All of them are on their way, by the table."""
    wanted = commands.c.cmd_id.like("doubt-%") & (commands.c.publish_state == "sending")
    async with opened.read() as connection:
        found = (await connection.execute(select(func.count()).where(wanted))).scalar_one()
    return bool(found >= DOUBTS)


async def _taken(storm: Storm, number: int) -> bool:
    return sum(one.kind == "taken" and one.cmd_id.startswith("doubt-") for one in storm.simulator.log) >= number


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


async def _submit(number: int, storm: Storm, report: Report) -> None:
    """Submit all, each until an instance has said that it is kept; some twice on purpose, some of them stops."""
    chance = random.Random(number)
    nodes = list(storm.simulator.nodes)
    places = asyncio.Semaphore(40)
    asked_again = 0

    async def one(client: httpx.AsyncClient, place: int) -> None:
        nonlocal asked_again
        stop = place % 25 == 24
        node, channel = chance.choice(nodes), chance.choice(CHANNELS)
        cmd_id = f"{'stop' if stop else 'storm'}-{place}"
        for _ in range(2 if chance.random() < 0.05 else 1):
            asked_again += await _keep(client, storm, cmd_id, node, channel, "stop" if stop else "dose", storm.urls)
        places.release()

    pause = CALM / number
    async with httpx.AsyncClient(trust_env=False, timeout=3) as client:
        with Bar("commands submitted", number) as bar:
            async with asyncio.TaskGroup() as group:
                for place in range(number):
                    await places.acquire()
                    group.create_task(one(client, place))
                    await asyncio.sleep(pause)
                    bar.at(place)
    report.counts["submitted"] = len(storm.happened.submitted)
    report.counts["asked again"] = asked_again


async def _keep(
    client: httpx.AsyncClient,
    storm: Storm,
    cmd_id: str,
    node: str,
    channel: str,
    cmd: str,
    urls: Sequence[str],
) -> int:
    """Ask until an instance says that it is kept, and write down when; returns how often that was in vain."""
    stop = cmd == "stop"
    body = {
        "cmd_id": cmd_id,
        "node": node,
        "channel": channel,
        "cmd": cmd,
        "params": {} if stop else {"ml": 5},
    }
    asked = storm.happened.submitted.setdefault(cmd_id, Asked(node, channel, stop, time.time()))
    for again in count():
        with suppress(httpx.HTTPError):
            answer = await client.post(f"{random.choice(urls)}/commands", json=body)
            if answer.status_code in (200, 201):
                asked.answered = asked.answered or time.time()
                return again
        await asyncio.sleep(0.1)
    raise AssertionError


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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
