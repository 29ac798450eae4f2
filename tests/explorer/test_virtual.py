"""While a scenario is explored, time and chance belong to the run; afterwards, and for others, nothing has changed."""

import asyncio
import concurrent.futures
import gc
import logging
import os
import random
import secrets
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from raceproof import events, identity
from raceproof.errors import CallError
from raceproof.testing.explorer import Connection, Explorer, Limits, NotDeterministic, NotExplorable, World
from raceproof.testing.explorer.virtual import EPOCH

Body = Callable[[Connection], Awaitable[None]]


def world_with(body: Body) -> World:
    world = World("virtual")
    world.sql("CREATE TABLE t (n)")
    world.process(name="main")(body)
    return world


def explored(world: World, deviations: int = 1) -> Any:
    return Explorer(world, Limits(deviations, 0, 0, 0, 0, seconds=10)).explore()


# time and chance of a run


def test_clocks_show_the_time_of_the_run() -> None:
    """All of them, and they go on only when the schedule lets time pass."""
    seen: list[tuple[float, ...]] = []

    async def main(db: Connection) -> None:
        for _ in range(2):
            seen.append(
                (
                    time.time(),
                    time.monotonic(),
                    time.perf_counter(),
                    time.time_ns() / 1e9,
                    time.monotonic_ns() / 1e9,
                )
            )
            await asyncio.sleep(90)

    Explorer(world_with(main)).replay("main")
    assert seen == [(EPOCH, 0.0, 0.0, EPOCH, 0.0), (EPOCH + 90, 90.0, 90.0, EPOCH + 90, 90.0)]


CHANCES: dict[str, Callable[[], object]] = {
    "random": lambda: random.random(),  # looked up when it is called
    "uniform": lambda: random.uniform(1, 2),
    "choice": lambda: random.choice(range(1_000_000)),
    "shuffle": lambda: shuffled(),
    "normalvariate": lambda: random.normalvariate(0, 1),
    "lognormvariate": lambda: random.lognormvariate(0, 1),
    "system random": lambda: random.SystemRandom().random(),
    "secrets": lambda: secrets.token_hex(8),
    "token_urlsafe": lambda: secrets.token_urlsafe(8),
    "urandom": lambda: os.urandom(8).hex(),
    "uuid4": lambda: str(uuid.uuid4()),
    "uuid1": lambda: str(uuid.uuid1()),
}


def shuffled() -> str:
    letters = list("abcdefghijklmnop")
    random.shuffle(letters)
    return "".join(letters)


@pytest.mark.parametrize("name", CHANCES)
def test_chance_is_the_same_in_every_run_and_another_for_every_incarnation(name: str) -> None:
    """So a schedule can be replayed, and two workers still have different ids."""
    draw = CHANCES[name]

    def drawn() -> list[object]:
        seen: list[object] = []

        async def main(db: Connection) -> None:
            seen.append(draw())
            await db.execute("SELECT 1")
            seen.append(draw())

        world = world_with(main)
        world.process(name="other")(main)
        Explorer(world).replay("main*2 other other:dies-before other*2")
        return seen

    first = drawn()
    assert first == drawn()
    assert len(set(map(str, first))) == 5


def test_the_real_clock_of_datetime_is_noticed() -> None:
    """`datetime.now` cannot be replaced; a scenario that writes it down is told so."""

    async def main(db: Connection) -> None:
        await db.execute("INSERT INTO t VALUES (?)", datetime.now(UTC).isoformat())

    with pytest.raises(NotDeterministic, match="clock"):
        explored(world_with(main))


def test_chance_that_cannot_be_replaced_is_noticed() -> None:
    """A generator of one's own has a seed of the machine's."""

    async def main(db: Connection) -> None:
        await db.execute("INSERT INTO t VALUES (?)", random.Random().random())

    with pytest.raises(NotDeterministic, match="chance"):
        explored(world_with(main))


def test_a_shared_variable_is_noticed() -> None:
    """Processes share nothing but the store."""
    shared: list[int] = []

    async def main(db: Connection) -> None:
        shared.append(1)
        await db.execute("INSERT INTO t VALUES (?)", len(shared))

    with pytest.raises(NotDeterministic, match="share a variable"):
        explored(world_with(main))


def test_a_shared_variable_is_noticed_also_if_it_matters_only_after_a_fault() -> None:
    """The undisturbed run is the same each time; the disturbed ones are not."""
    failures: list[int] = []

    async def main(db: Connection) -> None:
        try:
            await db.execute("INSERT INTO t VALUES (1)")
        except ConnectionError:
            failures.append(1)
            for _ in range(4 - len(failures)):
                await db.execute("INSERT INTO t VALUES (2)")

    with pytest.raises(NotDeterministic):
        Explorer(world_with(main), Limits(deviations=3, crashes=0, lost=1, errors=1, cancels=0)).explore()


def test_a_failure_that_does_not_come_again_is_not_called_passed() -> None:
    """Something broke once and not in the second look: that is no certificate."""
    calls: list[int] = []
    world = World("once")
    world.sql("CREATE TABLE t (n INTEGER)")

    async def main(db: Connection) -> None:
        await db.execute("SELECT 1")
        await db.execute("SELECT 2")

    def once(moment: Any) -> bool:
        calls.append(1)
        return len(calls) != 2

    world.process(name="main", times=2)(main)
    world.eventually("once", once)
    with pytest.raises(NotDeterministic):
        explored(world, deviations=2)
    assert len(calls) >= 2


# what cannot be explored


async def thread() -> None:
    threading.Thread(target=print).start()


async def pool() -> None:
    concurrent.futures.ThreadPoolExecutor().submit(print)


async def to_thread() -> None:
    await asyncio.to_thread(print)


async def sleep() -> None:
    time.sleep(1)  # noqa: ASYNC251


async def connection() -> None:
    await asyncio.open_connection("localhost", 1)


async def unix_connection() -> None:
    await asyncio.open_unix_connection("/nowhere")


async def server() -> None:
    await asyncio.start_server(print, port=1)


async def datagrams() -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(asyncio.DatagramProtocol, ("localhost", 1))


async def process() -> None:
    await asyncio.create_subprocess_exec("true")


async def signals() -> None:
    asyncio.get_running_loop().add_signal_handler(15, print)


async def reader() -> None:
    asyncio.get_running_loop().add_reader(0, print)


REFUSED = [
    thread,
    pool,
    to_thread,
    sleep,
    connection,
    unix_connection,
    server,
    datagrams,
    process,
    signals,
    reader,
]


@pytest.mark.parametrize("asks", REFUSED)
def test_what_the_explorer_cannot_decide_is_refused_where_it_is_asked_for(
    asks: Callable[[], Awaitable[None]],
) -> None:
    """With advice, instead of a run that differs from time to time."""
    seen: list[BaseException] = []

    async def main(db: Connection) -> None:
        try:
            await asks()
        except Exception as error:
            seen.append(error)
            raise

    with pytest.raises(NotExplorable, match="effect"):
        explored(world_with(main))
    assert all(isinstance(error, NotExplorable) for error in seen)


def test_a_refusal_is_told_also_if_the_code_swallows_it() -> None:
    """A worker that takes it for a failed item would be explored without its work, and pass."""

    async def main(db: Connection) -> None:
        try:
            await asyncio.to_thread(print)
        except Exception:
            await db.execute("INSERT INTO t VALUES (1)")

    with pytest.raises(NotExplorable):
        explored(world_with(main))


# nothing leaks


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
        explored(world_with(body))
    except SystemExit:
        pass
    assert surroundings() == before


def test_nothing_is_left_of_an_exploration_whose_invariant_raises() -> None:
    """An error in the scenario itself comes out as it is."""
    before = surroundings()
    world = world_with(ends)

    def wrong(moment: Any) -> bool:
        raise Escapes

    world.always("wrong", wrong)
    with pytest.raises(Escapes):
        explored(world)
    assert surroundings() == before
    world.always_hold.clear()
    assert explored(world).passed


def test_what_an_interrupted_run_leaves_is_cleaned_up_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abandoned transaction is not rolled back somewhere else, later, with an error that nobody understands."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    async def main(db: Connection) -> None:
        async with db.transaction():
            await db.execute("INSERT INTO t VALUES (1)")

    with pytest.raises(CallError):
        Explorer(world_with(main)).replay("main*2 main:unanswered")
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
    assert explored(world_with(ends)).passed
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

    Explorer(world_with(main)).replay("main")
    other.join()
    assert virtual == [EPOCH]
    assert all(abs(one - began) < 60 for one in seen)
    assert len(seen) == 2


def test_an_exploration_in_another_thread_does_not_disturb_this_one() -> None:
    """Explored elsewhere, this thread keeps its clock and its loop."""
    verdicts: list[Any] = []
    other = threading.Thread(target=lambda: verdicts.append(explored(world_with(ends))))
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
