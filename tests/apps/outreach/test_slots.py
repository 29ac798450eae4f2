"""At most three AI calls, and so many a second, over all processes, as the provider measures it. B3, B4."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from appkit.storm import Instance, until
from outreach.failures import Busy
from outreach.service import Service
from outreach.slots import Slots
from outreach.stages import AI_DESCRIPTION, ENRICHMENT, STAGES
from outreach.storm_rows import fill
from outreach.tables import discoveries
from raceproof import Lease, LeaseGranted, sql

from .conftest import KEY, Opening, RunningProvider, running_provider

PATIENCE = 120.0
PODCASTS = 18


@asynccontextmanager
async def three_at_work(
    url: str, folder: Path, provider: RunningProvider, **told: Any
) -> AsyncIterator[list[Instance]]:
    """Three worker processes of both forms, each of which may work on every stage at once."""
    limits = "{" + ", ".join(f'"{name}": 3' for name in STAGES) + "}"
    settings = {
        "DATABASE": url,
        "RHYTHM": "continuous",
        "LIMITS": limits,
        "POLL": 0.05,
        "REST": 0.1,
        "AI_URL": provider.url,
        "AI_RATE": 1000,
        "AI_PAUSE": 0.1,
        **told,
    }
    instances = []
    for number in range(3):
        own = {"INSTANCE": f"worker-{number}", "FOLDER": folder, "AI_KEY": f"{KEY}.worker-{number}"}
        own["FORM"] = ("columns", "marker")[number % 2]
        environment = {f"OUTREACH_{name}": str(value) for name, value in (settings | own).items()}
        instances.append(Instance(f"worker-{number}", ["outreach", "work"], environment, folder))
        instances[-1].start()
    try:
        yield instances
    finally:
        for one in instances:
            one.signal(signal.SIGCONT)
        codes = await asyncio.gather(*(asyncio.to_thread(one.stop) for one in instances))
    assert codes == [0, 0, 0], [one.tail(30) for one in instances]


async def waiting(service: Service) -> None:
    """Podcasts that want a description and then a score, with nothing else in their way."""
    await fill(service, PODCASTS, 1, broken=10_000)
    move = ENRICHMENT.move("share")
    await service.database.store.move_many(move, where=sql("TRUE"), set={"enrichment_error": None})


async def all_vetted(service: Service) -> bool:
    async with service.database.read() as connection:
        asked = select(func.count()).where(discoveries.c.vetting_status != "completed")
        return (await connection.execute(asked)).scalar_one() == 0


async def test_three_processes_together_make_three_calls_at_once(opening: Opening, url: str, tmp_path: Path) -> None:
    """The semaphore of each process counted its own: six were under way at once."""
    with running_provider(slow=1.0) as provider:
        async with opening() as service:
            await waiting(service)
            async with three_at_work(url, tmp_path, provider):
                assert await until(lambda: all_vetted(service), PATIENCE)
        log = provider.log()
    assert max(call["at_once"] for call in log) == 3
    assert len({call["by"] for call in log}) > 1
    assert len(log) == len({call["product"] for call in log}) == 2 * PODCASTS


async def test_three_processes_together_keep_to_the_rate(opening: Opening, url: str, tmp_path: Path) -> None:
    with running_provider() as provider:
        async with opening() as service:
            await waiting(service)
            async with three_at_work(url, tmp_path, provider, AI_RATE=10, AI_CALLS=9):
                assert await until(lambda: all_vetted(service), PATIENCE)
        began = sorted(call["began"] for call in provider.log())
    assert len(began) == 2 * PODCASTS
    assert began[-1] - began[0] >= (len(began) - 1) / 10 * 0.9


async def test_a_caller_that_stood_still_sends_nothing_when_another_has_its_turn(opening: Opening) -> None:
    async with opening() as service:
        frozen = Slots(service.database.store, 1, 0.2, "frozen")
        quick = Slots(service.database.store, 1, 60.0, "quick")
        async with frozen.taken(30.0) as slot:
            assert await slot.lasts(0.1)
            async with quick.taken(30.0) as other:  # when the time of the first is over
                assert await other.lasts(50.0)
                assert not await slot.lasts(0.1)
        async with quick.taken(30.0) as third:
            assert await third.lasts(50.0)


async def test_a_turn_that_does_not_come_is_no_failure_of_a_row(opening: Opening) -> None:
    async with opening() as service:
        slots = Slots(service.database.store, 2, 60.0, "one")
        other = Slots(service.database.store, 2, 60.0, "two")
        async with slots.taken(1.0), other.taken(1.0):
            for one in (slots, other):
                with pytest.raises(Busy, match="no slot"):
                    async with one.taken(0.05):
                        raise AssertionError
        async with slots.taken(1.0), slots.taken(1.0):
            pass


async def test_a_caller_who_stops_waiting_leaves_no_slot_taken(opening: Opening) -> None:
    """Cancelled at any moment, also between the store's answer and ours."""
    async with opening() as service:
        slots = Slots(service.database.store, 1, 3600.0, "one")
        for _ in range(20):

            async def hold() -> None:
                async with slots.taken(30.0):
                    await asyncio.sleep(0)

            task = asyncio.create_task(hold())
            for _ in range(10):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with asyncio.timeout(PATIENCE), slots.taken(PATIENCE):
            pass


async def test_rows_that_wait_for_a_turn_lose_no_attempt(opening: Opening) -> None:
    with running_provider() as provider:
        told = provider.settings() | {"ai_wait": 0.05, "ai_calls": 1}
        async with opening(**told) as service:
            await waiting(service)
            lease = Lease("ai/0", 3600.0)
            taken = await service.database.store.acquire_lease(lease, "somebody else")
            assert isinstance(taken, LeaseGranted)
            await service.manager.run_until_idle(AI_DESCRIPTION)
            async with service.database.read() as connection:
                asked = select(discoveries.c.ai_description_status, discoveries.c.ai_description_attempts)
                assert set((await connection.execute(asked)).all()) == {("pending", 0)}
            assert provider.ledger()["calls"] == 0
