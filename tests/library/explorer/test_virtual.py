"""While a scenario is explored, time and chance belong to the run; what is not of the run is noticed."""

import asyncio
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from raceproof.testing.explorer import Connection, Explorer, Limits, NotDeterministic, World
from raceproof.testing.explorer.virtual import EPOCH
from tests.library.explorer.worlds import alone, explored


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

    Explorer(alone(main)).replay("main")
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

        world = alone(main)
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
        explored(alone(main), deviations=1)


def test_chance_that_cannot_be_replaced_is_noticed() -> None:
    """A generator of one's own has a seed of the machine's."""

    async def main(db: Connection) -> None:
        await db.execute("INSERT INTO t VALUES (?)", random.Random().random())

    with pytest.raises(NotDeterministic, match="chance"):
        explored(alone(main), deviations=1)


def test_a_shared_variable_is_noticed() -> None:
    """Processes share nothing but the store."""
    shared: list[int] = []

    async def main(db: Connection) -> None:
        shared.append(1)
        await db.execute("INSERT INTO t VALUES (?)", len(shared))

    with pytest.raises(NotDeterministic, match="share a variable"):
        explored(alone(main), deviations=1)


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
        Explorer(alone(main), Limits(deviations=3, crashes=0, lost=1, errors=1, cancels=0)).explore()


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
