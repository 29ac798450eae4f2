"""The beginning and the end of a leader's block: nothing is left half done, and no lease is left behind (L11, P14)."""

import asyncio
from typing import Any

import pytest

from raceproof import Leader, Lease, connect
from raceproof.kernel.errors import CallError
from raceproof.run import Role
from tests.fix_waiting import DEADLINE, until
from tests.library.leader.fix_leading import LONG, SHORT, prepared, take_away
from tests.promises.race.places import Place


async def test_a_farewell_that_has_begun_comes_to_its_end(place: Place) -> None:
    """The lead was lost, and the block is left while the callback is at it."""
    lease, _ = prepared(place, 2 * SHORT)
    calls: list[str] = []
    began, enough = asyncio.Event(), asyncio.Event()

    async def farewell(_: Leader) -> None:
        calls.append("began")
        began.set()
        await enough.wait()
        calls.append("ended")

    async with connect(place.url) as db:
        leader = await Leader(db, lease, on_passive=farewell).__aenter__()
        await leader.wait_for(Role.ACTIVE)
        await take_away(db, lease)
        await began.wait()
        leaving = asyncio.create_task(leader.resign())
        await asyncio.sleep(0)
        enough.set()
        async with asyncio.timeout(DEADLINE):
            await leaving
        assert calls == ["began", "ended"]


@pytest.mark.parametrize("when", ["before", "when the block is left"])
async def test_a_farewell_without_an_end_is_cut_when_the_lease_is_over(place: Place, when: str) -> None:
    """It has the seconds of the lease; then it is cancelled, and the block ends."""
    lease, _ = prepared(place, SHORT)
    calls: list[str] = []

    async def farewell(_: Leader) -> None:
        calls.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            calls.append("cut")

    async with connect(place.url) as db, asyncio.timeout(DEADLINE):
        async with Leader(db, lease, on_passive=farewell) as leader:
            await leader.wait_for(Role.ACTIVE)
            if when == "before":
                await take_away(db, lease)
                await until(lambda: calls == ["began"], "it says farewell")
        assert calls == ["began", "cut"]
        await leader.wait_for(Role.PASSIVE)


async def test_who_leaves_while_the_lease_is_asked_for_gives_it_back(place: Place) -> None:
    """The store has given it, and the answer is on its way: the next one need not wait for its end."""
    lease, _ = prepared(place, LONG)
    given, arrives = asyncio.Event(), asyncio.Event()
    async with connect(place.url) as db:
        lead = db.acquire_lease

        async def slow(*args: Any, **options: Any) -> Any:
            answer = await lead(*args, **options)
            given.set()
            await arrives.wait()
            return answer

        db.acquire_lease = slow  # type: ignore[method-assign]
        leader = await Leader(db, lease).__aenter__()
        await given.wait()
        leaving = asyncio.create_task(leader.resign())
        await asyncio.sleep(0)
        arrives.set()
        await leaving
        assert not leader.active
        assert (await db.lease_holder(lease)).by is None


async def test_who_leaves_does_not_wait_for_an_answer_that_never_comes(place: Place) -> None:
    """A question has its time, and no callback hears of what comes of it."""
    lease, _ = prepared(place, SHORT)
    asked = asyncio.Event()
    calls: list[str] = []

    async def silent(*_: Any, **__: Any) -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with connect(place.url) as db, asyncio.timeout(DEADLINE):
        db.acquire_lease = silent  # type: ignore[method-assign]
        async with Leader(db, lease, on_passive=lambda _: calls.append("passive")):
            await asked.wait()
        assert calls == []


@pytest.mark.parametrize("how", ["left", "still open", "stepped down before"])
async def test_a_leader_is_entered_once(place: Place, how: str) -> None:
    """It would never be ACTIVE again, and ask itself without end."""
    lease, _ = prepared(place, LONG)
    async with connect(place.url) as db:
        leader = Leader(db, lease)
        if how == "stepped down before":
            await leader.resign()
        else:
            await leader.__aenter__()
            await leader.wait_for(Role.ACTIVE)
        if how == "left":
            await leader.resign()
        with pytest.raises(CallError, match="make a Leader for each block"):
            async with leader:
                pass
        await leader.resign()
        assert (await db.lease_holder(lease)).by is None


async def test_a_sync_store_is_refused_at_once(place: Place) -> None:
    """It would take the lease, and never be ACTIVE."""
    lease, _ = prepared(place, LONG)
    with connect(place.url) as db:
        with pytest.raises(CallError, match="needs an async store"):
            Leader(db, lease)  # type: ignore[arg-type]
        assert db.lease_holder(lease).by is None
    with pytest.raises(CallError, match="async with connect"):
        Leader(connect(place.url), Lease("bot"))  # type: ignore[arg-type]
