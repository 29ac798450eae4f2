"""Done, and queued again: a rescue that overwrites a finished row."""

import asyncio
from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Lifecycle, claimable, move
from raceproof.testing.explorer import Connection, World
from raceproof.testing.explorer.ground import Tables

EXHIBIT = Exhibit(
    title="Done, and queued again",
    story=(
        "A sweeper looks for jobs that have been running for more than a minute without a sign of life and puts them "
        "back into the queue. One of them finishes at that very moment. The sweeper puts it back all the same, the "
        "job runs again, and the customer gets a second parcel."
    ),
    follows="a bug that many queues have had: the rescue reads a list of stale jobs and then writes by id.",
    quoted="""\
stale = SELECT id FROM jobs WHERE status = 'RUNNING' AND heartbeat_at < now() - interval '1 minute'
for each: UPDATE jobs SET status = 'QUEUED' WHERE id = $1""",
    right=(
        "Something must bring back the jobs of workers that have died, and the list of stale jobs is right when it is "
        "read."
    ),
    schedule="worker*2 sweeper wait sweeper*2 worker*2 sweeper",
    why=(
        "The list is a memory of the past: between the look and the write the job was finished, and the write does "
        "not ask."
    ),
    answer=(
        "No sweeper is needed: a claim has an end, and the next `claim` takes over what is past it, in one write that "
        "sees the row as it is. The worker that was given up is not trusted either: its finish names its fence and is "
        "refused."
    ),
)


# gallery: stage
def stage(world: World) -> None:
    """One job."""
    world.sql("""
        CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, heartbeat_at TEXT,
                           claimed_by TEXT, claimed_until TEXT, fence INTEGER);
        INSERT INTO jobs (id, status) VALUES ('j-1', 'QUEUED')
    """)

    def stays(before: Tables, after: Tables) -> object:
        [old], [new] = before["jobs"], after["jobs"]
        return old["status"] != "DONE" or new["status"] == "DONE"

    world.change("a job that is done stays done", stays)


# gallery: naive
def naive(world: World) -> None:
    stage(world)

    @world.process
    async def worker(db: Connection) -> None:
        taken = await db.execute(
            "UPDATE jobs SET status = 'RUNNING', heartbeat_at = datetime('now') WHERE status = 'QUEUED' RETURNING id"
        )
        for (job,) in taken:
            await asyncio.sleep(61)  # the work
            await db.execute("UPDATE jobs SET status = 'DONE' WHERE id = ?", job)

    @world.process
    async def sweeper(db: Connection) -> None:
        await asyncio.sleep(61)
        stale = await db.execute(
            "SELECT id FROM jobs WHERE status = 'RUNNING' AND heartbeat_at < datetime('now', '-60 seconds')"
        )
        for (job,) in stale:
            await db.execute("UPDATE jobs SET status = 'QUEUED' WHERE id = ?", job)


# gallery: guarded
class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"


class Job(Lifecycle[Status], table="jobs"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    finish = move(Status.RUNNING, to=Status.DONE)

    work = claimable(start, lease=60)


def guarded(world: World) -> None:
    stage(world)

    async def work(db: Connection) -> None:
        for mine in await db.claim(Job.work):
            await asyncio.sleep(61)
            await db.move(Job.finish, mine)

    @world.process
    async def worker(db: Connection) -> None:
        await work(db)

    @world.process
    async def next_worker(db: Connection) -> None:
        await asyncio.sleep(61)
        await work(db)

    world.sometimes(
        "the job is taken over",
        lambda moment: any(getattr(told.answer, "taken_over", False) for _, told in moment.told),
    )


# gallery: end
