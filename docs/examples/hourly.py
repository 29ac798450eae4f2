"""Two processes with the same schedule: each kind of work is run by one of them."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing

from raceproof import AsyncStore, Scheduler, connect, ddl
from raceproof.run import Schedules


# docs: call
async def run(db: AsyncStore, by: str) -> None:
    scheduler = Scheduler(db, by=by)
    scheduler.every(3600, "vetting", lambda: report("vetting"))
    scheduler.every(60, "cleanup", lambda: report("cleanup"))
    await scheduler.run(until_idle=True)  # in a program: await scheduler.run(signals=True)


async def report(what: str) -> None:
    runs.append(what)


# docs: main
runs: list[str] = []


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/schedules.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(*ddl(Schedules(), dialect="sqlite"))
        async with connect(f"sqlite:///{path}") as db:
            await asyncio.gather(run(db, "instance-1"), run(db, "instance-2"))
        print(*sorted(runs), sep="\n")


asyncio.run(main())
