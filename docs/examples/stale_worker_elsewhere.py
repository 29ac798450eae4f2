"""A worker that sleeps past its time, wakes up and finishes late: two queues and raceproof. It takes seconds.

Worker A takes the job and is stopped (SIGSTOP) for longer than its heartbeat allows. The queue's own means for stalled
jobs give the job to worker B, which succeeds. A wakes up, and its late attempt fails. Real PostgreSQL, real processes.
Both orders are shown: A is late after B has finished, and A is late while B is still at work.
"""

import asyncio
import logging
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import asyncpg

from raceproof.testing import PostgresServer, postgres

LEASE = 1.0
"""Seconds without a heartbeat after which a worker counts as dead; all of them have a setting for it."""
DEADLINE = 30.0

FAILED = "A's attempt failed"

Doing = Coroutine[Any, Any, None]
Job = Callable[[], Doing]


@dataclass(frozen=True)
class Queue:
    """How a queue takes part."""

    name: str
    put_in: Callable[[str], Doing]
    """Make the tables at the URL and hand in one job."""
    work: Callable[[str, Job], Doing]
    """A worker that runs the job when it gets it, and ends in good order on SIGTERM."""
    give_away: Callable[[str], Coroutine[Any, Any, bool]]
    """Do what the manual says for stalled jobs; whether there was one, or nothing has to be done."""
    row: str
    """A statement that gives the job's state."""
    events: str
    """A statement that gives what the queue wrote down, in order."""


def procrastinate() -> Queue:
    from procrastinate import App, PsycopgConnector

    # it warns of an app in the main module, which matters for tasks found by name; errors are still logged
    logging.getLogger("procrastinate").setLevel(logging.ERROR)

    def app_at(url: str, job: Job | None = None) -> App:
        app = App(connector=PsycopgConnector(conninfo=url))

        @app.task(name="job")
        async def run() -> None:
            assert job
            await job()

        return app

    async def put_in(url: str) -> None:
        async with (app := app_at(url)).open_async():
            await app.schema_manager.apply_schema_async()
            await app.tasks["job"].defer_async()

    async def work(url: str, job: Job) -> None:
        async with (app := app_at(url, job)).open_async():
            await app.run_worker_async(update_heartbeat_interval=LEASE / 4, stalled_worker_timeout=LEASE)

    async def give_away(url: str) -> bool:
        async with (app := app_at(url)).open_async():
            stalled = list(await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=LEASE))
            for job in stalled:
                await app.job_manager.retry_job(job, retry_at=datetime.now(UTC))
        return bool(stalled)

    return Queue(
        "Procrastinate",
        put_in,
        work,
        give_away,
        row="SELECT status FROM procrastinate_jobs",
        events="SELECT type FROM procrastinate_events WHERE type <> 'scheduled' ORDER BY id",
    )


def pgqueuer() -> Queue:
    from pgqueuer import AsyncpgDriver, PgQueuer, Queries

    async def put_in(url: str) -> None:
        connection = await asyncpg.connect(url)
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await queries.enqueue("job", None)
        await connection.close()

    async def work(url: str, job: Job) -> None:
        worker = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.shutdown.set)

        @worker.entrypoint("job")
        async def run(_: Any) -> None:
            await job()

        await worker.run(heartbeat_timeout=timedelta(seconds=LEASE), dequeue_timeout=timedelta(seconds=LEASE / 4))

    async def give_away(url: str) -> bool:
        return True  # a worker takes stalled jobs as it takes new ones

    return Queue(
        "PgQueuer",
        put_in,
        work,
        give_away,
        row="SELECT status FROM pgqueuer",
        events="SELECT status FROM pgqueuer_log ORDER BY id",
    )


def raceproof() -> Queue:
    from raceproof import Claim, Lifecycle, NotReached, claimable, connect, ddl, move

    class Status(StrEnum):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"

    class Job(Lifecycle[Status], table="jobs", key="job_id", history="raceproof_history"):
        start = move(Status.QUEUED, to=Status.RUNNING)
        requeue = move(Status.RUNNING, to=Status.QUEUED)
        finish = move(Status.RUNNING, to=Status.DONE)

        work = claimable(start, lease=LEASE, back=requeue)

    async def put_in(url: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("\n".join(ddl(Job, dialect="postgres", only="tables")))
        await connection.execute("""
            CREATE TABLE jobs (job_id text PRIMARY KEY, status text NOT NULL,
                               claimed_by text, claimed_until timestamptz, fence bigint);
            INSERT INTO jobs VALUES ('j-1', 'queued');
        """)
        await connection.close()

    async def work(url: str, job: Callable[[], Doing]) -> None:
        stopping = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)

        async def renew(mine: Claim[Any, Any]) -> None:
            while True:
                await asyncio.sleep(LEASE / 4)
                await db.renew(mine)

        async with connect(url) as db:
            while not stopping.is_set():
                for mine in await db.claim(Job.work):
                    heartbeat = asyncio.create_task(renew(mine))
                    try:
                        await job()
                    except Exception:
                        logging.exception("the job failed")
                        answer: Any = (await db.fail(mine))[0]
                    else:
                        answer = await db.move(Job.finish, mine)
                    finally:
                        heartbeat.cancel()
                    try:
                        answer.must()
                    except NotReached:
                        logging.exception("too late")
                await asyncio.sleep(LEASE / 4)

    async def give_away(url: str) -> bool:
        return True  # a worker takes stalled jobs as it takes new ones

    return Queue(
        "raceproof",
        put_in,
        work,
        give_away,
        row="SELECT status FROM jobs",
        events="SELECT CASE outcome WHEN 'moved' THEN move ELSE outcome END FROM raceproof_history ORDER BY id",
    )


QUEUES = {"procrastinate": procrastinate, "pgqueuer": pgqueuer, "raceproof": raceproof}


# The scenario, the same for all


@dataclass(frozen=True)
class Worker:
    """A process that works on the job, and waits in the middle of it until it may finish."""

    process: subprocess.Popen[bytes]
    log: Path
    began: Path
    may_finish: Path

    def finish(self) -> str:
        """Let it finish and end in good order, also if it is stopped; returns what it logged."""
        self.may_finish.touch()
        self.process.send_signal(signal.SIGTERM)
        self.process.send_signal(signal.SIGCONT)
        self.process.wait(DEADLINE)
        return self.log.read_text()


@contextmanager
def worker(who: str, queue: str, url: str, folder: Path) -> Iterator[Worker]:
    log = folder / f"{who}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, who, queue, url, str(folder)], stdout=output, stderr=output
        )
    try:
        yield Worker(process, log, folder / f"{who} began", folder / f"{who} may finish")
    finally:
        process.kill()
        process.wait()


def be_a_worker(who: str, queue: str, url: str, folder: Path) -> None:
    """What a worker's process does: A fails in the end, and B succeeds."""

    async def job() -> None:
        (folder / f"{who} began").touch()
        await asyncio.to_thread(until, (folder / f"{who} may finish").exists, f"{who} may finish")
        if who == "A":
            raise RuntimeError(FAILED)

    logging.basicConfig(level=logging.INFO)
    asyncio.run(QUEUES[queue]().work(url, job))


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {DEADLINE:g} s")
        time.sleep(0.02)


def complaints(log: str) -> list[str]:
    """The exceptions in a worker's log, without the failure of A's own attempt."""
    found = re.findall(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|NotReached)\b.*", log, re.MULTILINE)
    return [line for line in found if FAILED not in line]


def scenario(server: PostgresServer, name: str, first: str) -> list[str]:
    """Play it with A or B finishing first; returns a row of the table."""
    queue, url = QUEUES[name](), server.database()

    def state() -> str:
        return server.psql(queue.row, url) or "gone"

    asyncio.run(queue.put_in(url))
    with tempfile.TemporaryDirectory() as folder:
        with worker("A", name, url, Path(folder)) as a:
            until(a.began.exists, "A takes the job")
            a.process.send_signal(signal.SIGSTOP)
            with worker("B", name, url, Path(folder)) as b:
                until(lambda: asyncio.run(queue.give_away(url)), "the job is found to be stalled")
                until(b.began.exists, "B is given the job")
                logged: dict[str, str] = {}
                states: dict[str, str] = {}
                for who in (first, "B" if first == "A" else "A"):
                    logged[who] = (a if who == "A" else b).finish()
                    states[who] = state()
    if FAILED not in logged["A"]:
        raise RuntimeError(f"the workers of {queue.name} log nothing, so their silence would say nothing")
    events = server.psql(queue.events, url).split()
    refused = [who for who, log in sorted(logged.items()) if complaints(log)]
    order = "B finished, then A late" if first == "B" else "A late while B works, then B"
    return [
        queue.name,
        order,
        *(f"{who} → {states[who]}" for who in states),
        " and ".join(refused) or "neither",
        ", ".join(events),
    ]


HEADS = ["queue", "order", "job after the first", "after the second", "got an error", "events"]


def main() -> None:
    with postgres() as server:
        rows = [scenario(server, name, first) for name in QUEUES for first in "BA"]
    widths = [max(len(row[place]) for row in [HEADS, *rows]) for place in range(len(HEADS))]
    for row in [HEADS, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    if sys.argv[1:]:
        be_a_worker(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
    else:
        main()
