"""raceproof's own dashboard over each store, read-only, in a process of its own: `/imagebot/`, `/devices/` and so on."""

import asyncio
import contextlib
from importlib import import_module
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from appkit import commands as kit
from raceproof import Lease
from raceproof.ops.web import Link, dashboard
from showcase.running import TWINS

DECLARED = {
    "imagebot": ("imagebot.lifecycle",),
    "devices": ("devices.lifecycle",),
    "qrlogin": ("qrlogin.lifecycle:Attempt", "qrlogin.lifecycle:attempts"),
    "outreach": ("outreach.lifecycle",),
    TWINS: tuple(
        f"showcase.twins.{name}" for name in ("pictures", "commands", "leaders", "jobs", "webhooks", "logins")
    ),
}
LEASES = {"imagebot": (Lease("imagebot", seconds=4.0),)}


class Server(uvicorn.Server):
    """The signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield


async def serve(port: int, home: str, stores: dict[str, str]) -> int:
    """Until SIGTERM; `stores` are URLs by name."""
    stop = kit.stop_event()
    links = [Link("showcase", home), *(Link(name, f"/{name}/") for name in stores)]
    made = {
        name: dashboard(url, *_declared(name), *LEASES.get(name, ()), title=name, links=links, where="embedded")
        for name, url in stores.items()
    }
    app = Starlette(routes=[Mount(f"/{name}", one) for name, one in made.items()])
    server = Server(
        uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1, lifespan="off")
    )
    serving = asyncio.create_task(server.serve())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    for one in made.values():
        await one.close()
    server.should_exit = True
    await serving
    return kit.OK if stop.is_set() else kit.ERROR


def _declared(name: str) -> list[Any]:
    """What is shown of a store: all that a module declares, or single things of it."""
    found: list[Any] = []
    for where in DECLARED[name]:
        module, _, thing = where.partition(":")
        imported = import_module(module)
        found.append(getattr(imported, thing) if thing else imported)
    return found
