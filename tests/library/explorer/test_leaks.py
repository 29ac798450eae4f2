"""After an exploration, and meanwhile for other threads, nothing has changed."""

import asyncio
import gc
import logging
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import pytest

from raceproof.kernel import events, identity
from raceproof.kernel.errors import CallError
from raceproof.testing.explorer import Connection, Explorer
from raceproof.testing.explorer.on_sqlite import SqliteGround
from raceproof.testing.explorer.virtual import EPOCH
from tests.library.explorer.worlds import Body, alone, explored


def surroundings() -> dict[str, object]:
    """What an exploration changes while it lasts."""
    log = logging.getLogger("raceproof")
    return {
        "time": (time.time, time.monotonic, time.perf_counter, time.sleep, time.time_ns),
        "chance": (random.random, random.choice, os.urandom, uuid.uuid4, uuid.uuid1),
        "thread": threading.Thread.start,
        "loop": asyncio.events._get_running_loop(),
        "gc": gc.isenabled(),
        "log": (log.disabled, log.level, tuple(log.handlers)),
        "subscribers": events.subscribers,
        "identity": identity.current(),
        "hook": sys.unraisablehook,
        "asyncgen": sys.get_asyncgen_hooks(),
    }


class Escapes(BaseException):
    """Something that no process and no explorer catches."""


async def ends(db: Connection) -> None:
    await db.execute("SELECT 1")


async def raises(db: Connection) -> None:
    await db.execute("SELECT 1")
    raise ValueError


async def escapes(db: Connection) -> None:
    await db.execute("SELECT 1")
    raise SystemExit


@pytest.mark.parametrize("body", [ends, raises, escapes])
def test_nothing_is_left_of_an_exploration(body: Body) -> None:
    """Whichever way it ends."""
    before = surroundings()
    try:
        explored(alone(body), deviations=1)
    except SystemExit:
        pass
    assert surroundings() == before


def test_nothing_is_left_of_an_exploration_whose_invariant_raises() -> None:
    """An error in the scenario itself comes out as it is."""
    before = surroundings()
    world = alone(ends)

    def wrong(moment: Any) -> bool:
        raise Escapes

    world.always("wrong", wrong)
    with pytest.raises(Escapes):
        explored(world, deviations=1)
    assert surroundings() == before
    world.always_hold.clear()
    assert explored(world, deviations=1).passed


def test_what_an_interrupted_run_leaves_is_cleaned_up_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abandoned transaction is not rolled back somewhere else, later, with an error that nobody understands."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    async def main(db: Connection) -> None:
        async with db.transaction():
            await db.execute("INSERT INTO t VALUES (1)")

    with pytest.raises(CallError):
        Explorer(alone(main)).replay("main*2 main:unanswered")
    gc.collect()
    assert said == []


def test_what_was_abandoned_makes_no_loop_and_no_noise() -> None:
    """Nothing is written to standard error, and no event loop is made, when the remains of the dead are cleaned up."""
    code = """
import asyncio
from raceproof.testing.explorer import Explorer, Limits, World

made, policy = [], asyncio.get_event_loop_policy()
really = policy.new_event_loop
policy.new_event_loop = lambda: made.append(1) or really()
world = World("abandoned")

@world.process
async def main(db):
    try:
        await db.execute("SELECT 1")
    finally:
        await asyncio.shield(db.execute("SELECT 2"))

assert Explorer(world, Limits(1, 1, 0, 0, 0)).explore().passed
print(len(made))
"""
    path = os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ran.stdout.strip(), ran.stderr) == ("0", "")


async def test_it_can_be_used_from_within_a_running_loop() -> None:
    """An asynchronous test explores too; its own loop goes on afterwards."""
    loop = asyncio.get_running_loop()
    assert explored(alone(ends), deviations=1).passed
    assert asyncio.get_running_loop() is loop
    await asyncio.sleep(0)


def test_other_threads_keep_the_real_time() -> None:
    """Only the thread that explores is in another time; the others may also start threads and sleep."""
    began, go, seen = time.time(), threading.Event(), []

    def look() -> None:
        go.wait(10)
        inner = threading.Thread(target=lambda: seen.append(time.time()))
        inner.start()
        inner.join()
        time.sleep(0)
        seen.append(time.time())
        done.set()

    done = threading.Event()
    other = threading.Thread(target=look)
    other.start()
    virtual: list[float] = []

    async def main(db: Connection) -> None:
        virtual.append(time.time())
        go.set()
        done.wait(10)
        await db.execute("SELECT 1")

    Explorer(alone(main)).replay("main")
    other.join()
    assert virtual == [EPOCH]
    assert all(abs(one - began) < 60 for one in seen)
    assert len(seen) == 2


def test_an_exploration_in_another_thread_does_not_disturb_this_one() -> None:
    """Explored elsewhere, this thread keeps its clock and its loop."""
    verdicts: list[Any] = []
    other = threading.Thread(target=lambda: verdicts.append(explored(alone(ends), deviations=1)))
    began = time.time()
    other.start()
    while other.is_alive():
        assert abs(time.time() - began) < 60
        other.join(0.001)
    assert verdicts[0].passed


def test_the_explorer_is_not_imported_with_the_library() -> None:
    """Production code does not pay for it."""
    text = "import sys, raceproof; sys.exit(any('explorer' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


def test_a_closed_ground_leaves_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 warns of each one that is left."""
    opened: list[sqlite3.Connection] = []
    real = sqlite3.connect

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(real(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    SqliteGround().close()
    assert len(opened) == 2
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
