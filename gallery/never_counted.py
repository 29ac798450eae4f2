"""The picture that kills its worker: attempts that are counted too late."""

import asyncio
from enum import StrEnum

from gallery.exhibit import Exhibit
from raceproof import Lifecycle, claimable, move
from raceproof.testing.explorer import Connection, Effect, Limits, World

EXHIBIT = Exhibit(
    title="The picture that kills every worker",
    story=(
        "Somebody uploads a picture that is so large that decoding it ends the process: out of memory. Jobs are tried "
        "twice at most, so this should not hurt for long. But the job comes back for ever, takes one worker after the "
        "other, and all other customers wait."
    ),
    follows="a bug that many queues have had: an attempt is counted where it fails, in the `except`.",
    quoted="",
    right=(
        "A job that raises an error is counted and dead-lettered after two attempts, and a job whose worker died is found "
        "again. Any single fault does no harm."
    ),
    holds=Limits(deviations=1, seconds=60.0),
    search=Limits(crashes=2, seconds=60.0),
    limits=Limits(crashes=2, seconds=60.0),
    schedule="worker*2 worker:dies-after worker*2 wait worker*2 worker:dies-after worker*2 wait worker*3",
    why="A process that dies runs no `except`: the attempts that hurt most are the ones that are never counted.",
    answer=(
        "The attempt is counted by the claim, in the write that takes the job, before any of it is run. A job that "
        "has had its attempts is dead-lettered by the next claim that comes by, and a person can look at it. (Two crashes "
        "were tried here.)"
    ),
)


# gallery: stage
def stage(world: World) -> Effect:
    """One job, which may be tried twice."""
    world.sql("""
        CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT, attempts INTEGER,
                           claimed_by TEXT, claimed_until TEXT, fence INTEGER);
        INSERT INTO jobs (id, status, attempts) VALUES ('j-1', 'QUEUED', 0)
    """)
    decode = world.effect("decode")
    world.always("tried twice at most", lambda moment: len(moment.calls(decode)) <= 2)
    return decode


# gallery: naive
async def take(db: Connection) -> bool:
    return bool(
        await db.execute("""
            UPDATE jobs SET status = 'RUNNING', claimed_until = datetime('now', '+30 seconds')
            WHERE (status = 'QUEUED' OR (status = 'RUNNING' AND claimed_until < datetime('now'))) AND attempts < 2
            RETURNING id
        """)
    )


def naive(world: World) -> None:
    decode = stage(world)

    @world.process
    async def worker(db: Connection) -> None:
        for _ in range(2):
            if await take(db):
                try:
                    await decode("picture")
                    await db.execute("UPDATE jobs SET status = 'DONE'")
                    return
                except Exception:
                    await db.execute("UPDATE jobs SET status = 'QUEUED', attempts = attempts + 1")
            await asyncio.sleep(31)


# gallery: guarded
class Status(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    DONE = "DONE"
    DEAD = "DEAD"


class Job(Lifecycle[Status], table="jobs"):
    start = move(Status.QUEUED, to=Status.RUNNING)
    requeue = move(Status.RUNNING, to=Status.QUEUED)
    finish = move(Status.RUNNING, to=Status.DONE)
    give_up = move(Status.QUEUED, Status.RUNNING, to=Status.DEAD)

    work = claimable(start, lease=30, attempts="attempts", max_attempts=2, back=requeue, dead_letter=give_up)


def guarded(world: World) -> None:
    decode = stage(world)

    @world.process
    async def worker(db: Connection) -> None:
        for _ in range(2):
            for mine in await db.claim(Job.work):
                try:
                    await decode("picture")
                    await db.move(Job.finish, mine)
                    return
                except Exception as error:
                    await db.fail(mine, str(error))
            await asyncio.sleep(31)

    world.sometimes("dead-lettered", lambda moment: moment.row("jobs")["status"] == "DEAD")


# gallery: end
