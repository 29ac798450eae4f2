"""Ours beside the references, under the same load in turn; how is told in `bench.intake`."""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from bench.intake.ours import on_aiohttp, under_granian, under_uvicorn
from bench.intake.references import aiogram, bare_aiohttp, bare_granian, bare_uvicorn
from bench.intake.servers import Tell
from bench.queues.child import child
from bench.queues.stores import Store, fresh
from bench.result import Comparison, Result, by_rate
from bench.world import World

Serving = Callable[[str, Tell], Awaitable[None]]
"""Takes updates at `update.PATH`, given the URL of an empty database, and tells its port."""

CONNECTIONS = 48
DEADLINE = 30.0
_NAME = f"intake over HTTP, requests/s, {CONNECTIONS} connections"
_FIRST = 1_000_000_001
_ROOM = 10_000_000
"""Updates have numbers of ten digits, and each block of load a range of its own."""
_OURS: dict[str, Serving] = {
    "ours on aiohttp": on_aiohttp,
    "ours under uvicorn": under_uvicorn,
    "ours under Granian": under_granian,
}
_REFERENCES: dict[str, Serving] = {
    "a bare aiohttp handler": bare_aiohttp,
    "a bare application under uvicorn": bare_uvicorn,
    "a bare application under Granian": bare_granian,
    "aiogram's webhook handler": aiogram,
}
_PAIRS = (
    ("ours on aiohttp", "a bare aiohttp handler"),
    ("ours on aiohttp", "aiogram's webhook handler"),
    ("ours under uvicorn", "a bare application under uvicorn"),
    ("ours under uvicorn", "aiogram's webhook handler"),
    ("ours under Granian", "a bare application under Granian"),
    ("ours under Granian", "aiogram's webhook handler"),
)


def comparisons(world: World) -> Iterator[Comparison]:
    async def run() -> list[Result]:
        rates = await _rates(world, {**_OURS, **_REFERENCES})
        return [by_rate(f"{_NAME} · {mine} ÷ {other}", rates[mine], rates[other], None) for mine, other in _PAIRS]

    yield Comparison(_NAME, run)


async def _rates(world: World, sides: dict[str, Serving]) -> dict[str, list[float]]:
    """Requests a second of each, one figure for each round, after a first one that only warms up."""
    rates: dict[str, list[float]] = {name: [] for name in sides}
    blocks = count()
    with ExitStack() as stack:
        ports = {name: stack.enter_context(_server(world, made)) for name, made in sides.items()}
        for number in range(world.scale.rounds + 1):
            for name in ports if number % 2 == 0 else reversed(ports):
                first = _FIRST + _ROOM * (next(blocks) % 800)
                rate = await _under_load(ports[name], world.scale.block, first)
                if number:
                    rates[name].append(rate)
    return rates


@contextmanager
def _server(world: World, made: Serving) -> Iterator[int]:
    """A process with the application, ready; gives its port."""
    with (
        fresh(world, Store.POSTGRES) as url,
        tempfile.TemporaryDirectory(prefix="raceproof-intake-") as folder,
    ):
        told, log = Path(folder, "port"), Path(folder, "log")
        made_by = f"{made.__module__}:{made.__qualname__}"
        with child("bench.intake.serve", made_by, url, str(told), log=log) as process:
            deadline = time.monotonic() + DEADLINE
            while not told.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{made_by} did not start; the end of its log:\n{log.read_text()[-2000:]}")
                time.sleep(0.01)
            yield int(told.read_text())


async def _under_load(port: int, seconds: float, first: int) -> float:
    arguments = [str(value) for value in (port, CONNECTIONS, seconds, first)]
    load = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.intake.load", *arguments, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await load.communicate()
    if load.returncode:
        raise RuntimeError(f"the load on port {port} failed; its complaint is above")
    found = json.loads(output)
    return float(found["requests"]) / float(found["seconds"])
