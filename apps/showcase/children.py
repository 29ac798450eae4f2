"""The processes that the showcase starts, as it sees them: begun, frozen, killed, stopped, and never left behind."""

import asyncio
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

from appkit import warm

BESIDE = {
    "devices": ("devices.api", "devices.service", "uvicorn"),
    "imagebot": ("imagebot.main_render", "imagebot.simulators.serving"),
    "outreach": ("outreach.serving", "uvicorn"),
    "qrlogin": ("qrlogin.api", "qrlogin.service", "qrlogin.simulated", "uvicorn"),
    "showcase": ("showcase.twins.instance",),
}
"""What a program imports only when it runs."""


class Foreman:
    """One warm process, which forks children of one program."""

    def __init__(self, program: str) -> None:
        self.program = program
        self._lock = Lock()
        self._imported = False
        self._process = subprocess.Popen(
            warm.command(program, BESIDE[program]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the showcase alone, which then stops everybody in order
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> None:
        """Wait until everything is imported."""
        await asyncio.to_thread(self._answer)
        self._imported = True

    async def ask(self, **told: Any) -> dict[str, Any]:
        return await asyncio.to_thread(self._ask, told)

    def close(self) -> None:
        """Its children end with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if not self._imported:  # it would not listen, and has no children
            self._process.kill()
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, told: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(told).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that starts {self.program} has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Child:
    """One process of a program; it can be begun again under the same name."""

    def __init__(
        self,
        foreman: Foreman,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.pid = 0
        self.frozen = False
        self.begun = 0.0
        self.command = " ".join((foreman.program, *arguments))
        self._foreman = foreman
        self._told = {"arguments": list(arguments), "environment": dict(environment), "log": str(self.log)}

    async def start(self) -> "Child":
        self.pid = (await self._foreman.ask(**self._told))["pid"]
        self.begun = time.monotonic()
        self.frozen = False
        return self

    async def exit_code(self) -> int | None:
        """None while it runs; negative if a signal has ended it."""
        code: int | None = (await self._foreman.ask(poll=self.pid))["code"] if self.pid else 0
        return code

    async def kill(self) -> None:
        """As a power cut would."""
        if self.pid and await self.exit_code() is None:
            self._signal(signal.SIGKILL)
            await self._ended()

    async def stop(self, seconds: float = 12.0) -> int:
        """As a deploy would; returns its exit code."""
        if self.pid and await self.exit_code() is None:
            self.thaw()
            self._signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._ended()
        self._signal(signal.SIGKILL)
        return await self._ended()

    def freeze(self) -> None:
        """As a full machine or a moved virtual one does: it knows nothing of it."""
        self._signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.frozen = False

    def tail(self, lines: int = 15) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    async def _ended(self) -> int:
        while (code := await self.exit_code()) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.03)
        return code


class Load:
    """How much of the machine all of them use, since this was last asked; None where it cannot be known."""

    def __init__(self) -> None:
        self._seen = (time.monotonic(), 0.0)
        self._used: dict[int, float] = {}

    def cores(self, pids: Sequence[int]) -> float | None:
        """Cores that were busy on average."""
        ticks = os.sysconf("SC_CLK_TCK")
        total = 0.0
        for pid in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            self._used[pid] = (int(fields[11]) + int(fields[12])) / ticks
        total = sum(self._used.values())
        if not total:
            return None
        now = time.monotonic()
        (before, used), self._seen = self._seen, (now, total)
        return max(0.0, (total - used) / max(now - before, 0.001)) if used else None
