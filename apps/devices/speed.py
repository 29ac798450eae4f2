"""Commands a second from submit to SENT, and how long one takes, beside a bare aiomqtt publisher on the same broker."""

import asyncio
import json
import secrets
import tempfile
import time
from pathlib import Path

import aiomqtt

from appkit import commands as kit
from appkit.loops import Loops
from appkit.storm import percentile, until
from devices.judging import submit_to_sent
from devices.lifecycle import Status
from devices.metrics import Metrics
from devices.reading import counts
from devices.service import running
from devices.settings import Settings, broker_options
from devices.simulator import paths
from devices.storm import temporary_database
from devices.submitting import Wanted
from raceproof.testing import mqtt

NODES = 200
AT_ONCE = 64


async def measure(number: int, database: str, output: str) -> int:
    """Print both, and their ratio."""
    with mqtt() as broker, tempfile.TemporaryDirectory() as folder:
        async with temporary_database(database, Path(folder)) as url:
            bare, bare_waits = await _bare(broker_options(broker.url), number)
            ours, waits = await _ours(url, broker.url, number)
    rows = [
        _row("bare aiomqtt", number, bare, bare_waits),
        _row(f"devices on {database}", number, ours, waits),
        {"what": "ratio", "commands/s": f"{bare / ours:.3f}"},
    ]
    kit.show(rows, output, list(rows[0]))
    return kit.OK


def _row(what: str, number: int, seconds: float, waits: list[float]) -> dict[str, str]:
    return {
        "what": what,
        "commands/s": f"{number / seconds:,.0f}",
        "p50": f"{percentile(waits, 0.5) * 1000:.1f} ms",
        "p99": f"{percentile(waits, 0.99) * 1000:.1f} ms",
    }


async def _bare(options: dict[str, object], number: int) -> tuple[float, list[float]]:
    """The same messages, published at QoS 1 without storing anything."""
    waits: list[float] = []
    places = asyncio.Semaphore(AT_ONCE)
    async with aiomqtt.Client(**options, identifier="bare", max_inflight_messages=1000) as client:  # type: ignore[arg-type]
        client.pending_calls_threshold = 10_000

        async def one(place: int) -> None:
            began = time.perf_counter()
            body = {"cmd_id": f"c-{place}", "cmd": "dose", "params": {"ml": 5}, "ts": int(time.time())}
            await client.publish("hydro/gh/zone/node/pump/command", json.dumps(body).encode(), qos=1)
            waits.append(time.perf_counter() - began)
            places.release()

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place in range(number):
                await places.acquire()
                group.create_task(one(place))
        return time.perf_counter() - began, waits


async def _ours(url: str, broker: str, number: int) -> tuple[float, list[float]]:
    """Submitted in this process, so that HTTP is not part of it; kept, claimed, signed, published, marked SENT."""
    settings = Settings(database=url, broker=broker, secret=secrets.token_hex(16), instance="speed")
    nodes = paths(NODES)
    places = asyncio.Semaphore(AT_ONCE)
    async with running(settings, broker, Loops(), Metrics()) as (service, _):

        async def one(place: int) -> None:
            await service.submitting.submit(Wanted(nodes[place % NODES], "pump", "dose", {"ml": 5}, f"c-{place}"))
            places.release()

        async def all_sent() -> bool:
            return (await counts(service.database)).get(Status.SENT, 0) >= number

        for node in nodes:
            service.presences.hear(node, "heartbeat", b"{}", False)
        await service.presences.write()
        await asyncio.sleep(1)  # the connections are made
        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for place in range(number):
                await places.acquire()
                group.create_task(one(place))
        await until(all_sent, 120, every=0.1)
        took = time.perf_counter() - began
        async with service.database.read() as connection:
            return took, await submit_to_sent(connection)
