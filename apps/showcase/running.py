"""All of it together: started, watched, and ended in good order."""

import asyncio
import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import click
import httpx

from appkit.loops import Loop, Loops
from showcase.applications.application import Application, Ground, free_port
from showcase.applications.every import APPLICATIONS
from showcase.children import Child, Foreman, Load
from showcase.trouble import Troubles
from showcase.twins.scenario import RACEPROOF
from showcase.twins.score import Scores, scores
from showcase.twins.world import World

TWINS = "twins"
LOOK = 1.0
"""Seconds between two looks at everything."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was asked for."""

    port: int | None
    headless: bool
    minutes: float
    keep: bool
    output: str


@dataclass
class Seen:
    """How everything stood at the last look."""

    number: int = 0
    scores: Scores = field(default_factory=dict)
    figures: dict[str, dict[str, int]] = field(default_factory=dict)
    cores: float | None = None


class Showcase:
    """What the page shows and the buttons reach."""

    def __init__(
        self,
        told: Told,
        folder: Path,
        ground: Ground,
        foreman: Foreman,
        applications: Sequence[type[Application]],
    ) -> None:
        self.told = told
        self.folder = folder
        self.ground = ground
        self.foreman = foreman
        self.loops = Loops()
        self.world = World(folder, foreman)
        self.applications: list[Application] = [made(ground) for made in applications]
        self.troubles = Troubles(self.world, self.applications, watches=not told.headless)
        self.seen = Seen()
        self.resting = False
        """Whether there is no more traffic."""
        self.begun = time.monotonic()
        self.home = "/"
        """The address of the page."""
        self._dashboards: str | None = None
        self._dashboard: Child | None = None
        self._load = Load()
        self._looked = asyncio.Condition()

    async def start(self) -> None:
        """The twins now; the applications in the background, as soon as they are imported."""
        await self.foreman.ready()
        for _ in range(2):
            await self.world.add()
        self.loops.start("events", self._play)
        self.loops.start("looking", self._look)
        self.loops.start("trouble", self.troubles.run, silent=30)
        for app in self.applications:
            self.loops.start(app.name, lambda loop, app=app: self._run(loop, app), silent=90)  # type: ignore[misc]
        self.loops.start("dashboards", self._serve_dashboards)

    async def stop(self) -> None:
        """Everybody, in good order."""
        children = [one.child for one in self.world.all()]
        if self._dashboard is not None:
            children.append(self._dashboard)
        await asyncio.gather(*(app.stop() for app in self.applications), *(one.stop() for one in children))

    async def looks(self, after: int) -> Seen:
        """What is seen next."""
        async with self._looked:
            await self._looked.wait_for(lambda: self.seen.number > after)
        return self.seen

    async def _play(self, loop: Loop) -> None:
        beating = asyncio.create_task(loop.beating())
        try:
            await self.world.play()
        finally:
            beating.cancel()

    async def _run(self, loop: Loop, app: Application) -> None:
        """Start an application, then give it traffic."""
        beating = asyncio.create_task(loop.beating())
        try:
            if not app.ready and not app.failed:
                await app.start()
            while True:
                if app.ready and not self.resting:
                    await app.traffic()
                await asyncio.sleep(app.every)
        finally:
            beating.cancel()

    async def _look(self, loop: Loop) -> None:
        while True:
            loop.beat()
            if not self.resting and time.monotonic() - self.begun > 60 * self.told.minutes:
                self.rest()
            with contextlib.suppress(sqlite3.Error):
                await self._look_once()
            async with self._looked:
                self.seen.number += 1
                self._looked.notify_all()
            await asyncio.sleep(LOOK)

    async def _look_once(self) -> None:
        self.seen.scores = await scores(self.folder)
        await self.world.tend()
        self.troubles.watch(self.seen.scores)
        for app in self.applications:
            if app.ready:
                await asyncio.gather(*(app.look(one) for one in list(app.instances)))
                with contextlib.suppress(sqlite3.Error, httpx.HTTPError):
                    self.seen.figures[app.name] = await app.figures()
        self.seen.cores = self._load.cores(self.pids())

    def dashboard(self, name: str) -> str | None:
        """Where raceproof's own pages about a store are."""
        return f"{self._dashboards}/{name}/" if self._dashboards else None

    async def _serve_dashboards(self, loop: Loop) -> None:
        """A process of its own over the stores of all that are up; begun again if it ends."""
        beating = asyncio.create_task(loop.beating())
        try:
            while not all(app.ready or app.failed for app in self.applications):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
            port = free_port()
            stores = {TWINS: f"sqlite:///{self.folder / RACEPROOF}.db"}
            stores |= {app.name: app.store for app in self.applications if app.ready}
            arguments = [
                "dashboards",
                str(port),
                self.home,
                *(f"{name}={url}" for name, url in stores.items()),
            ]
            self._dashboard = await Child(self.foreman, "dashboards", arguments, {}, self.folder).start()
            while await self._dashboard.exit_code() is None:
                answers = await self._answers(f"http://127.0.0.1:{port}/{TWINS}/")
                self._dashboards = f"http://127.0.0.1:{port}" if answers else None
                await asyncio.sleep(2)
            raise RuntimeError(f"the dashboards have ended: {self._dashboard.tail(3)}")
        finally:
            self._dashboards = None
            beating.cancel()

    async def _answers(self, url: str) -> bool:
        try:
            return (await self.ground.http.get(url)).status_code == 200
        except httpx.HTTPError:
            return False

    def rest(self) -> None:
        """No more traffic and no more events; what is under way comes to its end."""
        self.resting = self.world.paused = True

    def pids(self) -> list[int]:
        """All processes that this has started, and itself."""
        own = [os.getpid(), self.foreman.pid, *([self._dashboard.pid] if self._dashboard else [])]
        return [
            *own,
            *(one.child.pid for one in self.world.all()),
            *chain(*(app.pids() for app in self.applications)),
        ]


@asynccontextmanager
async def showcased(told: Told, applications: Sequence[type[Application]] = APPLICATIONS) -> AsyncIterator[Showcase]:
    """Everything, in a temporary folder, until the block ends; then everybody is stopped and nothing is left."""
    folder = Path(tempfile.mkdtemp(prefix="raceproof-showcase-"))
    try:
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=10))
            foreman = Foreman("showcase")
            stack.callback(foreman.close)
            showcase = Showcase(told, folder, Ground(folder, http, stack), foreman, applications)
            await stack.enter_async_context(showcase.world)
            try:
                async with showcase.loops:
                    yield showcase
                    showcase.rest()
            finally:
                await showcase.stop()
    finally:
        if told.keep:
            click.echo(f"databases and logs are in {folder}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
