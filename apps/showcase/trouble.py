"""What the buttons do: each really happens to the processes and stores, on both sides and to the applications alike."""

import asyncio
import contextlib
import sqlite3
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import httpx

from appkit.loops import Loop
from showcase.applications.application import Application, Instance, hold
from showcase.incident import Incident
from showcase.twins.every import SCENARIOS
from showcase.twins.scenario import LEASE, PATIENCE, SIDES
from showcase.twins.score import Scores, scores
from showcase.twins.world import Instance as Twin
from showcase.twins.world import World

FREEZE = 6.0
"""Seconds; longer than every lease here."""
CUT = 4.0
"""Seconds for which no store takes a write."""
AWAY = 2.0
"""Seconds until a killed instance is begun again."""
WATCHED = PATIENCE + 2
"""Seconds after the trouble for which its consequences are counted, before the next may begin."""
MOST_WAITING = 5


@dataclass(frozen=True, slots=True)
class Trouble:
    """A button."""

    title: str
    says: str
    about: tuple[str, ...]
    cause: Callable[["Troubles", Incident], Awaitable[None]]


class Troubles:
    """Pressed buttons wait in line; one trouble at a time."""

    def __init__(self, world: World, applications: Iterable[Application], watches: bool = True) -> None:
        self.world = world
        self.watches = watches
        """Whether somebody wants to know what came of each alone."""
        self.applications = list(applications)
        self.incidents: deque[Incident] = deque(maxlen=12)
        self._waiting: asyncio.Queue[Incident] = asyncio.Queue()
        self._number = 0

    def press(self, name: str) -> Incident | None:
        """None if too many wait already."""
        if self._waiting.qsize() >= MOST_WAITING:
            return None
        self._number += 1
        trouble = TROUBLES[name]
        incident = Incident(self._number, name, trouble.title, trouble.about)
        self.incidents.appendleft(incident)
        self._waiting.put_nowait(incident)
        return incident

    async def run(self, loop: Loop) -> None:
        """Cause them, one after the other."""
        while True:
            loop.beat()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    incident = await self._waiting.get()
                beating = asyncio.create_task(loop.beating())
                try:
                    await self.cause(incident)
                    if self.watches:
                        await asyncio.sleep(WATCHED)
                    incident.state = "over"
                finally:
                    beating.cancel()

    async def cause(self, incident: Incident) -> None:
        """One trouble, from its beginning until everybody is back."""
        incident.before = await scores(self.world.folder)
        incident.state = "under way"
        try:
            await TROUBLES[incident.name].cause(self, incident)
            await self._all_back(incident)
        except (OSError, httpx.HTTPError, TimeoutError, RuntimeError, sqlite3.Error) as error:
            incident.apps.append(f"not as planned: {type(error).__name__}")
        incident.state = "watched"

    def watch(self, now: Scores) -> None:
        """Keep count of the one whose consequences still show."""
        for one in self.incidents:
            if one.state in ("under way", "watched"):
                one.compare(now)

    async def _all_back(self, incident: Incident) -> None:
        """Wait until every instance works again."""

        async def back(app: Application) -> None:
            for one in list(app.instances):
                if not await app.came_up(one):
                    incident.apps.append(f"{one.child.name} did not come back")

        await self.world.connected()
        await asyncio.gather(*(back(app) for app in self.ready()))
        leaders = [one.child.name for app in self.ready() for one in app.instances if one.role == "ACTIVE"]
        incident.apps += [f"{name} is ACTIVE" for name in leaders]

    def ready(self) -> list[Application]:
        return [app for app in self.applications if app.ready]

    def victims(self) -> list[tuple[Application, Instance]]:
        return [(app, one) for app in self.ready() if (one := app.victim()) is not None]

    async def freeze_at_work(self, *on: str) -> list[Twin]:
        """On each side, stop who is in the middle of the first of these, and of the others too if that can be had."""
        found = []
        for side in SIDES:
            deadline = time.monotonic() + 4
            while True:
                now = time.monotonic()
                all_of = on if now < deadline - 1.5 else on[:1]
                busy = [
                    one
                    for one in self.world.instances[side]
                    if one.line and all(now - one.at_work.get(each, 0.0) < 0.2 for each in all_of)
                ]
                if busy or now > deadline:
                    found.append(busy[0] if busy else self.world.instances[side][0])
                    found[-1].child.freeze()
                    break
                await asyncio.sleep(0.005)
        return found


async def duplicate(troubles: Troubles, incident: Incident) -> None:
    key = await troubles.world.picture(callbacks=3)
    update = await troubles.world.update(copies=3)
    incident.did.append(f"The callback of picture {key} and the webhook {update} came three times at once.")
    told = await asyncio.gather(*(app.duplicate() for app in troubles.ready()))
    incident.apps += [f"{app.name}: {one}" for app, one in zip(troubles.ready(), told, strict=True) if one]
    await asyncio.sleep(1.5)


async def freeze(troubles: Troubles, incident: Incident) -> None:
    for _ in range(3):
        await troubles.world.slot()
        await troubles.world.job()
        await troubles.world.job()
    twins = await troubles.freeze_at_work("leaders", "jobs")
    victims = troubles.victims()
    frozen = [*(each.child for each in twins), *(one.child for _, one in victims)]
    incident.did.append(
        f"{_names(twins)} stood still (SIGSTOP) for {FREEZE:g} s in the middle of their work; the lease is {LEASE:g} s."
    )
    try:
        for child in frozen:
            child.freeze()
        await asyncio.sleep(FREEZE)
    finally:
        for child in frozen:
            child.thaw()
    if names := ", ".join(one.child.name for _, one in victims):
        incident.apps.append(f"{names} stood still for {FREEZE:g} s too")
    await asyncio.sleep(1)


async def kill(troubles: Troubles, incident: Incident) -> None:
    for _ in range(6):
        await troubles.world.update()
    await asyncio.sleep(0.15)
    twins = [troubles.world.instances[side][0] for side in SIDES]
    victims = troubles.victims()
    hit: list[Twin | Instance] = [*twins, *(one for _, one in victims)]
    for each in hit:
        each.killed = True
    await asyncio.gather(*(each.child.kill() for each in hit))
    incident.did.append(f"{_names(twins)} were killed (SIGKILL) just after they had answered webhooks with 200.")
    await asyncio.sleep(AWAY)
    await asyncio.gather(*(each.child.start() for each in hit))
    for each in hit:
        each.killed = False
    if names := ", ".join(one.child.name for _, one in victims):
        incident.apps.append(f"{names} were killed too, and begun again after {AWAY:g} s")


async def deploy(troubles: Troubles, incident: Incident) -> None:
    for _ in range(4):
        await troubles.world.slot()
    old = [troubles.world.instances[side][0] for side in SIDES]
    new = await troubles.world.add()
    incident.did.append(f"{_names(new)} started beside {_names(old)}, which ended two seconds later (SIGTERM).")

    async def roll(app: Application) -> str:
        """A new instance first; the oldest goes when it is up."""
        oldest = min(app.instances, key=lambda one: one.child.begun)
        fresh = await app.add()
        await app.came_up(fresh)
        return f"{fresh.child.name} replaced {oldest.child.name} (exit code {await app.remove(oldest)})"

    rolling = asyncio.gather(*(roll(app) for app in troubles.ready()))
    await asyncio.sleep(2)
    for each in old:
        await troubles.world.remove(each)
    incident.apps += await rolling


async def cut(troubles: Troubles, incident: Incident) -> None:
    folder = troubles.world.folder
    cutting = [
        *(asyncio.to_thread(hold, folder / f"{side}.db", CUT) for side in SIDES),
        *(app.cut(CUT) for app in troubles.ready()),
    ]
    holding = asyncio.gather(*cutting)
    await asyncio.sleep(0.3)
    for _ in range(5):
        await troubles.world.update()
        await asyncio.sleep(0.3)
    await holding
    incident.did.append(f"For {CUT:g} s no store took a write, and five webhooks came meanwhile.")
    if names := ", ".join(app.name for app in troubles.ready()):
        incident.apps.append(f"the files of {names} were locked for {CUT:g} s; Valkey was killed")
    await asyncio.sleep(2)


def _names(twins: Iterable[Twin]) -> str:
    return " and ".join(each.child.name for each in twins)


TROUBLES = {
    "duplicate": Trouble(
        "Duplicate a callback",
        "The same callback and the same webhook, three times at once.",
        ("pictures", "webhooks"),
        duplicate,
    ),
    "freeze": Trouble(
        "Freeze a worker",
        f"SIGSTOP in the middle of its work, for {FREEZE:g} s: past every lease.",
        ("leaders", "jobs"),
        freeze,
    ),
    "kill": Trouble(
        "Kill an instance",
        "SIGKILL, right after it has answered with 200.",
        ("webhooks", "pictures"),
        kill,
    ),
    "deploy": Trouble(
        "Deploy overlap",
        "A new instance starts beside the old one, which ends later.",
        ("leaders", "webhooks"),
        deploy,
    ),
    "cut": Trouble(
        "Cut the store",
        f"Nobody can write for {CUT:g} s, and Valkey is killed.",
        ("webhooks", "commands"),
        cut,
    ),
}

assert all(name in SCENARIOS for one in TROUBLES.values() for name in one.about)
