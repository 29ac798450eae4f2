"""A leader is terminated: it resigns, and the next one need not wait for the lease to expire."""

import asyncio
import os
import signal
import sqlite3
import tempfile
from contextlib import closing

from raceproof import AsyncStore, Leader, Lease, connect, ddl
from raceproof.run import Role


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/leases.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(*ddl(Lease("bot"), dialect="sqlite"))
        async with connect(f"sqlite:///{path}") as db:
            await run(db)


# docs: call
async def run(db: AsyncStore) -> None:
    bot = Lease("bot", seconds=30)
    async with Leader(db, bot, by="instance-1", on_passive=farewell, signals=True) as leader:
        await leader.wait_for(Role.ACTIVE)
        os.kill(os.getpid(), signal.SIGTERM)  # as a deploy does
        await asyncio.sleep(3600)
    found = await db.lease_holder(bot)
    print("after the block: held by", found.by)


def farewell(leader: Leader) -> None:
    print(f"{leader.by} is {leader.role}")


# docs: main
asyncio.run(main())
