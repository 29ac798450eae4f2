"""Nodes without hardware: they speak the real protocol over a real broker, and misbehave on request.

A node refuses what is unsigned, forged or older than ten seconds; it remembers 128 commands for five minutes in memory
that a reboot empties; it executes, and it counts what it has executed, so that a storm can look for second doses.
"""

import asyncio
import json
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import aiomqtt

from devices.messages import VERSION, WINDOW, Topics, canonical, signature
from raceproof.webhooks import BadJson, Secret, parse

REMEMBERED = 128
MEMORY = 300.0
COMMANDS = (
    "run_pump",
    "dose",
    "set_relay",
    "set_pwm",
    "calibrate",
    "test_sensor",
    "restart",
    "stop",
    "emergency_stop",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """How often something goes wrong, as a share of all responses or commands; and how long things take."""

    drop: float = 0.0
    """A response is never sent."""
    duplicate: float = 0.0
    """A response is sent twice."""
    reorder: float = 0.0
    """ACK comes after the terminal response."""
    skip_ack: float = 0.1
    delay: float = 0.02
    """Seconds before a response."""
    work: float = 0.1
    """Seconds that a command takes."""
    delay_done: float = 0.0
    """The share of terminal responses that come ten times later."""
    reboot: float = 0.0
    """The share of commands after which the node reboots, having said nothing."""
    offline: float = 0.0
    """The share of commands after which the node is offline for a moment."""
    overcurrent: float = 0.0
    no_flow: float = 0.0

    @classmethod
    def parsed(cls, text: str) -> "Trouble":
        """`drop=0.1,duplicate=0.2`; `storm` for a bit of everything."""
        if text == "storm":
            return STORM
        names = {one.name for one in fields(cls)}
        told = dict(part.partition("=")[::2] for part in text.split(",") if part)
        unknown = sorted(set(told) - names)
        if unknown:
            raise ValueError(f"unknown trouble {', '.join(unknown)}; choose from {', '.join(sorted(names))}, storm")
        return replace(cls(), **{name: float(value) for name, value in told.items()})


STORM = Trouble(
    drop=0.05,
    duplicate=0.1,
    reorder=0.1,
    skip_ack=0.2,
    delay=0.02,
    work=0.05,
    delay_done=0.05,
    reboot=0.01,
    offline=0.01,
    overcurrent=0.02,
    no_flow=0.02,
)


@dataclass
class Executed:
    """What a node has done, over all its lives: the truth that only a simulator knows."""

    times: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line in the log of the nodes: `arrived`, `taken`, `gave`, `booted`.

    What is taken is executed from there on; what was given is a response that the broker has. `ts` is that of the message.
    """

    at: float
    kind: str
    node: str
    channel: str = ""
    cmd_id: str = ""
    status: str = ""
    ts: int = 0


class Node:
    """One node: its memory, its clock's tolerance, and what it does with a message."""

    def __init__(self, path: str, topics: Topics, secret: Secret, trouble: Trouble, seed: int = 0) -> None:
        self.path = path
        self._topics = topics
        self._secret = secret
        self._trouble = trouble
        self._chance = random.Random(f"{path}/{seed}")
        self._memory: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._working: set[str] = set()
        self._lives = 1
        self.executed = Executed()
        self.log: list[Entry] = []
        self.offline_until = 0.0
        self.said: Callable[[str, bytes], Any] = lambda topic, payload: None
        """Gives a message to the broker."""

    async def take(self, topic: str, payload: bytes) -> None:
        """A command has come."""
        if time.monotonic() < self.offline_until:
            return
        _, channel, _ = self._topics.parse(topic)
        where = self._topics.response(self.path, channel or "")
        try:
            message = parse(payload)
            cmd_id = message["cmd_id"]
            problem = self._problem(message, channel)
        except (BadJson, KeyError, TypeError):
            self._refuse(where, "unknown", "invalid_format")
            return
        if problem:
            self._refuse(where, str(cmd_id), problem)
            return
        ts = message["ts"]
        self.log.append(Entry(time.time(), "arrived", self.path, channel or "", cmd_id, ts=ts))
        # the broker may deliver again after the window what was executed within it
        if abs(time.time() - ts) > WINDOW and not self._knows(cmd_id):
            self._refuse(where, cmd_id, "timestamp_expired")
            return
        await self._asked(where, cmd_id, message["cmd"], message.get("params") or {})

    async def _asked(self, where: str, cmd_id: str, cmd: str, params: dict[str, Any]) -> None:
        known = self._remembered(cmd_id)
        if known is not None:
            await self._say(where, known)
            return
        if cmd_id in self._working:
            await self._say(where, self._response(cmd_id, "ACK"))
            return
        trouble, chance = self._trouble, self._chance
        if cmd not in COMMANDS:
            await self._say(where, self._response(cmd_id, "INVALID", error_code="unknown_command"))
            return
        self._working.add(cmd_id)
        self.log.append(Entry(time.time(), "taken", self.path, self._topics.parse(where)[1] or "", cmd_id))
        reordered = chance.random() < trouble.reorder
        if not reordered and chance.random() >= trouble.skip_ack:
            await self._say(where, self._response(cmd_id, "ACK"))
        self.executed.times[cmd_id] += 1  # from here on it has happened
        if chance.random() < trouble.reboot:
            await self.reboot()
            return
        done = self._outcome(cmd_id, cmd)
        lives = self._lives
        await asyncio.sleep(chance.expovariate(1 / trouble.work) if trouble.work else 0)
        if chance.random() < trouble.delay_done:
            await asyncio.sleep(10 * trouble.work)
        if self._lives != lives:
            return  # it has rebooted meanwhile
        self._working.discard(cmd_id)
        self._remember(cmd_id, done)
        await self._say(where, done)
        if reordered:
            await self._say(where, self._response(cmd_id, "ACK"))
        if chance.random() < trouble.offline:
            self.offline_until = time.monotonic() + 2
            self.said(self._topics.about(self.path, "lwt"), b"offline")
            await asyncio.sleep(2)
            self.hello()

    def hello(self) -> None:
        """As a node does when it has connected."""
        self.said(self._topics.about(self.path, "lwt"), b"online")
        self.said(self._topics.about(self.path, "node_hello"), json.dumps({"fw": "sim", "node": self.path}).encode())

    def beat(self) -> None:
        if time.monotonic() >= self.offline_until:
            self.said(
                self._topics.about(self.path, "heartbeat"),
                json.dumps({"uptime": int(time.monotonic())}).encode(),
            )

    async def reboot(self) -> None:
        """Everything in memory is gone."""
        self._memory.clear()
        self._working.clear()
        self._lives += 1
        self.log.append(Entry(time.time(), "booted", self.path))
        self.offline_until = time.monotonic() + 0.5
        await asyncio.sleep(0.5)
        self.hello()

    def _knows(self, cmd_id: str) -> bool:
        return cmd_id in self._working or self._remembered(cmd_id) is not None

    def _problem(self, message: dict[str, Any], channel: str | None) -> str | None:
        if not isinstance(message.get("ts"), int) or not isinstance(message.get("cmd"), str):
            return "missing_fields"
        if signature(self._secret, message) != message.get("sig"):
            return "invalid_signature"
        if message.get("v") != VERSION:
            return "unsupported_version"
        if (message.get("node"), message.get("channel")) != (self.path, channel):
            return "wrong_target"
        return None

    def _refuse(self, where: str, cmd_id: str, problem: str) -> None:
        self.executed.refused[problem] += 1
        self.said(where, self._response(cmd_id, "ERROR", error_code=problem, error_message="the node refuses it"))

    def _outcome(self, cmd_id: str, cmd: str) -> bytes:
        chance = self._chance.random()
        if chance < self._trouble.overcurrent:
            return self._response(cmd_id, "ERROR", error_code="overcurrent", error_message="the pump draws too much")
        if chance < self._trouble.overcurrent + self._trouble.no_flow:
            return self._response(cmd_id, "ERROR", error_code="no_flow", error_message="nothing flows")
        if cmd == "test_sensor" and chance > 0.9:
            return self._response(cmd_id, "NO_EFFECT")
        return self._response(cmd_id, "DONE", details={"duration_ms": self._chance.randrange(5, 500), "result_code": 0})

    async def _say(self, where: str, response: bytes) -> None:
        trouble, chance = self._trouble, self._chance
        await asyncio.sleep(chance.expovariate(1 / trouble.delay) if trouble.delay else 0)
        if chance.random() < trouble.drop or time.monotonic() < self.offline_until:
            return
        for _ in range(2 if chance.random() < trouble.duplicate else 1):
            self.said(where, response)

    def _response(self, cmd_id: str, status: str, **more: Any) -> bytes:
        message = {"cmd_id": cmd_id, "status": status, "ts": int(time.time() * 1000), "details": None}
        message |= {"error_code": None, "error_message": None} | more
        return canonical(message)

    def _remembered(self, cmd_id: str) -> bytes | None:
        at, response = self._memory.get(cmd_id, (0.0, b""))
        return response if response and time.monotonic() - at < MEMORY else None

    def _remember(self, cmd_id: str, response: bytes) -> None:
        self._memory[cmd_id] = (time.monotonic(), response)
        while len(self._memory) > REMEMBERED:
            self._memory.popitem(last=False)


class Simulator:
    """Many nodes on a few connections."""

    def __init__(
        self,
        options: dict[str, Any],
        topics: Topics,
        secret_of: Callable[[str], Secret],
        paths: list[str],
        trouble: Trouble,
        seed: int = 0,
    ) -> None:
        self._options = options
        self._topics = topics
        self.nodes = {path: Node(path, topics, secret_of(path), trouble, seed) for path in paths}
        self._outgoing: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self.connected = asyncio.Event()
        for node in self.nodes.values():
            node.said = lambda topic, payload: self._outgoing.put_nowait((topic, payload))

    @property
    def log(self) -> list[Entry]:
        """What all nodes have written down, by time."""
        return sorted((one for node in self.nodes.values() for one in node.log), key=lambda one: one.at)

    def _note_given(self, topic: str, payload: bytes) -> None:
        path, channel, _ = self._topics.parse(topic)
        if channel is not None:
            said = json.loads(payload)
            entry = Entry(time.time(), "gave", path, channel, said["cmd_id"], said["status"], said["ts"])
            self.nodes[path].log.append(entry)

    @property
    def executed(self) -> Counter[str]:
        """How often each command was executed, over all nodes."""
        return sum((node.executed.times for node in self.nodes.values()), Counter())

    async def run(self, heartbeat: float = 10.0) -> None:
        """Until this is cancelled; a connection that breaks is made again, and what was unsaid is said then."""
        while True:
            try:
                async with aiomqtt.Client(
                    **self._options,
                    identifier=f"simulator-{random.randrange(2**32):x}",
                    clean_session=True,
                    max_inflight_messages=1000,
                ) as client:
                    client.pending_calls_threshold = 10_000
                    await self._connected(client, heartbeat)
            except* (aiomqtt.MqttError, OSError):
                self.connected.clear()
                await asyncio.sleep(0.3)

    async def _connected(self, client: aiomqtt.Client, heartbeat: float) -> None:
        for path in {path.rpartition("/")[0] for path in self.nodes}:
            await client.subscribe(f"{self._topics.prefix}/{path}/+/+/command", qos=1)
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(self._speak(client)), group.create_task(self._beat(heartbeat))]
            for node in self.nodes.values():
                node.hello()
            self.connected.set()
            async for message in client.messages:
                path, _, _ = self._topics.parse(str(message.topic))
                if path in self.nodes:
                    group.create_task(self.nodes[path].take(str(message.topic), bytes(message.payload)))
            for helper in helpers:
                helper.cancel()

    async def _speak(self, client: aiomqtt.Client) -> None:
        places = asyncio.Semaphore(200)

        async def say(topic: str, payload: bytes) -> None:
            try:
                retained = topic.endswith(("/lwt", "/status"))
                await client.publish(topic, payload, qos=1, retain=retained, timeout=10)
                self._note_given(topic, payload)
            finally:
                places.release()

        async with asyncio.TaskGroup() as group:
            while True:
                topic, payload = await self._outgoing.get()
                await places.acquire()
                group.create_task(say(topic, payload))

    async def _beat(self, heartbeat: float) -> None:
        while True:
            for node in self.nodes.values():
                node.beat()
            await asyncio.sleep(heartbeat)


def paths(number: int) -> list[str]:
    """So many nodes in greenhouses of some zones."""
    return [f"gh-{one // 50 + 1}/zone-{one // 10 % 5 + 1}/node-{one + 1}" for one in range(number)]
