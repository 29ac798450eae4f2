"""Servers: the application under uvicorn, and the simulated provider beside it."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator
from typing import Any

import click
import uvicorn

from appkit import commands as kit
from appkit.instances import named
from appkit.loops import Loops
from outreach.api import outreach_app
from outreach.cli_common import settings_or_exit
from outreach.metrics import Metrics
from outreach.opening import Purpose
from outreach.provider import Provider, Wrong, provider_app
from outreach.service import running
from outreach.simulating import seed


async def serve_until_told(simulate: bool, work: bool) -> int:
    """Page, API and stages, until SIGTERM."""
    stop = kit.stop_event()
    metrics, loops = Metrics(), Loops()
    async with contextlib.AsyncExitStack() as stack:
        more: dict[str, Any] = {}
        if simulate:
            url, key = await stack.enter_async_context(_simulated_provider())
            more = {"ai_url": url, "ai_key": key, "rhythm": "continuous", "rest": 2.0, "ai_rate": 20.0}
        told = named(settings_or_exit(**more), "serve")
        purpose = Purpose.SIMULATE if simulate else Purpose.SERVE
        service = await stack.enter_async_context(running(told, loops, metrics, purpose, work=work))
        if simulate:
            await seed(service)
        app = outreach_app(service, loops, metrics)
        server = Server(
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
        where = f"http://{told.host}:{told.port}"
        click.echo(f"outreach: {where}  (claims in {service.claiming.form})", err=True)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    return kit.OK if stop.is_set() else kit.ERROR


class Server(uvicorn.Server):
    """The signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


@contextlib.asynccontextmanager
async def _simulated_provider() -> AsyncIterator[tuple[str, str]]:
    """The simulated provider on a free port of this machine, for as long as the block runs."""
    key = secrets.token_hex(16)
    app = provider_app(Provider(key, 0.4, Wrong(fail=0.1, twice=0.05, fenced=0.2)))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{port}/v1", key
        finally:
            server.should_exit = True
            await serving


def run_provider(port: int, key: str, slow: float, wrong: Wrong, seed: int) -> None:
    """The simulated provider alone, until SIGTERM."""
    app = provider_app(Provider(key, slow, wrong, seed))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", lifespan="off")
