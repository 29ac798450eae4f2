"""An instance as a process: the service behind its address, with an embedded broker and simulated nodes where asked for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import click
import uvicorn

from appkit import commands as kit
from appkit.loops import Loops
from devices.api import device_app
from devices.metrics import Metrics
from devices.service import running
from devices.settings import EMBEDDED, Settings, broker_options

if TYPE_CHECKING:
    from devices.simulator import Trouble


async def serve(told: Settings, simulate: int | None, trouble: "Trouble") -> int:
    """Until a signal comes; returns the exit code."""
    stop = kit.stop_event()
    metrics, loops = Metrics(), Loops()
    async with _broker(told) as broker, running(told, broker, loops, metrics) as (service, follower):
        token = told.token.get_secret_value() if told.token else None
        app = device_app(service, loops, metrics, follower, token, told.hosts)
        server = _Server(
            uvicorn.Config(
                app,
                host=told.host,
                port=told.port,
                log_level="warning",
                timeout_graceful_shutdown=3,
                lifespan="off",
            )
        )
        serving = asyncio.create_task(server.serve())
        simulating = [asyncio.create_task(simulated(told, broker, simulate, trouble))] if simulate else []
        click.echo(f"devices: http://{told.host}:{told.port}  (broker {_without_login(broker)})", err=True)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        for task in simulating:
            task.cancel()
        await serving
    return kit.OK if stop.is_set() else kit.ERROR


class _Server(uvicorn.Server):
    """The signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def _broker(told: Settings) -> AsyncIterator[str]:
    """The broker's URL; an embedded one tells it to others by a file in the folder."""
    if told.broker != EMBEDDED:
        yield told.broker
        return
    path = told.folder / "broker"
    told.folder.mkdir(parents=True, exist_ok=True)
    from raceproof.testing import mqtt

    server = await asyncio.to_thread(mqtt)
    path.write_text(server.url)
    try:
        yield server.url
    finally:
        path.unlink(missing_ok=True)
        await asyncio.to_thread(server.close)


async def simulated(told: Settings, broker: str, nodes: int, trouble: "Trouble") -> None:
    """So many nodes without hardware, until this is cancelled."""
    from devices.messages import Topics
    from devices.simulator import Simulator, paths

    simulator = Simulator(broker_options(broker), Topics(told.prefix), told.secret_of, paths(nodes), trouble)
    click.echo(f"simulating {nodes} nodes, {', '.join(list(simulator.nodes)[:2])}, …", err=True)
    await simulator.run()


def _without_login(url: str) -> str:
    options = broker_options(url)
    return f"{options['hostname']}:{options['port']}"
