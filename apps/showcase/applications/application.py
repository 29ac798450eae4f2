"""What the four have in common: instances on ports of their own, health, traffic, and what their stores say."""

import asyncio
import contextlib
import logging
import socket
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import httpx

from raceproof.testing import Server, ServerFailed
from showcase.children import Child, Foreman

log = logging.getLogger("showcase")

COMMAND = ("serve",)
NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
GRACE = 40.0
"""Seconds that an instance has to come up."""


AnyServer = TypeVar("AnyServer", bound=Server)


class Instance:
    """One process of an application that serves."""

    def __init__(self, child: Child, port: int) -> None:
        self.child = child
        self.port = port
        self.up = False
        self.role = ""
        """ACTIVE or PASSIVE, where there are roles."""
        self.killed = False
        """By us; it comes back by itself."""
        self.leaves = False
        """A newer one takes its place."""

    @property
    def name(self) -> str:
        return self.child.name.rpartition("-")[2]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> str:
        if self.child.frozen:
            return "frozen"
        if self.killed:
            return "killed"
        return "up" if self.up else "starting"


@dataclass(frozen=True, slots=True)
class Ground:
    """What all stand on."""

    folder: Path
    http: httpx.AsyncClient
    stack: AsyncExitStack
    """Ends what was started."""


class Application(ABC):
    """One of the four."""

    name: ClassVar[str]
    says: ClassVar[str]
    """What it does, in a line."""
    every: ClassVar[float]
    """Seconds between two turns of traffic."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.http = ground.http
        self.folder = ground.folder / self.name
        self.folder.mkdir()
        self.instances: list[Instance] = []
        self.others: list[Child] = []
        """Simulators, which nobody harms."""
        self.foreman = Foreman(self.name)
        ground.stack.callback(self.foreman.close)
        self.ready = False
        self.failed = ""
        """Why it did not start."""
        self.servers: list[Server] = []
        self.died: list[str] = []
        """Instances that ended by themselves."""
        self._names: Iterator[str] = iter([*NAMES, *(f"n{number}" for number in range(11, 1000))])

    async def start(self, instances: int = 2) -> None:
        """Simulators first, then the instances; returns when all are up."""
        try:
            await self.prepare()
            await self.foreman.ready()
            await self.simulate()
            for _ in range(instances):  # the first makes the tables, so that the next need not wait for it
                if not await self.came_up(made := await self.add()):
                    raise RuntimeError(f"{made.child.name} does not come up")
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"
            log.exception("%s did not start", self.name)
        self.ready = not self.failed

    async def add(self) -> Instance:
        """One more instance; it may still be starting when this returns."""
        name, port = next(self._names), free_port()
        child = Child(self.foreman, f"{self.name}-{name}", COMMAND, self.environment(name, port), self.folder)
        made = Instance(child, port)
        await child.start()
        self.instances.append(made)
        return made

    async def came_up(self, one: Instance, seconds: float = GRACE) -> bool:
        """Wait until it works; False if it does not in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await self.look(one)
            if one.up:
                return True
            await asyncio.sleep(0.1)
        log.warning("%s does not come up:\n%s", one.child.name, one.child.tail())
        return False

    async def look(self, one: Instance) -> None:
        """How an instance is; one that has ended by itself is begun again."""
        ended = await one.child.exit_code() is not None
        if one.child.frozen or one.killed or one.leaves:
            one.up = False
            return
        if ended:
            self.died = [*self.died[-9:], f"{one.child.name}: {one.child.tail(3)}"]
            one.up = False
            await one.child.start()
            return
        try:
            answer = await self.http.get(f"{one.url}/health", timeout=3)
            one.up = answer.status_code == 200
            one.role = answer.json().get("mode", "")
        except (httpx.HTTPError, ValueError):
            one.up = False

    async def remove(self, one: Instance) -> int:
        """Stopped as a deploy does it; returns its exit code."""
        one.leaves = True
        self.instances.remove(one)
        return await one.child.stop(25)

    def victim(self) -> Instance | None:
        """Whom trouble hits: the one that leads, if there is one."""
        working = [one for one in self.instances if one.up]
        return next((one for one in working if one.role == "ACTIVE"), working[0] if working else None)

    def url(self) -> str | None:
        """Where traffic goes: to somebody who is up."""
        working = [one for one in self.instances if one.up]
        if not working:
            return None
        self.instances.append(self.instances.pop(0))  # in turn
        return working[0].url

    async def rows(self, text: str, *parameters: object) -> list[tuple[Any, ...]]:
        """What the application's own database says; nothing is written."""
        return await asyncio.to_thread(self._rows, text, parameters)

    def _rows(self, text: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.execute(text, parameters).fetchall()

    async def number(self, text: str, *parameters: object) -> int:
        return int((await self.rows(text, *parameters))[0][0])

    def pids(self) -> list[int]:
        """Of all its processes."""
        found = [self.foreman.pid, *(one.pid for one in self.others)]
        found += [one.child.pid for one in self.instances]
        for server in self.servers:
            with contextlib.suppress(ServerFailed):  # it was killed just now
                found.append(server.pid)
        return found

    async def serve(self, start: Callable[..., AnyServer], **config: Any) -> AnyServer:
        """A server that the application stands on, until everything ends."""
        made = await asyncio.to_thread(start, **config)
        self.servers.append(made)
        self.ground.stack.callback(made.close)
        return made

    async def stop(self) -> None:
        """Everybody, at the same time."""
        everybody = [*(one.child for one in self.instances), *self.others]
        await asyncio.gather(*(one.stop() for one in everybody))

    async def traffic(self) -> None:
        """One turn; what fails because somebody was killed is not done again."""
        with contextlib.suppress(httpx.HTTPError, LookupError):
            await self.turn()

    @property
    def database(self) -> Path:
        return self.folder / f"{self.name}.db"

    @property
    def store(self) -> str:
        """The URL of the store that its decisions are made in."""
        return f"sqlite:///{self.database}"

    @property
    def page(self) -> str | None:
        """Where people look at it."""
        return next((one.url for one in self.instances if one.up), None)

    # What each has of its own.

    @abstractmethod
    def environment(self, name: str, port: int) -> dict[str, str]: ...

    async def prepare(self) -> None:  # noqa: B027
        """Servers that it stands on; while its program is still being imported."""

    async def simulate(self) -> None:  # noqa: B027
        """The rest of its world."""

    @abstractmethod
    async def turn(self) -> None:
        """A bit of traffic."""

    @abstractmethod
    async def figures(self) -> dict[str, int]:
        """Numbers that mean something to a person."""

    @abstractmethod
    async def under_way(self) -> str | None:
        """What has not come to its end; None if everything has."""

    @abstractmethod
    async def violations(self) -> list[str]:
        """What must not be, and is."""

    async def duplicate(self) -> str | None:
        """Say something again that was said before; what was done, in words."""
        return None

    async def cut(self, seconds: float) -> None:
        """Nobody can write to the store for so long."""
        await asyncio.to_thread(hold, self.database, seconds)


def hold(database: Path, seconds: float) -> None:
    """Take the write lock of an SQLite file and keep it."""
    with closing(sqlite3.connect(database, timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
