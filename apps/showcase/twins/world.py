"""Where events come from and where effects arrive: chats, a broker with its devices, a sender of webhooks, phones.

Each event happens to both sides at the same moment. What the world sees it writes down in the file of that side, where
the sides themselves do not write.
"""

import asyncio
import contextlib
import itertools
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from showcase.children import Child, Foreman
from showcase.twins.desk import execute
from showcase.twins.line import Line
from showcase.twins.scenario import SIDES
from showcase.twins.score import create

EVERY = 0.3
"""Seconds between two events."""
ANSWER = 2.0
"""Seconds that the sender of a webhook waits for an answer."""


class Instance:
    """A process of one side, as the world sees it."""

    def __init__(self, side: str, child: Child) -> None:
        self.side = side
        self.child = child
        self.line: Line | None = None
        self.at_work: dict[str, float] = {}
        """Since when it is at the work of a scenario."""
        self.killed = False
        """By us; it comes back by itself."""


class World:
    """Both sides, with instances of the same names."""

    def __init__(self, folder: Path, foreman: Foreman) -> None:
        self.folder = folder
        self._foreman = foreman
        self._letters = iter("abcdefghijklmnopqrstuvwxyz")
        self.instances: dict[str, list[Instance]] = {side: [] for side in SIDES}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.paused = False
        self.died: list[str] = []
        """Instances that ended by themselves."""

    async def __aenter__(self) -> "World":
        for side in SIDES:
            await asyncio.to_thread(create, self.folder / f"{side}.db")
        self._server = await asyncio.start_unix_server(self._connected, self.folder / "world")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.paused = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server.close()

    # Instances.

    async def add(self) -> tuple[Instance, ...]:
        """One more instance on each side, at work when this returns."""
        letter = next(self._letters, None) or f"z{next(self._numbers)}"
        made = []
        for side in SIDES:
            arguments = ["twin", side, letter, str(self.folder)]
            child = Child(self._foreman, f"{side}-{letter}", arguments, {}, self.folder)
            one = Instance(side, child)
            self.instances[side].append(one)
            await child.start()
            made.append(one)
        await self.connected()
        return tuple(made)

    async def remove(self, one: Instance) -> None:
        """Stopped as a deploy does it."""
        self.instances[one.side].remove(one)
        await one.child.stop()

    async def tend(self) -> None:
        """Begin again who has ended by itself."""
        for one in self.all():
            ended = one.line is None and await one.child.exit_code() is not None
            if ended and not one.killed and one in self.all():
                self.died = [*self.died[-9:], f"{one.child.name}: {one.child.tail(3)}"]
                await one.child.start()

    async def connected(self) -> None:
        """Wait until all of them are at work."""
        async with asyncio.timeout(30):
            while any(one.line is None for one in self.all()):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def all(self) -> list[Instance]:
        return [one for side in SIDES for one in self.instances[side]]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found: Instance | None = None

        async def heard(what: str, told: dict[str, Any]) -> dict[str, Any] | None:
            nonlocal found
            if what == "here":
                found = next(
                    (one for one in self.instances[told["side"]] if one.child.name == f"{told['side']}-{told['name']}"),
                    None,
                )
                if found:
                    found.line = line
                return None
            return await self._hear(found, what, told) if found else None

        line = Line(reader, writer, heard)
        try:
            await line.run()
        finally:
            if found is not None and found.line is line:
                found.line = None

    # What instances do to the world.

    async def _hear(self, one: Instance, what: str, told: dict[str, Any]) -> dict[str, Any] | None:
        match what:
            case "send_picture":
                self._see(
                    one.side,
                    "INSERT INTO seen_pictures (picture_id, sender, at) VALUES (?, ?, ?)",
                    *(told["key"], one.child.name, time.time()),
                )
                await asyncio.sleep(random.Random(told["key"]).uniform(0.04, 0.12))
            case "publish":
                self._spawn(self._answer(one.side, told["key"]))
                await asyncio.sleep(random.Random(f"publish {told['key']}").uniform(0.02, 0.15))
            case "at_work":
                one.at_work[told["on"]] = time.monotonic()
            case "held_off":
                self._see(
                    one.side,
                    "INSERT INTO seen_held_off (scenario, key, actor, why) VALUES (?, ?, ?, ?)",
                    *(told["scenario"], told["key"], told["actor"], told["why"][:200]),
                )
        return None

    async def _answer(self, side: str, key: str) -> None:
        """A device says ACK, sometimes twice, and DONE."""
        chance = random.Random(key)
        await asyncio.sleep(chance.uniform(0.005, 0.04))
        await self._tell(side, 1, "commands", what="ack", key=key)
        if chance.random() < 0.2:
            await self._tell(side, 0, "commands", what="ack", key=key)
        await asyncio.sleep(chance.uniform(0.01, 0.15))
        await self._tell(side, chance.randrange(2), "commands", what="done", key=key)

    # What happens to them.

    async def play(self) -> None:
        """Events for ever, a few a second, the same ones on both sides."""
        kinds = itertools.cycle((self.picture, self.command, self.update, self.login, self.slot, self.job))
        while True:
            await asyncio.sleep(EVERY)
            if not self.paused:
                await next(kinds)()

    async def picture(self, callbacks: int | None = None) -> str:
        """A picture is finished; its callback comes once, or several times at once."""
        key = self._key("p")
        times = callbacks or (2 if random.random() < 0.3 else 1)
        await self._put("INSERT INTO seen_orders (picture_id, at) VALUES (?, ?)", key, time.time())
        await self._put("INSERT INTO pictures (picture_id) VALUES (?)", key)
        for place in range(times):
            await self._both(place, "pictures", key=key)
        return key

    async def command(self) -> str:
        key = self._key("c")
        await self._put("INSERT INTO commands (cmd_id) VALUES (?)", key)
        await self._both(0, "commands", what="sent", key=key)
        return key

    async def update(self, copies: int | None = None) -> str:
        """An update is sent by webhook, sometimes twice."""
        key = self._key("u")
        first = random.randrange(2)
        for place in range(copies or (2 if random.random() < 0.15 else 1)):
            for side in SIDES:
                self._spawn(self._send(side, key, first + place))
        return key

    async def login(self) -> str:
        """A user logs in, sometimes in a second tab too."""
        user, first = f"user-{random.randrange(40)}", self._key("l")
        late = random.random() < 0.4
        await self._both(0, "logins", user=user, key=first, seconds=0.6 if late else 0.2)
        if late:
            second = self._key("l")
            again = partial(self._both, 1, "logins", user=user, key=second, seconds=0.15)
            self._spawn(self._later(0.25, again))
        return first

    async def slot(self) -> str:
        key = self._key("s")
        await self._put("INSERT INTO slots (slot) VALUES (?)", key)
        return key

    async def job(self) -> str:
        key = self._key("j")
        await self._put("INSERT INTO jobs (job_id) VALUES (?)", key)
        return key

    async def _send(self, side: str, key: str, place: int) -> None:
        """As a sender of webhooks does: again until it is answered with 200, elsewhere if nobody answers."""
        for attempt in range(30):
            with contextlib.suppress(ConnectionError, TimeoutError, LookupError):
                async with asyncio.timeout(ANSWER):
                    answer = await self._line(side, place + attempt).ask("webhooks", key=key)
                if answer["status"] == 200:
                    accepted = "INSERT OR IGNORE INTO seen_accepted (update_id, at) VALUES (?, ?)"
                    self._see(side, accepted, key, time.time())
                    return
            await asyncio.sleep(0.3)

    async def quiet(self) -> str | None:
        """What is still under way, on either side; None if nothing is."""
        if self._tasks:
            return "events are on their way"
        for side in SIDES:
            found = await asyncio.to_thread(execute, self.folder / f"{side}.db", _UNDER_WAY, (), 10.0)
            if open_now := [f"{number} {what}" for what, number in found if number]:
                return f"{side}: {', '.join(open_now)}"
        return None

    def _key(self, letter: str) -> str:
        return f"{letter}-{next(self._numbers):05d}"

    async def _both(self, place: int, what: str, /, **told: Any) -> None:
        for side in SIDES:
            await self._tell(side, place, what, **told)

    async def _tell(self, side: str, place: int, what: str, /, **told: Any) -> None:
        with contextlib.suppress(ConnectionError, LookupError):
            await self._line(side, place).tell(what, **told)

    def _line(self, side: str, place: int) -> Line:
        lines = [one.line for one in self.instances[side] if one.line is not None]
        if not lines:
            raise LookupError(f"no instance is running on the side {side}")
        return lines[place % len(lines)]

    async def _put(self, text: str, *parameters: object) -> None:
        """New rows, on both sides."""
        for side in SIDES:
            await asyncio.to_thread(execute, self.folder / f"{side}.db", text, parameters, 30.0)

    def _see(self, side: str, text: str, *parameters: object) -> None:
        """Written down as soon as the file can be written to; nobody waits for it."""
        self._spawn(asyncio.to_thread(execute, self.folder / f"{side}.db", text, parameters, 30.0))

    async def _later(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(seconds)
        await work()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), sqlite3.Error):
            return  # the store was away for very long


_UNDER_WAY = """
    SELECT 'pictures to send', count(*) FROM pictures
     WHERE delivered_at IS NULL AND delivery_state IS NOT 'uncertain'
       AND NOT (coalesce(delivery_state, '') = 'sending'
                AND julianday(delivering_at) < julianday('now', '-4 seconds'))
    UNION ALL SELECT 'slots due', count(*) FROM slots WHERE status = 'DUE'
    UNION ALL SELECT 'jobs', count(*) FROM jobs WHERE status <> 'DONE'
    UNION ALL SELECT 'updates', count(*) FROM updates WHERE status IN ('received', 'processing')
"""
