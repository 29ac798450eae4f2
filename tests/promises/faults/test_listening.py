"""Offers of other processes wake a worker up, and do so again after whatever has happened to the server (L13)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import psycopg
import pytest

from raceproof import AsyncStore, connect
from raceproof.testing import PostgresServer, Server, postgres, valkey
from raceproof.testing.contract.grounds import Caller
from raceproof.testing.contract.jobs import jobs, put
from tests.fix_waiting import until
from tests.promises.contract.grounds import open_ground


@pytest.fixture(params=["postgres", "valkey"])
def mortal(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server to maltreat."""
    with postgres() if request.param == "postgres" else valkey(appendfsync="always") as server:
        yield server


class Ear:
    """One store that listens for offers, and another that makes them."""

    def __init__(self, listener: AsyncStore, other: AsyncStore, claim: Any) -> None:
        self.listener = listener
        self._other = Caller(other)
        self._claim = claim
        self._woken = 0

    def wake(self) -> None:
        self._woken += 1

    async def hears(self) -> None:
        """Offer again and again until it is heard: who listens says so once, which is no offer."""
        for _ in range(2):
            before = self._woken
            offered = 0
            while self._woken == before:
                try:
                    await self._other.offer(self._claim, ["a"])
                except Exception as error:
                    assert offered < 1000, error  # noqa: PT017
                offered += 1
                await asyncio.sleep(0)


@asynccontextmanager
async def an_ear(server: Server) -> AsyncIterator[Ear]:
    kind = "postgres connect async" if isinstance(server, PostgresServer) else "redis connect async"
    async with open_ground(kind, lambda: server, lambda: server, None) as ground:  # type: ignore[arg-type, return-value]
        job = jobs(ground)
        await put(ground, job, "a")
        claim = job.claims["work"]
        async with connect(server.url) as listener:
            ear = Ear(listener, ground.db.store, claim)  # type: ignore[arg-type]
            listening = asyncio.create_task(listener.driver.listen(claim, ear.wake))
            try:
                async with asyncio.timeout(30):
                    yield ear
                assert not listening.done(), "nobody listens any more"
            finally:
                listening.cancel()


async def test_offers_of_another_process_are_heard_also_after_a_crash(mortal: Server) -> None:
    """The connection that listens is opened again."""
    async with an_ear(mortal) as ear:
        await ear.hears()
        mortal.kill()
        mortal.restart()
        await ear.hears()


async def test_offers_are_heard_again_when_the_server_has_room_for_one_who_listens() -> None:
    """A server that is there and takes nobody in is a reason to wait, not to stop listening."""
    with postgres(max_connections=12) as server:
        async with an_ear(server) as ear:
            await ear.hears()
            beside = psycopg.connect(server.url, autocommit=True)
            others = []
            beside.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
            with suppress(psycopg.OperationalError):
                while True:
                    others.append(psycopg.connect(server.url))
            log = server.log(1000).count("too many clients")
            await until(lambda: server.log(1000).count("too many clients") > log, "who listens was sent away")
            for one in (*others, beside):
                one.close()
            await ear.hears()
