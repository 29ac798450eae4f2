"""Instances that are forked from a process which has imported everything: a start takes milliseconds, not seconds.

For tests, storms and measurements, where instances are killed and begun again all the time. `python -m imagebot.warm` is
the process that forks; it reads what to start, line by line, and ends with its input. Its children end with it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

_PDEATHSIG = 1


class Warm:
    """`with Warm() as warm: warm.start("one", ["serve"], environment, folder)`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "imagebot.warm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

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
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()
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


def _forking() -> None:
    import imagebot.main_render  # noqa: F401
    from imagebot.cli import main

    ended: dict[int, int] = {}
    parent = os.getpid()
    for line in sys.stdin:
        told = json.loads(line)
        if "poll" in told:
            _reap(ended)
            _tell(code=ended.get(told["poll"]))
            continue
        child = os.fork()
        if child == 0:
            _become(told, parent)
            try:
                main(told["arguments"], prog_name="imagebot")
            except SystemExit as end:
                os._exit(end.code if isinstance(end.code, int) else 1)
            except BaseException:
                import traceback

                traceback.print_exc()
            os._exit(1)
        _tell(pid=child)


def _become(told: dict[str, Any], parent: int) -> None:
    """The child: its own output and environment, and an end if its parent ends."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    log = os.open(told["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    os.environ.update(told["environment"])


def _reap(ended: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        ended[pid] = os.waitstatus_to_exitcode(status)


def _tell(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _forking()
