"""The session lock follows the lead: who leads has it, also after a takeover by time and a start without a server (L11)."""

import asyncio
from typing import Any

import asyncpg
import pytest

from raceproof import Leader, Lease, connect
from raceproof.run import Role
from raceproof.testing import PostgresServer, postgres
from tests.fix_beside import postgres_beside
from tests.fix_waiting import DEADLINE, until
from tests.library.leader.fix_leading import LONG, prepared
from tests.library.leader.fix_middle_box import MiddleBox
from tests.promises.crash.actors import Actor, Stage
from tests.promises.race.places import PostgresPlace
from tests.standstill import stand_still


class Lead:
    """A process that leads with a session lock for as long as it can."""

    def __init__(self, url: str, lease: Lease, name: str) -> None:
        self._url, self._lease, self._name = url, lease, name

    def __call__(self, stage: Stage) -> None:
        asyncio.run(self._run(stage))

    async def _run(self, stage: Stage) -> None:
        async with connect(self._url) as db:
            leader = Leader(
                db,
                self._lease,
                by=self._name,
                retry=0.02,
                advisory=lambda: asyncpg.connect(self._url),
                on_active=lambda _: stage.tell("active"),
                on_passive=lambda _: stage.tell("passive"),
            )
            async with leader:
                await asyncio.Event().wait()


def said(ground: Any, lease: Lease) -> tuple[str, bool]:
    """Who has the lease, and whether it has the lock too, as the lease says."""
    ((holder, session),) = ground.run(f"SELECT holder, session FROM {lease.table}")
    return holder, session


async def test_after_a_takeover_by_time_the_lock_goes_to_the_new_leader(
    postgres_server: PostgresServer,
) -> None:
    """The old one was paused and had the lock all the time: awake, it lets go, or the next failover would be slow."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, 1.0)
    with Actor(Lead(place.url, lease, "first")) as first:
        first.until("active")
        with Actor(Lead(place.url, lease, "second")) as second:
            stand_still(first.pid, place.url)
            second.until("active")
            with postgres_beside(place.url) as ground:
                assert said(ground, lease) == ("second", False)
                first.resume()
                first.until("passive")
                await until(lambda: said(ground, lease) == ("second", True), "the second one has the lock")


async def test_a_leader_that_hears_late_of_the_loss_of_its_lock_is_told_at_once_who_leads(
    postgres_server: PostgresServer,
) -> None:
    """It does not believe for as long as it could by its lease."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, LONG)
    async with (
        connect(place.url) as db,
        connect(place.url) as other_db,
        MiddleBox(place.url).opened() as box,
        Leader(db, lease, by="first", advisory=lambda: asyncpg.connect(box.url), retry=0.02) as first,
    ):
        await first.wait_for(Role.ACTIVE)
        other = Leader(other_db, lease, by="second", advisory=lambda: asyncpg.connect(place.url), retry=0.02)
        async with other:
            box.forget()
            await other.wait_for(Role.ACTIVE)
            box.hang_up()
            async with asyncio.timeout(DEADLINE):
                await first.wait_for(Role.PASSIVE)
            assert (await db.lease_holder(lease)).by == "second"


async def test_a_leader_that_cannot_have_its_lock_again_says_so_in_its_lease_and_goes_on(
    postgres_server: PostgresServer,
) -> None:
    """Nobody can conclude from the lock any more that it is gone: others wait for the end of the lease."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, LONG)
    opened: list[Any] = []
    asked: list[str] = []

    async def open_one() -> Any:
        if opened:
            raise OSError("no way to the server")
        opened.append(await asyncpg.connect(place.url))
        return opened[0]

    async with connect(place.url) as db, connect(place.url) as other_db:
        lead = other_db.acquire_lease

        async def told(*given: Any, **options: Any) -> Any:
            answer = await lead(*given, **options)
            asked.append(answer.outcome)
            return answer

        other_db.acquire_lease = told  # type: ignore[method-assign]
        async with Leader(db, lease, by="first", advisory=open_one, retry=0.02) as first:
            await first.wait_for(Role.ACTIVE)
            with postgres_beside(place.url) as ground:
                assert said(ground, lease) == ("first", True)
                await opened[0].close()
                await until(lambda: said(ground, lease) == ("first", False), "it has told that")
            epoch = first.epoch
            other = Leader(other_db, lease, by="second", advisory=lambda: asyncpg.connect(place.url), retry=0.02)
            async with other:
                await until(lambda: len(asked) >= 5, "the other one has asked again and again")
            assert set(asked) == {"held by another"}
            assert first.epoch == epoch


async def test_who_begins_without_a_server_stands_by_and_has_lease_and_lock_later() -> None:
    """As a leader without a session lock does."""
    with postgres() as server:
        place = PostgresPlace(server.url)
        lease, _ = prepared(place, 3.0)
        async with connect(server.url) as db:
            server.kill()
            leader = Leader(db, lease, by="me", advisory=lambda: asyncpg.connect(server.url), retry=0.02)
            async with leader:
                assert leader.role is Role.PASSIVE
                server.restart()
                async with asyncio.timeout(DEADLINE):
                    await leader.wait_for(Role.ACTIVE)
                with postgres_beside(server.url) as ground:
                    await until(lambda: said(ground, lease) == ("me", True), "it has the lock too")


async def test_a_pooler_that_is_seen_only_later_is_told_and_the_lease_works_without_the_lock(
    postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The program runs by then: it leads, and is not ended for a lock that only speeds things up."""
    place = PostgresPlace(postgres_server.url)
    lease, _ = prepared(place, 1.0)
    opened: list[Any] = []

    class Pooled:
        """A connection that is not its own."""

        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def get_server_pid(self) -> int:
            return int(self._connection.get_server_pid()) + 1

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

    async def open_one() -> Any:
        opened.append(None)
        if len(opened) == 1:
            raise OSError("no way to the server yet")
        opened.append(await asyncpg.connect(place.url))
        return Pooled(opened[-1])

    async with connect(place.url) as db:
        async with Leader(db, lease, by="me", advisory=open_one, retry=0.02) as leader:
            await leader.wait_for(Role.ACTIVE)
            with postgres_beside(place.url) as ground:
                ((began,),) = ground.run(f"SELECT until FROM {lease.table}")
                await until(lambda: ground.run(f"SELECT until FROM {lease.table}") != [(began,)], "it was renewed")
                assert said(ground, lease) == ("me", False)
    assert opened[-1].is_closed()
    assert len(opened) == 3  # and is not opened again for each question
    assert caplog.text.count("a pooler stands between us") == 1
