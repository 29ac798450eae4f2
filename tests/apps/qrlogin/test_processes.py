"""An instance as a process: killed, ended and started again in the middle of logins; and whatever its description allows."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error

from tests.apps.described import operations_of, try_out
from tests.apps.qrlogin.conftest import free_port

PATIENCE = 60.0


class Instance:
    """`qrlogin serve --simulate` on an embedded store, and how to talk to it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self._log = folder / "log"
        self._environment = {
            **os.environ,
            "QRLOGIN_FOLDER": str(folder),
            "QRLOGIN_PORT": str(port),
            "QRLOGIN_LEASE": "1",
            "QRLOGIN_STARTS_OF_ADDRESS": "10000",
        }
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, trust_env=False, verify=False, timeout=PATIENCE)
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "qrlogin", "serve", "--simulate"],
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        self.until(lambda: self._answers("/health"))

    def end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        return self._process.wait(PATIENCE)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def _answers(self, path: str) -> bool:
        try:
            return self.http.get(path).status_code == 200
        except httpx.HTTPError:
            return False

    def until(self, holds: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while not (found := holds()):
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)
        return found


class Tab:
    """The page of one attempt, as a browser has it open."""

    def __init__(self, instance: Instance, user: str) -> None:
        self._instance = instance
        told = instance.http.post("/logins", json={"user_id": user}).json()
        instance.http.cookies.clear()
        self.path = f"/logins/{told['session_id']}"
        self.mine = {"Authorization": f"Bearer {told['token']}"}

    def look(self) -> dict[str, Any]:
        found: dict[str, Any] = self._instance.http.get(self.path, headers=self.mine).json()
        return found

    def code(self, other_than: str = "") -> str:
        """Which code is shown, once there is one."""

        def shown() -> str | None:
            code = self.look()["code"]
            return code["version"] if code and code["version"] != other_than else None

        return str(self._instance.until(shown))

    def scan(self) -> None:
        answer = self._instance.http.post(f"{self.path}/simulated-scan", json={}, headers=self.mine)
        assert answer.is_success, answer.text

    def ends(self) -> str:
        return str(self._instance.until(lambda: (found := self.look())["ended"] and found["status"]))


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    made = Instance(tmp_path_factory.mktemp("instance"))
    with made.http:
        made.start()
        yield made
        assert made.is_running
        assert made.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_logins_go_on_when_the_instance_was_ended_in_the_middle_and_started_again(
    instance: Instance, how: signal.Signals
) -> None:
    """The page stays open and its token is good; whoever had scanned nothing is shown a new code, and what is done stays."""
    waiting, done = Tab(instance, f"1{how:d}"), Tab(instance, f"2{how:d}")
    old = waiting.code()
    done.code()
    done.scan()
    assert done.ends() == "done"
    instance.end(how)
    instance.start()
    assert done.look()["status"] == "done"
    waiting.code(other_than=old)
    waiting.scan()
    assert waiting.ends() == "done"


def test_whatever_the_description_allows_is_no_error_of_the_server_and_opens_nothing_without_a_token(
    instance: Instance,
) -> None:
    schema = schemathesis.openapi.from_url(f"{instance.url}/openapi.json")
    operations = operations_of(schema)
    assert len(operations) >= 9
    tab = Tab(instance, "3000")
    session_id = tab.path.removeprefix("/logins/")

    def send(case: schemathesis.Case[Any]) -> None:
        answer = case.call(timeout=20)
        case.validate_response(answer, checks=[not_a_server_error])
        if "session_id" not in case.path_parameters:
            return
        assert answer.status_code >= 400
        case.path_parameters = {**case.path_parameters, "session_id": session_id}
        assert case.call(timeout=20).status_code >= 400
        if not case.path.endswith("/events"):  # which lasts for as long as the login
            answer = case.call(timeout=20, headers=tab.mine)
            case.validate_response(answer, checks=[not_a_server_error])

    for operation in operations:
        try_out(operation, 8, send)
