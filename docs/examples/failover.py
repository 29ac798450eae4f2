"""The leader is killed early in a lease of five minutes: the standby takes over at once."""

import asyncio
import subprocess
import sys

import asyncpg

from raceproof import Leader, Lease, connect, ddl
from raceproof.run import Role
from raceproof.testing import postgres


# docs: call
async def run_instance(url: str, by: str) -> None:
    async with (
        connect(url) as db,
        Leader(
            db,
            Lease("bot", seconds=300),
            by=by,
            retry=0.2,
            advisory=lambda: asyncpg.connect(url),  # its own connection; the leader closes it
        ) as leader,
    ):
        await leader.wait_for(Role.ACTIVE)
        print(f"{by} is {leader.role}", flush=True)
        if by == "instance-1":
            await asyncio.sleep(3600)


# docs: main
async def make_table(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(*ddl(Lease("bot"), dialect="postgres"))
    await connection.close()


def main() -> None:
    with postgres() as server:
        url = server.database()
        asyncio.run(make_table(url))
        first = subprocess.Popen([sys.executable, __file__, url], stdout=subprocess.PIPE, encoding="utf-8")
        assert first.stdout
        with first:
            print(first.stdout.readline(), end="")
            first.kill()
            print("instance-1 is killed")
            asyncio.run(run_instance(url, "instance-2"))


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(run_instance(sys.argv[1], "instance-1"))
    else:
        main()
