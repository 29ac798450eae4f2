"""A worker claims jobs, runs them, and finishes them with what the handler returns."""

import asyncio
from typing import Any

from jobs import Job, database
from raceproof import Claim, Worker, connect
from raceproof.run import Failure


# docs: call
async def handler(claim: Claim[Any, Any]) -> dict[str, Any]:
    if claim.key == "j-2" and claim.attempt == 1:
        raise Failure("no answer", delay=0)  # any other exception backs off as declared
    return {"result": f"done at attempt {claim.attempt}"}


async def main() -> None:
    with database("j-1", "j-2", "j-3") as path:
        async with connect(f"sqlite:///{path}") as db:
            worker = Worker(db, Job.work, handler, finish=Job.finish, parallel=2, timeout=10)
            await worker.run(until_idle=True)  # in a program: await worker.run(signals=True)
            print(f"finished {worker.finished}, failed {worker.failed}, lost {worker.lost}")
            for key in ("j-1", "j-2", "j-3"):
                row = await db.read(Job, key)
                print(key, row and row["result"])


# docs: main
asyncio.run(main())
