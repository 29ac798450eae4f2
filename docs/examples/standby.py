"""One instance leads, another stands by and takes over."""

import asyncio
import sqlite3
import tempfile
from contextlib import closing

from raceproof import AsyncStore, Leader, Lease, connect, ddl
from raceproof.run import NotLeading, Role


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/leases.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(*ddl(Lease("bot"), dialect="sqlite"))
        async with connect(f"sqlite:///{path}") as db:
            await run(db)


# docs: call
def report(leader: Leader) -> None:
    print(f"{leader.by} is {leader.role}")


async def run(db: AsyncStore) -> None:
    bot = Lease("bot", seconds=30)
    first = Leader(db, bot, by="instance-1", on_active=report, on_passive=report)
    second = Leader(db, bot, by="instance-2", on_active=report, on_passive=report, retry=0.1)
    async with first:
        await first.wait_for(Role.ACTIVE)
        async with second:
            print("instance-2 leads:", second.active)
            try:
                second.guard  # noqa: B018
            except NotLeading as error:
                print(f"NotLeading: {error}")
            await first.resign()
            await second.wait_for(Role.ACTIVE)


# docs: main
asyncio.run(main())
