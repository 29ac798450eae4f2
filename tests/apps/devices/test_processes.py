"""Two instances as processes, and strangers who know nothing of them but the protocol."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error

from raceproof.testing import MqttServer, PostgresServer
from tests.apps.described import operations_of, try_out
from tests.apps.devices.conftest import SECRET

PREFIX = "strangers"
NODE = "gh-1/zone-1/node-1"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def instances(
    broker: MqttServer, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list["Address"]]:
    """Two, which share a database and a broker."""
    shared = {
        "DEVICES_DATABASE": postgres_server.database(),
        "DEVICES_BROKER": broker.url,
        "DEVICES_SECRET": SECRET,
        "DEVICES_PREFIX": PREFIX,
    }
    folder = tmp_path_factory.mktemp("instances")
    with ExitStack() as stack:
        ports = [_free_port() for _ in range(2)]
        for number, port in enumerate(ports):
            own = {"DEVICES_PORT": str(port), "DEVICES_INSTANCE": f"process-{number}"}
            stack.enter_context(_instance({**os.environ, **shared, **own}, folder / f"log-{number}"))
        addresses = [Address(port) for port in ports]
        for number, address in enumerate(addresses):
            stack.enter_context(address.http)
            _until(address.healthy, (folder / f"log-{number}").read_text)
        Stranger(broker).publish((f"{PREFIX}/{NODE}/node_hello", "{}"))
        _until(addresses[0].knows_the_node, lambda: "the node is not heard of")
        yield addresses


@contextmanager
def _instance(environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as said:
        running = subprocess.Popen(
            [sys.executable, "-m", "devices", "serve"], env=environment, stdout=said, stderr=said
        )
    try:
        yield
        assert running.poll() is None, log.read_text()
    finally:
        running.terminate()
        assert running.wait(30) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Address:
    """One of them, by HTTP."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=PATIENCE)

    def healthy(self) -> bool:
        try:
            return self.http.get("/health").status_code == 200
        except httpx.HTTPError:
            return False

    def knows_the_node(self) -> bool:
        return NODE in self.http.get("/nodes").text

    def submit(self, cmd_id: str, channel: str = "pump") -> None:
        body = {"cmd_id": cmd_id, "node": NODE, "channel": channel, "cmd": "dose", "params": {"ml": 5}}
        assert self.http.post("/commands", json=body).status_code == 201

    def status(self, cmd_id: str) -> str:
        return str(self.http.get(f"/commands/{cmd_id}").json()["status"])

    def commands(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.http.get("/commands", params={"limit": 200}).json()["commands"]
        return found

    def all_sent(self) -> list[dict[str, Any]] | None:
        found = self.commands()
        return None if any(one["status"] == "QUEUED" for one in found) else found

    def five_refused(self) -> list[dict[str, Any]] | None:
        """Those that cannot be read are refused by each of the two that hear them."""
        found: list[dict[str, Any]] = self.http.get("/refused").json()["refused"]
        return found if len({(each["topic"], each["body"]) for each in found}) == 5 else None


def _until(holds: Any, otherwise: Any) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)
    return found


class Stranger:
    """`mosquitto_pub` and `mosquitto_sub`; where they are not installed, the same by paho in a process of its own."""

    def __init__(self, broker: MqttServer) -> None:
        found = urlsplit(broker.url)
        self._host, self._port = str(found.hostname), str(found.port)

    def publish(self, *messages: tuple[str, str]) -> None:
        """Topics and payloads, at QoS 1."""
        at = ["-h", self._host, "-p", self._port]
        if shutil.which("mosquitto_pub"):
            commands = [["mosquitto_pub", *at, "-q", "1", "-t", topic, "-m", payload] for topic, payload in messages]
        else:
            commands = [[sys.executable, "-c", _PUBLISH, self._host, self._port, json.dumps(messages)]]
        for command in commands:
            subprocess.run(command, check=True, timeout=PATIENCE)

    @contextmanager
    def listening(self, topic: str) -> Iterator["Heard"]:
        """What a process prints that has subscribed to a topic; it has when this begins, for it has heard a greeting."""
        if shutil.which("mosquitto_sub"):
            command = ["mosquitto_sub", "-h", self._host, "-p", self._port, "-q", "1", "-t", topic]
        else:
            command = [sys.executable, "-c", _SUBSCRIBE, self._host, self._port, topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            heard = Heard(process)
            try:
                _until(lambda: self._greeted(topic, heard), lambda: f"nothing is heard on {topic}")
                yield heard
            finally:
                process.terminate()

    def _greeted(self, topic: str, heard: "Heard") -> bool:
        self.publish((topic.replace("+", "greeting"), json.dumps({"greeting": True})))
        return heard.anything()


class Heard:
    """Messages, as lines that a process prints."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reading = Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reading.start()

    def _read(self, stdout: Any) -> None:
        for line in stdout:
            self._lines.put(line)

    def anything(self) -> bool:
        return not self._lines.empty()

    def next(self) -> dict[str, Any]:
        """The next message that is no greeting."""
        while "greeting" in (found := json.loads(self._lines.get(timeout=PATIENCE))):
            pass
        message: dict[str, Any] = found
        return message


_PUBLISH = """
import sys
import json
from paho.mqtt import publish
host, port, messages = sys.argv[1:]
told = [{"topic": topic, "payload": payload, "qos": 1} for topic, payload in json.loads(messages)]
publish.multiple(told, hostname=host, port=int(port))
"""
_SUBSCRIBE = """
import sys
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
host, port, topic = sys.argv[1:]
client = Client(CallbackAPIVersion.VERSION2)
client.on_connect = lambda *_: client.subscribe(topic, qos=1)
client.on_message = lambda _, __, message: print(message.payload.decode(), flush=True)
client.connect(host, int(port))
client.loop_forever()
"""


def test_a_hand_made_response_is_taken_and_a_forged_or_malformed_one_is_refused(
    instances: list["Address"], broker: MqttServer
) -> None:
    one, other = instances
    stranger = Stranger(broker)
    with stranger.listening(f"{PREFIX}/{NODE}/pump/command") as listener:
        one.submit("by-hand")
        heard = listener.next()
    assert (heard["cmd_id"], heard["cmd"], heard["params"]) == ("by-hand", "dose", {"ml": 5})
    _until(lambda: other.status("by-hand") == "SENT", other.commands)
    answer = f"{PREFIX}/{NODE}/pump/command_response"
    done = json.dumps({"cmd_id": "by-hand", "status": "DONE", "ts": 1794830507000})
    stranger.publish(
        (f"{PREFIX}/gh-1/zone-1/node-2/pump/command_response", done),
        (f"{PREFIX}/{NODE}/relay/command_response", done),
        (answer, done.replace("by-hand", "never-sent")),
        (answer, done[:-1]),
        (answer, done.replace("DONE", "EXPLODED")),
    )
    refused = _until(one.five_refused, lambda: one.http.get("/refused").text)
    assert one.status("by-hand") == "SENT"
    assert {"another node was asked", "no such command was sent"} < {each["why"] for each in refused}
    stranger.publish((answer, done))
    _until(lambda: other.status("by-hand") == "DONE", other.commands)


def test_two_instances_under_load_publish_each_command_once(instances: list["Address"], broker: MqttServer) -> None:
    number = 120
    with Stranger(broker).listening(f"{PREFIX}/{NODE}/+/command") as listener:
        with ThreadPoolExecutor(16) as pool:
            places = range(number)
            list(pool.map(lambda at: instances[at % 2].submit(f"load-{at}", f"ch-{at % 20}"), places))
        heard = [listener.next()["cmd_id"] for _ in places]
        instances[0].submit("last", "ch-0")
        # a second publish of any other would have been heard before this one
        assert listener.next()["cmd_id"] == "last"
    assert Counter(heard) == {f"load-{at}": 1 for at in places}
    listed = _until(instances[1].all_sent, lambda: instances[1].commands())
    assert {one["publishes"] for one in listed if one["cmd_id"].startswith("load-")} == {1}


def test_whatever_the_description_allows_is_no_error_of_the_server(instances: list["Address"]) -> None:
    schema = schemathesis.openapi.from_url(f"{instances[0].url}/openapi.json")
    operations = operations_of(schema)
    assert len(operations) >= 9

    def send(case: schemathesis.Case[Any]) -> None:
        answer = case.call(timeout=20)
        case.validate_response(answer, checks=[not_a_server_error])

    for operation in operations:
        try_out(operation, 10, send)
