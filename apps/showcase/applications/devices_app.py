"""devices: two instances, a real broker, and nodes that drop, repeat and reorder what they say."""

import asyncio
import itertools
import random
import secrets

from devices.messages import Topics
from devices.settings import broker_options
from devices.simulator import Simulator, Trouble, paths
from raceproof.testing import mqtt
from raceproof.webhooks import Secret
from showcase.applications.application import Application

NODES = 12
TROUBLE = Trouble(drop=0.03, duplicate=0.25, reorder=0.25, skip_ack=0.1, delay_done=0.05)
OPEN = "SELECT count(*) FROM commands WHERE status IN ('QUEUED', 'SENT', 'ACK')"


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class DevicesApplication(Application):
    name = "devices"
    says = "Commands to MQTT nodes that answer late, twice, or not at all."
    every = 1.2

    async def prepare(self) -> None:
        self._secret = secrets.token_hex(16)
        self._numbers = itertools.count(1)
        self._broker = (await self.serve(mqtt)).url
        options = broker_options(self._broker)
        self.simulator = Simulator(options, Topics(), lambda _: Secret(self._secret), paths(NODES), TROUBLE)
        simulating = asyncio.create_task(self.simulator.run())
        self.ground.stack.push_async_callback(_ended, simulating)

    def environment(self, name: str, port: int) -> dict[str, str]:
        return {
            "DEVICES_FOLDER": str(self.folder),
            "DEVICES_DATABASE": f"sqlite:///{self.database}",
            "DEVICES_BROKER": self._broker,
            "DEVICES_SECRET": self._secret,
            "DEVICES_INSTANCE": name,
            "DEVICES_PORT": str(port),
            "DEVICES_PUBACK": "3",
            "DEVICES_ANSWER": "12",
            "DEVICES_VALID": "40",
        }

    async def turn(self) -> None:
        await self._submit(1)

    async def _submit(self, copies: int) -> str:
        cmd_id = f"c-{next(self._numbers):05d}"
        body = {
            "cmd_id": cmd_id,
            "node": random.choice(list(self.simulator.nodes)),
            "channel": random.choice(("pump", "relay")),
            "cmd": "dose",
            "params": {"ml": random.randrange(1, 10)},
        }
        urls = [self.url() for _ in range(copies)]
        await asyncio.gather(*(self.http.post(f"{url}/commands", json=body) for url in urls if url))
        return cmd_id

    async def duplicate(self) -> str | None:
        cmd_id = await self._submit(4)
        return f"submitted command {cmd_id} four times at once"

    async def figures(self) -> dict[str, int]:
        count = "SELECT count(*) FROM commands"
        return {
            "commands done": await self.number(f"{count} WHERE status IN ('DONE', 'NO_EFFECT')"),
            "open": await self.number(OPEN),
            "timed out": await self.number(f"{count} WHERE status = 'TIMEOUT'"),
            "late answers kept": await self.number("SELECT count(*) FROM evidence WHERE outcome = 'late'"),
            "moves refused": await self.number("SELECT count(*) FROM command_history WHERE outcome = 'refused'"),
        }

    async def under_way(self) -> str | None:
        still = await self.number(OPEN)
        return f"{still} commands are open" if still else None

    async def violations(self) -> list[str]:
        doubts = {key for (key,) in await self.rows("SELECT cmd_id FROM doubts")}
        twice = [key for key, times in self.simulator.executed.items() if times > 1 and key not in doubts]
        backwards = await self.number(
            """
            SELECT count(*) FROM command_history
            WHERE lifecycle = 'Command' AND outcome = 'moved'
              AND (before NOT IN ('QUEUED', 'SENT', 'ACK', 'SEND_FAILED') OR (before = 'ACK' AND after = 'SENT'))
            """
        )
        found = [f"command {key} was executed twice" for key in twice]
        return found + ([f"{backwards} statuses went backwards"] if backwards else [])
