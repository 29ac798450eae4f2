"""Two labels for one parcel: a heartbeat that stops before the work does."""

import asyncio
from collections.abc import Mapping
from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Claim, Lifecycle, Worker, claimable, move
from raceproof.testing.explorer import Connection, Limits, World
from raceproof.testing.explorer.ground import Tables

EXHIBIT = Exhibit(
    title="Two labels for one parcel",
    story=(
        "A worker orders a label for a parcel, which takes 40 seconds, and says every 10 seconds that it is alive. A "
        "deploy asks it to stop. It stops its timers, as one does, waits for the job in good order, and ends. "
        "Meanwhile another worker has found a job whose holder is silent. The customer gets a tracking number, and a "
        "minute later the order has another one."
    ),
    follows="a bug that many queues have had: on SIGTERM the heartbeat is cancelled first, and then the jobs are drained.",
    quoted="",
    right=(
        "There is a lease, it is renewed, running jobs are not cut off, and another worker takes over what is really "
        "dead. Only the order of two lines is wrong, and it shows only in a deploy that meets a long job."
    ),
    limits=Limits(deviations=2, seconds=60.0),
    schedule="old-worker*2 new-worker wait old-worker wait new-worker*2 wait old-worker*2 wait new-worker*2",
    why=(
        "Draining is work too: a worker that no longer renews its lease has given its job away, even though it still "
        "runs it."
    ),
    answer=(
        "`Worker` stops its heartbeat last. And where that is not enough, because a process can be paused for longer "
        "than any lease, the finishing move names the fence of the claim: the one that was given up is refused and "
        "overwrites nothing. Not promised: that a job is *run* only once."
    ),
)


# gallery: stage
def stage(world: World) -> None:
    """One parcel that needs a label."""
    world.sql("""
        CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, label TEXT,
                           claimed_by TEXT, claimed_until TEXT, fence INTEGER);
        INSERT INTO jobs (id, status) VALUES ('parcel', 'QUEUED')
    """)

    def stays(before: Tables, after: Tables) -> object:
        return before["jobs"][0]["label"] in (None, after["jobs"][0]["label"])

    world.change("a label that is there stays as it is", stays)


# gallery: naive
async def take(db: Connection) -> bool:
    return bool(
        await db.execute("""
            UPDATE jobs SET status = 'RUNNING', claimed_until = datetime('now', '+30 seconds')
            WHERE status = 'QUEUED' OR (status = 'RUNNING' AND claimed_until < datetime('now'))
            RETURNING id
        """)
    )


async def work(db: Connection, label: str) -> None:
    await asyncio.sleep(40)
    await db.execute("UPDATE jobs SET status = 'DONE', label = ?", label)


async def beat(db: Connection) -> None:
    while True:
        await asyncio.sleep(10)
        await db.execute("UPDATE jobs SET claimed_until = datetime('now', '+30 seconds') WHERE status = 'RUNNING'")


def naive(world: World) -> None:
    stage(world)

    @world.process
    async def old_worker(db: Connection) -> None:
        if await take(db):
            heartbeat = asyncio.create_task(beat(db))
            job = asyncio.create_task(work(db, "label A"))
            await asyncio.sleep(5)  # SIGTERM
            heartbeat.cancel()
            await job

    @world.process
    async def new_worker(db: Connection) -> None:
        await asyncio.sleep(35)
        if await take(db):
            await work(db, "label B")


# gallery: guarded
class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE, sets="label")

    work = claimable(start, lease=30)


def guarded(world: World) -> None:
    stage(world)

    async def order_label(mine: Claim[Status, object]) -> Mapping[str, str]:
        await asyncio.sleep(40)
        return {"label": f"label of attempt by {mine.by}"}

    @world.process
    async def old_worker(db: Connection) -> None:
        worker = Worker(db, Job.work, order_label, finish=Job.finish, poll=60, drain=60)
        asyncio.get_running_loop().call_later(5, worker.stop)  # SIGTERM
        await worker.run()

    @world.process
    async def new_worker(db: Connection) -> None:
        await asyncio.sleep(35)
        for mine in await db.claim(Job.work):
            await db.move(Job.finish, mine, set=await order_label(mine))

    world.sometimes(
        "the job is taken over",
        lambda moment: any(getattr(told.answer, "taken_over", False) for _, told in moment.told),
    )


# gallery: end
