"""SIGTERM and SIGINT: a leader steps down before its program ends, and its block ends in good order (L11)."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from raceproof import Leader, Lease, connect
from raceproof.run import Role
from tests.fix_waiting import DEADLINE
from tests.library.leader.fix_leading import LONG, prepared
from tests.promises.crash.actors import Actor, Stage
from tests.promises.race.places import Place, SqlitePlace

LISTENED = (signal.SIGTERM, signal.SIGINT)


class Lead:
    """A program that waits in the block for ever."""

    def __init__(self, place: Place, lease: Lease) -> None:
        self._url, self._lease = place.url, lease

    def __call__(self, stage: Stage) -> None:
        def own(*_: object) -> None:
            """What the program does itself."""

        for one in LISTENED:
            signal.signal(one, own)
        asyncio.run(self._run(stage))
        stage.tell("ended", [signal.getsignal(one) is own for one in LISTENED])

    async def _run(self, stage: Stage) -> None:
        async with connect(self._url) as db:

            async def farewell(leader: Leader) -> None:
                stage.tell("passive", (await db.lease_holder(self._lease)).by)

            async with Leader(db, self._lease, by="first", on_passive=farewell, signals=True) as leader:
                await leader.wait_for(Role.ACTIVE)
                stage.tell("active")
                try:
                    await asyncio.Event().wait()
                finally:
                    stage.tell("waits no more", (await db.lease_holder(self._lease)).by)
            stage.tell("after the block")


@pytest.mark.parametrize("number", LISTENED)
async def test_a_signal_makes_a_leader_step_down_and_ends_its_block(place: Place, number: signal.Signals) -> None:
    """It says farewell while it still has the lease, gives it up, and only then is the block cancelled, and nothing more."""
    lease, _ = prepared(place, LONG)
    with Actor(Lead(place, lease)) as first:
        first.until("active")
        os.kill(first.pid, number)
        assert first.until("passive") == ("first",)
        assert first.until("waits no more") == (None,)
        first.until("after the block")
        assert first.until("ended") == ([True, True],)


async def test_a_block_that_ends_while_a_signal_is_heard_waits_for_the_farewell(tmp_path: Path) -> None:
    """It is not cancelled after its end, and the lease is given up after the callback, not during it."""
    place = SqlitePlace(f"sqlite:///{tmp_path / 'leader.db'}")
    lease, _ = prepared(place, LONG)
    began, enough = asyncio.Event(), asyncio.Event()
    holders: list[str | None] = []

    async with connect(place.url) as db:

        async def farewell(_: Leader) -> None:
            began.set()
            await enough.wait()
            holders.append((await db.lease_holder(lease)).by)

        async def lead() -> str:
            async with Leader(db, lease, by="me", on_passive=farewell, signals=True) as leader:
                await leader.wait_for(Role.ACTIVE)
                os.kill(os.getpid(), signal.SIGTERM)
                await began.wait()
                asyncio.get_running_loop().call_soon(enough.set)
            await asyncio.sleep(0)
            return "went on"

        async with asyncio.timeout(DEADLINE):
            assert await asyncio.create_task(lead()) == "went on"
        assert holders == ["me"]
        assert (await db.lease_holder(lease)).by is None


@pytest.mark.parametrize("signalled", [False, True])
async def test_a_cancellation_by_somebody_else_leaves_the_block(tmp_path: Path, signalled: bool) -> None:
    """Also together with a signal: only the cancellation that the signal has caused ends with the block."""
    place = SqlitePlace(f"sqlite:///{tmp_path / 'leader.db'}")
    lease, _ = prepared(place, LONG)

    async with connect(place.url) as db:
        leader = Leader(db, lease, signals=True)
        release_lease = db.release_lease

        async def and_cancel(*given: Any, **options: Any) -> Any:
            answer = await release_lease(*given, **options)
            task.cancel()
            return answer

        async def lead() -> None:
            async with leader:
                await asyncio.Event().wait()

        task = asyncio.create_task(lead())
        async with asyncio.timeout(DEADLINE):
            await leader.wait_for(Role.ACTIVE)
            if signalled:
                db.release_lease = and_cancel  # type: ignore[method-assign]
                os.kill(os.getpid(), signal.SIGTERM)
            else:
                task.cancel()
            await asyncio.wait([task])
        assert task.cancelled()
        assert (await db.lease_holder(lease)).by is None
