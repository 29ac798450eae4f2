"""P15 behind PgBouncer itself, in transaction mode: two sessions for everybody, wiped after each transaction.

`make pooler` runs this. No package that `make test` could install brings PgBouncer along, so it has to be there already.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest

from raceproof import (
    AsyncStore,
    Claim,
    Inbox,
    Leader,
    Lease,
    LeaseGranted,
    Moved,
    SendPermit,
    Started,
    Store,
    Worker,
    bind,
    connect,
)
from raceproof.inbox import Arrival
from raceproof.kernel.errors import CallError
from raceproof.testing import PostgresServer
from raceproof.testing.contract.attempts import logins
from raceproof.testing.contract.grounds import Caller, PostgresGround, fresh_name
from raceproof.testing.contract.jobs import jobs
from raceproof.testing.contract.pictures import pictures
from tests.fix_waiting import until

_SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
server_reset_query = DISCARD ALL
server_reset_query_always = 1
"""


@pytest.fixture(scope="module")
def pooled(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same database, through PgBouncer."""
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.fail("pgbouncer is not on the PATH: install it from your system's packages")
    server = urlsplit(postgres_server.url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    settings = _SETTINGS.format(host=server.hostname, port=server.port, user=server.username, own=own)
    folder = tmp_path_factory.mktemp("pgbouncer")
    if os.geteuid() == 0:  # as whom it refuses to run
        settings += "user = nobody\n"
        for one in (folder, folder.parent, folder.parent.parent):
            one.chmod(0o755)
    (folder / "pgbouncer.ini").write_text(settings)
    running = subprocess.Popen([program, "-q", str(folder / "pgbouncer.ini")], stderr=subprocess.DEVNULL)
    try:
        url = f"postgresql://{server.username}@127.0.0.1:{own}{server.path}"
        _wait_for(url, running)
        yield url
    finally:
        running.terminate()
        running.wait()


def _wait_for(url: str, running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        assert running.poll() is None, "pgbouncer has ended"
        with suppress(psycopg.OperationalError), psycopg.connect(url):
            return
        assert time.monotonic() < deadline, "pgbouncer takes nobody in"


@pytest.fixture
def ground(postgres_server: PostgresServer) -> Iterator[PostgresGround]:
    """Tables and rows, made without the pooler."""
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:

        def run(text: str, params: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
            cursor = admin.execute(text, params)
            return cursor.fetchall() if cursor.description else []

        yield PostgresGround(Caller(bind(admin)), run)


@pytest.mark.parametrize("how", ["asyncpg", "psycopg", "connect"])
async def test_every_decision_is_made_behind_it(pooled: str, ground: PostgresGround, how: str) -> None:
    """Whatever session each of its statements gets."""
    async with AsyncExitStack() as stack:
        store: AsyncStore | Store
        match how:
            case "asyncpg":
                own = await asyncpg.connect(pooled, statement_cache_size=0)
                stack.push_async_callback(own.close)
                store = bind(own)
            case "psycopg":
                store = bind(stack.enter_context(psycopg.connect(pooled, autocommit=True, prepare_threshold=None)))
            case _:
                store = await stack.enter_async_context(connect(pooled, statement_cache_size=0))
        await _decide(Caller(store), ground)


async def _decide(db: Caller, ground: PostgresGround) -> None:
    job = jobs(ground, history=True)
    for key in ("a", "b"):
        ground.put(job, key, "QUEUED", made_at=0)
    first, second = await db.claim(job.claims["work"], 5, by="ann")
    assert isinstance(first, Claim)
    assert all(one.won for one in await db.renew([first, second]))
    assert isinstance(await db.move(job.moves["finish"], first, by="ann"), Moved)
    assert all(one.reached for one in await db.release(second))
    assert [one.after for one in await db.history(job, "a")] == ["DONE", "RUNNING"]
    picture, _ = pictures(ground, told=True)
    permit = await db.begin_delivery(picture, "a")
    assert isinstance(permit, SendPermit)
    assert (await db.delivered(permit)).won
    attempts, _ = logins(ground)
    await db.start_attempt(attempts, "ann", "a1")
    assert await db.start_attempt(attempts, "ann", "a2") == Started("a2", attempts, "ann", "a1")
    lease = Lease("bot", 30, fresh_name("leases"))
    ground.lease_table(lease.table)
    leading = await db.acquire_lease(lease, "ann")
    assert isinstance(leading, LeaseGranted)
    assert isinstance(await db.renew_lease(leading), LeaseGranted)
    assert (await db.release_lease(leading)).reached
    inbox = Inbox(fresh_name("inbox"))
    ground.inbox_table(inbox)
    for outcome in ("received", "duplicate"):
        assert (await db.receive(inbox, Arrival("shop", "e-1", b"{}"))).outcome == outcome


async def test_workers_share_the_work_behind_it(pooled: str, ground: PostgresGround) -> None:
    """Three stores, two sessions: each row is run once, each event kept once."""
    job = jobs(ground)
    inbox = Inbox(fresh_name("inbox"))
    ground.inbox_table(inbox)
    keys = [f"j{number:03d}" for number in range(200)]
    for number, key in enumerate(keys):
        ground.put(job, key, "QUEUED", made_at=number)
    seen: list[str] = []
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(connect(pooled, statement_cache_size=0)) for _ in range(3)]
        told = await asyncio.gather(
            *[stores[number % 3].receive(inbox, Arrival("shop", str(number % 20), b"{}")) for number in range(60)]
        )
        assert Counter(one.outcome for one in told) == {"received": 20, "duplicate": 40}

        async def handle(claim: Claim[Any, Any]) -> None:
            seen.append(claim.key)

        work, finish = job.claims["work"], job.moves["finish"]
        workers = [Worker(store, work, handle, finish=finish) for store in stores]
        await asyncio.gather(*[one.run(until_idle=True) for one in workers])
    assert sorted(seen) == keys
    assert {ground.get(job, key)["status"] for key in keys} == {"DONE"}


async def test_one_leads_behind_it_and_a_session_lock_is_refused(pooled: str, ground: PostgresGround) -> None:
    """The lease alone decides."""
    lease = Lease("bot", 30, fresh_name("leases"))
    ground.lease_table(lease.table)
    async with (
        connect(pooled, statement_cache_size=0) as ann,
        connect(pooled, statement_cache_size=0) as bob,
    ):
        with pytest.raises(CallError, match="a pooler stands between us"):
            async with Leader(ann, lease, advisory=lambda: asyncpg.connect(pooled, statement_cache_size=0)):
                pass
        async with Leader(ann, lease, by="ann") as first, Leader(bob, lease, by="bob") as second:
            await until(lambda: first.active or second.active, "one of them leads")
            assert first.active != second.active
