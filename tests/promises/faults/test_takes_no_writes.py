"""A Redis that answers and takes no writes, as a demoted primary or one out of memory, is an outage and no bad row."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
import redis.asyncio

from raceproof import Attempts, Delivery, Inbox, Lease, Lifecycle, StoreUnavailable, Worker, bind, connect
from raceproof.inbox import Arrival
from raceproof.kernel.statement import watch_failures
from raceproof.testing import ValkeyServer, valkey
from raceproof.testing.contract.clock import NOON, after
from raceproof.testing.contract.grounds import Caller, RedisGround
from raceproof.testing.contract.jobs import jobs, put
from tests.fix_waiting import until

Trouble = Callable[[redis.Redis, bool], None]
LOGIN = Lifecycle.from_dict(
    {
        "name": "Login",
        "table": "logins",
        "statuses": ["open", "ended"],
        "moves": {"end": {"from": ["open"], "to": "ended"}},
    }
)
LOGINS = Attempts(LOGIN, owner="user_id", supersede=LOGIN.moves["end"])
PICTURE = Delivery("picture", "pictures")
EVENTS = Inbox("events")


@pytest.fixture(scope="module")
def mortal_valkey() -> Iterator[ValkeyServer]:
    """A Valkey to maltreat."""
    with valkey() as server:
        yield server


def readonly(admin: redis.Redis, on: bool) -> None:
    """Demote it; of the primary that it is to follow nothing is heard."""
    if on:
        admin.replicaof("127.0.0.1", "1")
    else:
        admin.replicaof("NO", "ONE")


def out_of_memory(admin: redis.Redis, on: bool) -> None:
    admin.config_set("maxmemory", "1" if on else "0")


ENDS_A_CLAIM = ("release", "fail", "finish")
"""Their first write frees memory, so that a server that is out of it lets the whole script pass."""
TROUBLES: dict[str, Trouble] = {"READONLY": readonly, "OOM": out_of_memory}


@asynccontextmanager
async def opened(kind: str, url: str) -> AsyncIterator[Caller]:
    if kind == "connect":
        with connect(url) as store:
            yield Caller(store)
    elif kind == "connect-async":
        async with connect(url) as async_store:
            yield Caller(async_store)
    elif kind == "bind":
        client = redis.Redis.from_url(url)
        yield Caller(bind(client))
        client.close()
    else:
        async with redis.asyncio.Redis.from_url(url) as async_client:
            yield Caller(bind(async_client))


def calls(db: Caller, job: Any, claim: Any) -> dict[str, Callable[[], Any]]:
    """One call of each primitive that writes."""
    lease = Lease("bot", 30)
    return {
        "move": lambda: db.move(job.moves["start"], "b"),
        "move_many": lambda: db.move_many(job.moves["start"], ["b", "c"]),
        "claim": lambda: db.claim(job.claims["work"], now=after(1)),
        "claim_one": lambda: db.claim_one(job.claims["work"], "b", now=after(1)),
        "renew": lambda: db.renew(claim, now=after(1)),
        "release": lambda: db.release(claim, now=after(1)),
        "fail": lambda: db.fail(claim, now=after(1)),
        "finish": lambda: db.move(job.moves["finish"], claim, now=after(1)),
        "begin_delivery": lambda: db.begin_delivery(PICTURE, "p"),
        "start_attempt": lambda: db.start_attempt(LOGINS, "ann", "l-1"),
        "lead": lambda: db.acquire_lease(lease, "ann"),
        "receive": lambda: db.receive(EVENTS, Arrival("stripe", "e-1", b"{}")),
    }


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("kind", ["bind", "bind-async", "connect", "connect-async"])
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
async def test_every_call_says_so_and_the_same_store_goes_on_afterwards(
    mortal_valkey: ValkeyServer, kind: str, trouble: str, history: bool
) -> None:
    """Nothing was kept, nothing is wrong with a row, and nothing has to be opened again."""
    with redis.Redis.from_url(mortal_valkey.url) as admin:
        admin.flushall()
        async with opened(kind, mortal_valkey.url) as db:
            ground = RedisGround(db, admin)
            job = jobs(ground, history=history)
            await put(ground, job, "a", "b", "c")
            admin.hset("pictures:p", mapping={"id": "p"})
            (claim,) = await db.claim(job.claims["work"], by="ann", now=NOON)
            before = {key: ground.get(job, key) for key in "abc"}
            TROUBLES[trouble](admin, True)
            try:
                for name, call in calls(db, job, claim).items():
                    if trouble == "OOM" and name in ENDS_A_CLAIM:
                        continue
                    with pytest.raises(StoreUnavailable) as failure:
                        await call()
                    said = str(failure.value)
                    assert trouble in said, (name, said)
                    assert "primary" in said or "memory" in said
                    assert not any("raceproof verify" in note for note in getattr(failure.value, "__notes__", ()))
            finally:
                TROUBLES[trouble](admin, False)
            assert {key: ground.get(job, key) for key in "abc"} == before
            answers = {name: await call() for name, call in calls(db, job, claim).items() if name != "fail"}
            assert answers["finish"].outcome == "lost"  # it was given back
            assert answers["move"].won
            assert answers["lead"].won


async def test_a_worker_asks_again_until_the_store_takes_writes(mortal_valkey: ValkeyServer) -> None:
    """As documented of outages: it neither ends nor passes rows over."""
    with redis.Redis.from_url(mortal_valkey.url) as admin:
        admin.flushall()
        async with connect(mortal_valkey.url) as db:
            ground = RedisGround(Caller(db), admin)
            job = jobs(ground)
            await put(ground, job, "a")
            readonly(admin, True)
            failed: list[Any] = []
            done: list[str] = []

            async def handle(claim: Any) -> None:
                done.append(claim.key)

            worker = Worker(db, job.claims["work"], handle, finish=job.moves["finish"], poll=0.05)
            stop = watch_failures(lambda _, error: failed.append(error))
            try:
                running = asyncio.create_task(worker.run())
                await until(lambda: len(failed) >= 2, "the worker has asked twice")
                assert all(isinstance(error, StoreUnavailable) for error in failed)
                readonly(admin, False)
                await until(lambda: done == ["a"], "the row is done")
                worker.stop()
                await running
            finally:
                stop()
                readonly(admin, False)
