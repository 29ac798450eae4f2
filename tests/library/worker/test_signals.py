"""SIGTERM and SIGINT (L13): all workers and schedules of a process end in good order; then signals mean what they meant."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from raceproof import AsyncStore, Scheduler, Worker, connect
from raceproof.run import Schedules
from tests.ddl import script
from tests.fix_waiting import until
from tests.promises.crash.actors import Actor, Stage
from tests.promises.race.beside import beside
from tests.promises.race.places import Place

LISTENED = (signal.SIGTERM, signal.SIGINT)
Working = Callable[[AsyncStore, Callable[[], None]], Awaitable[None]]


async def two_schedules(db: AsyncStore, ready: Callable[[], None]) -> None:
    """Each has a worker of its own."""
    scheduler = Scheduler(db, poll=0.01)
    ran: set[str] = set()

    async def job(name: str) -> None:
        ran.add(name)

    for name in ("vetting", "cleanup"):
        scheduler.every(0.001, name, lambda name=name: job(name))  # type: ignore[misc]
    running = asyncio.create_task(scheduler.run(signals=True))
    await until(lambda: len(ran) == 2, "both run")
    ready()
    await running


async def two_workers(db: AsyncStore, ready: Callable[[], None]) -> None:
    both = [worker(db), worker(db)]
    running = [asyncio.create_task(one.run(signals=True)) for one in both]
    await asyncio.sleep(0)
    ready()
    await asyncio.gather(*running)


async def one_worker_of_two(db: AsyncStore, ready: Callable[[], None]) -> None:
    """The other has ended before."""
    left, other = worker(db), worker(db)
    running = asyncio.create_task(left.run(signals=True))
    ending = asyncio.create_task(other.run(signals=True))
    await asyncio.sleep(0)
    other.stop()
    await ending
    ready()
    await running


def worker(db: AsyncStore) -> Worker:
    async def handle(_: object) -> None:
        """There is nothing to do."""

    made = Schedules()
    return Worker(db, made.run, handle, finish=made.retire, poll=0.01)


@pytest.mark.parametrize("number", LISTENED)
@pytest.mark.parametrize("working", [two_schedules, two_workers, one_worker_of_two])
def test_a_signal_stops_all_that_run(tmp_path: Path, working: Working, number: signal.Signals) -> None:
    """And what the program did on a signal before, it does again."""
    place = Place(f"sqlite:///{tmp_path / 'schedules.db'}")
    with beside(place) as ground:
        ground.run(script(Schedules(), dialect="sqlite"))  # type: ignore[attr-defined]

    def play(stage: Stage) -> None:
        def own(*_: object) -> None:
            """What the program does itself."""

        async def main() -> None:
            async with connect(place.url) as db:
                await working(db, lambda: stage.tell("ready"))

        for one in LISTENED:
            signal.signal(one, own)
        asyncio.run(main())
        stage.tell("ended", [signal.getsignal(one) is own for one in LISTENED])

    with Actor(play) as actor:
        actor.until("ready")
        os.kill(actor.pid, number)
        assert actor.until("ended") == ([True, True],)
