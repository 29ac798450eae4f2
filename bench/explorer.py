"""How many schedules the explorer tries in a second, beside what else explores Python: `python -m bench.explorer`.

Ours: two processes of three operations each, with crashes, lost acknowledgements, errors and cancellations, and the rows
checked after every step; as plain SQL, as moves of the library, and as claims. Theirs: the same three statements of two
workers, as far as each can run them. frontrun runs threads on a SQLite file and knows no crashes; simloom knows crashes but
no SQL, so its tasks call sqlite3 between two scheduling points. They need not be installed; who is missing is told.

`--profile` tells where our own time goes.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from raceproof import Lifecycle, claimable, move
from raceproof.testing.explorer import Connection, Explorer, Limits, World

GOAL = 3000
_SECONDS = 4.0
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Rate:
    """What one explorer did on one scenario."""

    name: str
    schedules: int
    seconds: float
    cpu: float
    """Seconds of the processor: what is left of a figure when the machine is busy with something else."""
    note: str = ""

    @property
    def rate(self) -> float:
        return self.schedules / self.seconds

    @property
    def rate_by_cpu(self) -> float:
        return self.schedules / self.cpu


class _Watch:
    """Both clocks, from when it was made."""

    def __init__(self) -> None:
        self._began, self._cpu = perf_counter(), process_time()

    @property
    def seconds(self) -> float:
        return perf_counter() - self._began

    @property
    def taken(self) -> tuple[float, float]:
        return self.seconds, process_time() - self._cpu


# ours


class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs", key="job_id"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    requeue = move(Status.RUNNING, to=Status.QUEUED)
    finish = move(Status.RUNNING, to=Status.DONE)
    work = claimable(start, lease=30, back=requeue)


def plain_sql(world: World) -> None:
    """Read, write back, read again."""
    world.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t VALUES (1, 0)")

    async def works(db: Connection) -> None:
        [(n,)] = await db.execute("SELECT n FROM t WHERE id = 1")
        await db.execute("UPDATE t SET n = ? WHERE id = 1", n + 1)
        await db.execute("SELECT n FROM t WHERE id = 1")

    world.process(name="worker", times=2)(works)
    world.always("never more than six", lambda moment: moment.row("t", id=1)["n"] <= 6)


def moves(world: World) -> None:
    """Start, an effect, finish."""
    world.table(Job)
    world.row(Job, "j")
    send = world.effect("send")

    async def works(db: Connection) -> None:
        if (await db.move(Job.start, "j")).won:
            await send("j")
            await db.move(Job.finish, "j")

    world.process(name="worker", times=2)(works)
    world.never_twice(send)


def claims(world: World) -> None:
    """Claim, an effect, finish with the fence."""
    world.table(Job)
    world.row(Job, "j")
    send = world.effect("send")

    async def works(db: Connection) -> None:
        for held in await db.claim(Job.work, 1):
            await send(held.fence)
            await db.move(Job.finish, held)

    world.process(name="worker", times=2)(works)
    world.never_twice(send)


OURS: dict[str, Callable[[World], None]] = {"plain SQL": plain_sql, "moves": moves, "claims": claims}


def ours(name: str, seconds: float) -> Rate:
    """Explore to the end, or until the time is over; a failure would end it early, so nothing here fails."""
    world = World(name)
    OURS[name](world)
    explorer = Explorer(world, Limits(deviations=9, seconds=seconds))
    watch = _Watch()
    verdict = explorer.explore()
    taken = watch.taken
    if verdict.kind == "failed":
        raise RuntimeError(f"{name} should hold: {verdict.why}")
    covered = verdict.covered
    note = f"{covered.steps:,} steps, {covered.states:,} states"
    return Rate(f"raceproof · {name}", covered.schedules, *taken, note)


# theirs, each in a process of its own


def frontrun(seconds: float) -> Rate:
    """Threads on a SQLite file; every order of statements that touch the same row."""
    library: Any = import_module("frontrun")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.db")

        def begin() -> None:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
            connection.execute("INSERT INTO t VALUES (1, 0)")
            connection.close()

        def works(_: object) -> None:
            connection = sqlite3.connect(path, isolation_level=None)
            [n] = connection.execute("SELECT n FROM t WHERE id = 1").fetchone()
            connection.execute("UPDATE t SET n = ? WHERE id = 1", (n + 1,))
            connection.execute("SELECT n FROM t WHERE id = 1").fetchone()
            connection.close()

        watch = _Watch()
        result = library.explore(
            setup=begin,
            workers=[works, works],
            invariant=lambda _: True,
            stop_on_first=False,
            total_timeout=seconds,
        )
        taken = watch.taken
    return Rate("frontrun · plain SQL", result.num_explored, *taken, "threads, no crashes; equal orders left out")


def simloom(seconds: float) -> Rate:
    """Tasks that call sqlite3 between two scheduling points; every order with up to three delays."""
    library: Any = import_module("simloom")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    watch = _Watch()

    async def works() -> None:
        await asyncio.sleep(0)
        [n] = connection.execute("SELECT n FROM t WHERE id = 1").fetchone()
        await asyncio.sleep(0)
        connection.execute("UPDATE t SET n = ? WHERE id = 1", (n + 1,))
        await asyncio.sleep(0)
        connection.execute("SELECT n FROM t WHERE id = 1").fetchone()

    async def main() -> None:
        connection.execute("INSERT OR REPLACE INTO t VALUES (1, 0)")
        await asyncio.gather(works(), works())

    explored, most = 0, 32
    while watch.seconds < seconds:
        result = library.explore_systematic(main, max_delays=3, max_schedules=most, world=False)
        explored, most = explored + result.schedules, most * 2
        if result.exhaustive:
            break
    return Rate("simloom · sqlite3 inline", explored, *watch.taken, "tasks, no crashes in this scenario")


PEERS: dict[str, Callable[[float], Rate]] = {"frontrun": frontrun, "simloom": simloom}


def peer(name: str, seconds: float) -> Rate | str:
    """Its rate, or why there is none."""
    try:
        found = version(name)
    except PackageNotFoundError:
        wants = " (it wants Python 3.12)" if name == "simloom" and sys.version_info < (3, 12) else ""
        return f"{name} is not installed{wants}: pip install {name}"
    command = [sys.executable, "-m", "bench.explorer", "--peer", name, "--seconds", str(seconds)]
    if name == "frontrun":  # it wants to be there before anything else is imported
        launcher = shutil.which("frontrun", path=str(Path(sys.executable).parent))
        if launcher is None:
            return "frontrun is installed without its command"
        command = [launcher, *command]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{name} {found} took longer than {_PATIENCE:g} s"
    if ran.returncode:
        return f"{name} {found} failed: {ran.stderr.strip().splitlines()[-1:]}"
    said = json.loads(ran.stdout.splitlines()[-1])
    return Rate(**{**said, "name": f"{said['name']} ({found})"})


def measured(seconds: float = _SECONDS, peers: bool = True) -> list[Rate | str]:
    """All of them; a text says why one is missing."""
    rates: list[Rate | str] = [ours(name, seconds) for name in OURS]
    return rates + [peer(name, seconds) for name in PEERS] if peers else rates


def profiled(name: str, seconds: float, lines: int = 25) -> None:
    """Where our own time goes, on one scenario."""
    profile = cProfile.Profile()
    profile.runcall(ours, name, seconds)
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.explorer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="how long each may take")
    parser.add_argument("--profile", choices=OURS, help="where the time goes in one of ours")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.profile:
        profiled(options.profile, options.seconds)
    elif options.peer:
        print(json.dumps(asdict(PEERS[options.peer](options.seconds))))
    else:
        _show(measured(options.seconds))
    return 0


def _show(rates: Sequence[Rate | str]) -> None:
    print(f"{'schedules':>47}/s  per CPU second")
    for one in rates:
        if isinstance(one, str):
            print(one)
        else:
            counted = f"{one.schedules:,} in {one.seconds:.1f} s"
            print(f"{one.name:36} {one.rate:12,.1f} {one.rate_by_cpu:15,.1f}  {counted}; {one.note}")
    print(f"the goal is {GOAL:,} schedules/s")


if __name__ == "__main__":
    sys.exit(main())
