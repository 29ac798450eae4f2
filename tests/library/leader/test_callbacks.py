"""What a leader's callbacks are told, whatever they do themselves (L11)."""

import asyncio
from contextlib import suppress

from raceproof import Leader, connect
from raceproof.run import Role
from tests.fix_waiting import DEADLINE, until
from tests.library.leader.fix_leading import LONG, SHORT, prepared, take_away
from tests.promises.race.places import Place


async def test_a_callback_that_ends_cancelled_is_not_the_last_one(place: Place) -> None:
    """It cancels a task of its own and waits for it: nobody has cancelled the leader, which goes on telling."""
    lease, _ = prepared(place, 2 * SHORT)
    calls: list[str] = []
    work: list[asyncio.Task[None]] = []

    async def begin(_: Leader) -> None:
        calls.append("active")
        work.append(asyncio.create_task(asyncio.sleep(3600)))

    async def end(_: Leader) -> None:
        calls.append("passive")
        work[-1].cancel()
        await work[-1]

    async with connect(place.url) as db:
        async with Leader(db, lease, retry=0.02, on_active=begin, on_passive=end) as leader:
            async with asyncio.timeout(DEADLINE):
                await leader.wait_for(Role.ACTIVE)
                operator = await take_away(db, lease)
                await leader.wait_for(Role.PASSIVE)
                await db.release_lease(operator)
                await leader.wait_for(Role.ACTIVE)
        assert calls == ["active", "passive", "active", "passive"]
        assert (await db.lease_holder(lease)).by is None


async def test_a_callback_that_ends_cancelled_does_not_cancel_who_leaves(place: Place) -> None:
    """Who was cancelled before, has dealt with it and leaves in good order: the callback's affair is another one."""
    lease, _ = prepared(place, LONG)

    async def end(_: Leader) -> None:
        raise asyncio.CancelledError

    async with connect(place.url) as db:
        leader = Leader(db, lease, on_passive=end)

        async def lead() -> str:
            async with leader:
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
            return "went on"

        task = asyncio.create_task(lead())
        async with asyncio.timeout(DEADLINE):
            await leader.wait_for(Role.ACTIVE)
            waiting = asyncio.create_task(leader.wait_for(Role.PASSIVE))
            task.cancel()
            assert await task == "went on"
            await waiting
        assert (await db.lease_holder(lease)).by is None


async def test_a_lead_that_was_lost_and_had_again_during_a_callback_is_told_as_another_one(
    place: Place,
) -> None:
    """The epoch is another one: what was begun in the first is told that it is over, and then begun anew."""
    lease, _ = prepared(place, 2 * SHORT)
    calls: list[str] = []
    enough = asyncio.Event()

    async def slow(leader: Leader) -> None:
        calls.append(f"active {leader.epoch}")
        await enough.wait()

    async with connect(place.url) as db:
        leader = Leader(db, lease, retry=0.02, on_active=slow, on_passive=lambda _: calls.append("passive"))
        async with leader:
            await until(lambda: len(calls) == 1, "it leads")
            first = leader.epoch
            operator = await take_away(db, lease)
            await until(lambda: not leader.active, "it has heard of that")
            await db.release_lease(operator)
            await until(lambda: leader.active, "it leads again")
            second = leader.epoch
            told = asyncio.create_task(leader.wait_for(Role.ACTIVE))
            await asyncio.sleep(0)
            assert not told.done()  # nobody has told the new one yet
            enough.set()
            async with asyncio.timeout(DEADLINE):
                await told
            assert calls == [f"active {first}", "passive", f"active {second}"]
