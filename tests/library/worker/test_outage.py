"""A store that is away for a while (P13): a worker waits for it, and what could not be written is nobody's failure."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import redis

from raceproof import Claim, ConcurrencyLimit, connect
from raceproof.testing import Server, postgres, valkey
from raceproof.testing.contract.grounds import Caller, Ground, PostgresGround, RedisGround
from raceproof.testing.contract.jobs import jobs
from tests.fix_waiting import until
from tests.library.worker.working import put, statuses, worker


@pytest.fixture(params=[postgres, valkey])
async def mortal(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Server, Ground]]:
    """A server to maltreat, a store that connects again by itself, and a look from beside that does so too."""
    with request.param() as server:
        async with connect(server.url) as store:
            if server.url.startswith("redis"):
                with redis.Redis.from_url(server.url, decode_responses=True) as client:
                    yield server, RedisGround(Caller(store), client)
            else:
                yield server, PostgresGround(Caller(store), lambda *asked: run(server.url, *asked))


def run(url: str, text: str, params: Any = None) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as admin:
        cursor = admin.execute(text.encode(), params)
        return cursor.fetchall() if cursor.description else []


async def test_a_worker_with_a_limit_outlives_an_outage(
    mortal: tuple[Server, Ground], caplog: pytest.LogCaptureFixture
) -> None:
    """No slot can be asked for, as no work can; later both can."""
    server, ground = mortal
    job = jobs(ground)
    limit = ConcurrencyLimit("vetting", 1, 1.0, job.table + "_lease")
    ground.lease_table(limit.table)
    await put(ground, job, 1)
    done = asyncio.Event()

    async def handle(_: Claim[Any, Any]) -> None:
        done.set()

    mine = worker(ground, job, handle, limit=limit, poll=0.01)
    running = asyncio.create_task(mine.run())
    await done.wait()
    await until(lambda: mine.finished == 1 and mine._admission.slot is None, "it is idle")
    server.kill()
    caplog.clear()
    await until(lambda: caplog.text.count("could not be asked") > 2 or running.done(), "it has felt the outage")
    assert not running.done()
    server.restart()
    done.clear()
    ground.put(job, "later", "QUEUED", made_at=1)
    await until_offered(ground, job.claims["work"], "later")
    await done.wait()
    mine.stop()
    await running


async def test_what_cannot_be_written_in_an_outage_has_not_failed(
    mortal: tuple[Server, Ground], caplog: pytest.LogCaptureFixture
) -> None:
    """The items are done, their ends cannot be told: they are somebody's after their lease, and no reason is made up."""
    server, ground = mortal
    job = jobs(ground, claim={"lease": 0.5, "max_attempts": None, "dead_letter": None})
    keys = await put(ground, job, 6)
    entered, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def handle(claim: Claim[Any, Any]) -> dict[str, Any]:
        entered.release()
        await go_on.wait()
        return {"result": claim.key}

    mine = worker(ground, job, handle, poll=0.01)
    running = asyncio.create_task(mine.run())
    for _ in keys:
        await entered.acquire()
    server.kill()
    go_on.set()
    await until(lambda: "could not be finished" in caplog.text or mine.lost == 6, "it has felt the outage")
    server.restart()
    await until(lambda: statuses(ground, job, keys) == {"DONE": 6}, "all is done")
    mine.stop()
    await running
    assert mine.failed == 0


async def until_offered(ground: Ground, claim: Any, key: str) -> None:
    """Also the one who offers has felt the outage."""
    while True:
        try:
            await ground.db.offer(claim, [key])
        except Exception:
            await asyncio.sleep(0)
        else:
            return
