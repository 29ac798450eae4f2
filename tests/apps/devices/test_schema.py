"""Whatever its own description allows, and more, is sent to a running instance: never an error of the server."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An instance in a process of its own, on everything embedded."""
    folder: Path = tmp_path_factory.mktemp("schema")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "DEVICES_PORT": str(port), "DEVICES_FOLDER": str(folder)}
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", "devices", "serve"], env=environment, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"{address}/health", trust_env=False).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield address
        assert running.poll() is None, (folder / "log").read_text()
    finally:
        running.terminate()
        assert running.wait(30) == 0


def test_no_request_is_an_error_of_the_server(url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) >= 9
    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(
            max_examples=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            derandomize=True,
            database=None,
        )
        def send(case: schemathesis.Case[Any]) -> None:
            answer = case.call(timeout=20)
            case.validate_response(answer, checks=[not_a_server_error])

        send()
