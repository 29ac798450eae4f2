"""Failover: how long no instance is ACTIVE after the ACTIVE one was killed."""

import asyncio
import time

from appkit.storm import Report, percentile
from imagebot.measure.ground import Ground, free_port, ground
from imagebot.warm import WarmInstance


async def measure(times: int, database: str, output: str) -> int:
    """Kill the ACTIVE one this many times, and wait for the other."""
    report = Report("imagebot failover")
    async with ground(database) as made:
        await made.simulate("--size", "8")
        ports = {name: free_port() for name in ("one", "two")}
        instances = {}
        for name, port in ports.items():
            # the note's own numbers: a lease of five minutes, which only the session lock cuts short
            patience = {"LOCK_SECONDS": "300" if database == "postgres" else "5", "TAKEOVER": "0.5"}
            instances[name] = made.start(name, PORT=str(port), PUBLIC_URL=made.url("", port), **patience)
            await made.reached(made.url("/health", port), instances[name])
        seconds = []
        for _ in range(times):
            seconds.append(await _once(made, ports, instances))
        report.counts["store"] = database
        report.counts["kills"] = times
        report.counts["seconds to the next ACTIVE, median / worst"] = (
            f"{percentile(seconds, 0.5):.2f} / {max(seconds):.2f}"
        )
        report.check("another was ACTIVE every time", len(seconds) == times)
    return report.show(output)


async def _once(made: Ground, ports: dict[str, int], instances: dict[str, WarmInstance]) -> float:
    active = await _active(made, ports)
    await asyncio.to_thread(instances[active].kill)
    began = time.monotonic()
    others = {name: port for name, port in ports.items() if name != active}
    await _active(made, others)
    took = time.monotonic() - began
    await asyncio.to_thread(instances[active].start)
    await made.reached(made.url("/health", ports[active]), instances[active])
    return took


async def _active(made: Ground, ports: dict[str, int]) -> str:
    """The name of the ACTIVE one, as soon as there is one."""
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        for name, port in ports.items():
            told = await made.get(made.url("/health", port))
            if told and told["mode"] == "ACTIVE":
                return name
        await asyncio.sleep(0.02)
    raise RuntimeError("no instance becomes ACTIVE")
