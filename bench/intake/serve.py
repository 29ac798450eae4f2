"""`python -m bench.intake.serve MODULE:FUNCTION DATABASE FILE`: one server, on a free port that it tells in a file."""

import asyncio
import sys
from importlib import import_module
from pathlib import Path


async def main(made_by: str, database: str, told: str) -> None:
    module, _, name = made_by.partition(":")
    await getattr(import_module(module), name)(database, lambda port: tell(port, Path(told)))


def tell(port: int, told: Path) -> None:
    """Whoever sees the file sees all of it."""
    unfinished = told.with_suffix(".new")
    unfinished.write_text(str(port))
    unfinished.rename(told)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
