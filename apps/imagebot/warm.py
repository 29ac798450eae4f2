"""Instances for tests, storms and measurements, forked from a process which has imported everything (`appkit.warm`)."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from appkit.warm import command


class Warm:
    """`with Warm() as warm: warm.start("one", ["serve"], environment, folder)`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = subprocess.Popen(
            command("imagebot", ["imagebot.main_render"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._answer()  # it is ready

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> "WarmInstance":
        """A process that runs `imagebot` with these arguments; its output goes to a file in the folder."""
        return WarmInstance(self, name, arguments, environment, folder)

    def ask(self, **told: Any) -> dict[str, Any]:
        """One question to the process that forks."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


class WarmInstance:
    """One of them; it can be killed and begun again."""

    def __init__(
        self, warm: Warm, name: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.starts = 0
        self._warm = warm
        self._told = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "log": str(self.log_path),
        }
        self.pid = 0
        self.start()

    def start(self) -> None:
        self.pid = self._warm.ask(**self._told)["pid"]
        self.starts += 1

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def lines(self, tag: str) -> list[str]:
        return [line for line in self.log.splitlines() if f"[{tag}]" in line]

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative if a signal has ended it."""
        code: int | None = self._warm.ask(poll=self.pid)["code"]
        return code

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power cut would."""
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
            self.wait()

    def stop(self, seconds: float = 40.0) -> int:
        """As a deploy would; returns its exit code."""
        if self.exit_code is None:
            self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = 40.0) -> int:
        deadline = time.monotonic() + seconds
        while (code := self.exit_code) is None:
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
            time.sleep(0.01)
        return code
