"""A hundred callers race for the same move: exactly one wins."""

import asyncio
from collections import Counter

from commands import Command
from database import database
from raceproof import connect


async def main() -> None:
    with database("c-42") as path:
        # docs: call
        async with connect(f"sqlite:///{path}") as db:
            answers = await asyncio.gather(*(db.move(Command.send, "c-42", by=f"worker-{n}") for n in range(100)))
        print(dict(Counter(answer.outcome for answer in answers)))


asyncio.run(main())
