"""Storms: an application under load while its parts are killed, and what must hold afterwards.

A storm is bounded in count and time, stays on loopback, ends only what it started, and exits with 1 if anything that
must hold does not. One that failed keeps its logs and its database in a folder and prints the path.
"""

import asyncio
import ctypes
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

SLOW_START = 60.0
"""Seconds that a process has to come to work before it is killed anyway."""


class Check(NamedTuple):
    """Something that must hold: a short name that stays the same, a sentence, and the evidence."""

    name: str
    what: str
    holds: bool
    detail: str


@dataclass
class Report:
    """What a storm has counted, and what had to hold."""

    name: str
    counts: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    kept: Path | None = None
    """The folder with logs and database of a storm that failed."""

    def check(self, what: str, holds: bool, detail: object = "", name: str = "") -> None:
        """Something that must hold, with the evidence; without a name, the name is made of the sentence."""
        self.checks.append(Check(name or slug(what), what, bool(holds), str(detail)))

    def at_least(self, what: str, least: float, found: float, name: str = "") -> None:
        """A storm in which too little happened proves nothing: `at_least("kills", 3, instances.kills)`."""
        self.check(f"at least {least} {what}", found >= least, found, name or f"enough-{slug(what)}")

    @property
    def violated(self) -> bool:
        return not all(one.holds for one in self.checks)

    def keep(self, folder: Path) -> None:
        """Copy what is in this folder to one that stays, if anything is violated."""
        if self.violated:
            if self.kept is None:
                self.kept = Path(tempfile.mkdtemp(prefix=f"{self.name}-storm-failed-"))
            shutil.copytree(folder, self.kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("compiled", "*.sock"))

    async def keep_database(self, url: str, folder: Path) -> None:
        """Write each table of a PostgreSQL database to folder/database, if anything is violated; see `keep`.

        A file of SQLite in the folder is kept as it is.
        """
        if self.violated and not url.startswith("sqlite"):
            await dump_tables(url, folder / "database")

    def show(self, output: str) -> int:
        """Print it; returns the exit code."""
        if output == "json":
            checks = [
                {"name": one.name, "check": one.what, "holds": one.holds, "detail": one.detail} for one in self.checks
            ]
            told = {"storm": self.name, "counts": self.counts, "checks": checks, "kept": self.kept}
            click.echo(json.dumps(told, default=str, indent=2))
        else:
            console = Console()
            counts = Table("counted", "", title=f"{self.name}: storm", title_justify="left", box=None)
            for what, number in self.counts.items():
                counts.add_row(what, f"{number:,}" if isinstance(number, int) else str(number))
            console.print(counts)
            for one in self.checks:
                mark = "[green]holds   [/]" if one.holds else "[red bold]VIOLATED[/]"
                detail = f" [dim]({escape(one.detail)})[/]" if one.detail else ""
                console.print(f"{mark} {one.name}: {escape(one.what)}{detail}", highlight=False)
        if self.kept is not None:
            click.echo(f"logs and database: {self.kept}", err=True)
        return int(self.violated)


def slug(words: str) -> str:
    """`no-lock-is-left-behind`."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


async def dump_tables(url: str, folder: Path) -> None:
    """One CSV file for each table of the public schema."""
    import asyncpg

    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    connection = await asyncpg.connect(url, timeout=30, command_timeout=60)
    try:
        for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
            name = row["tablename"]
            await connection.copy_from_table(
                name, schema_name="public", output=folder / f"{slug(name)}.csv", format="csv", header=True
            )
    finally:
        await connection.close()


class Instance:
    """A process of the application, which can be killed and begun again; its output goes to a file."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [sys.executable, "-m", *command]
        # a start is as quick as that of an installed program, also where nothing compiled is kept
        compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
        self._environment = {**os.environ, **(compiled if sys.dont_write_bytecode else {}), **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._began = log.tell()
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    def said(self) -> str:
        """What it has written since its last start."""
        with self.log.open("rb") as log:
            log.seek(self._began)
            return log.read().decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def pause(self, seconds: float) -> None:
        """Freeze it for some time, as a swapping machine or a long garbage collection would, and let it go on."""
        self.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """As a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """As a deploy would; returns its exit code."""
        if self._process is None:
            return 0
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9

    def tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


def _die_with_parent() -> None:
    """In the child, on Linux: a storm that is killed leaves nobody behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Instances:
    """Several of them, ended together; killed and frozen one at a time while `trouble` runs.

    With a report, their logs and whatever else is in `folder` are kept if the storm fails or raises.
    """

    def __init__(self, report: Report | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="raceproof-storm-")
        self._report = report
        self.folder = Path(self._folder.name)
        self.all: list[Instance] = []
        self.kills = 0
        self.pauses = 0
        self.kills_at_work = 0
        """Of those that were asked whether they are up."""

    def __enter__(self) -> "Instances":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        for one in self.all:
            one.kill()
        if self._report is not None:
            if error is not None:
                self._report.check("the storm came to its end", False, repr(error), "storm-ended")
            self._report.keep(self.folder)
            if error is not None:
                error.add_note(f"logs and database: {self._report.kept}")
        self._folder.cleanup()

    def add(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Instance:
        """A process that is started now."""
        one = Instance(name, command, environment, self.folder)
        self.all.append(one)
        one.start()
        return one

    async def trouble(
        self,
        victims: Sequence[Instance],
        every: float,
        seed: int = 0,
        in_turn: bool = False,
        is_up: Callable[[Instance], Awaitable[bool]] | None = None,
        pause: float = 0.0,
    ) -> None:
        """Kill one of them every few seconds and begin it again, until this is cancelled.

        With `is_up`, one that is still starting is given some time to come to work: on a busy machine no other would.
        With `pause`, every other victim is not killed but frozen for that many seconds, more than its lease: when it
        goes on, it still believes in what it held.
        """
        choose = random.Random(seed)
        for turn in count():
            await asyncio.sleep(every * choose.uniform(0.6, 1.4))
            victim = victims[self.kills % len(victims)] if in_turn else choose.choice(victims)
            up = is_up is None or await until(lambda one=victim: is_up(one), SLOW_START)
            if pause and turn % 2:
                await victim.pause(pause)
                self.pauses += 1
                continue
            self.kills_at_work += up and is_up is not None
            await asyncio.to_thread(victim.kill)
            self.kills += 1
            victim.start()

    def died(self) -> list[str]:
        """Who has ended by itself, with the end of its log."""
        return [f"{one.name}: {one.tail()}" for one in self.all if not one.running]


class Bar:
    """A progress bar on a terminal, and nothing elsewhere: `with Bar("commands ended", 10_000) as bar: bar.at(17)`."""

    def __init__(self, what: str, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty())
        self._task = self._progress.add_task(what, total=total)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def at(self, number: int) -> None:
        self._progress.update(self._task, completed=number)


async def until(condition: Any, seconds: float, every: float = 0.2) -> bool:
    """Ask an async condition again and again; whether it held in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await condition():
            return True
        await asyncio.sleep(every)
    return bool(await condition())


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
