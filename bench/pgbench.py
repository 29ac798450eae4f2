"""pgbench, the server's own load generator in C: 16 clients doing the same guarded UPDATE, beside 64 callers of ours."""

import asyncio
import os
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench import ours, raw
from bench.commands import ACTOR, FIRST_KEY, Commands, even, slices, walk
from bench.concurrent import CALLERS, on_postgres
from bench.measure import block
from bench.result import Comparison, Result, Run, by_rate, quartiles
from bench.world import World

CLIENTS = 16
GOAL = 2.0
_STATEMENTS = 2


def comparisons(world: World) -> Iterator[Comparison]:
    for history in (False, True):
        name = f"pgbench -c {CLIENTS} · history {'on' if history else 'off'}"
        yield Comparison(name, _measured(world, name, history))


def _measured(world: World, name: str, history: bool) -> Run:
    async def run() -> list[Result]:
        async with on_postgres(world, history) as crowd:
            permits = [walk(own) for own in slices(crowd.table.ours, CALLERS[-1])]
            script = world.folder / f"{crowd.table.table}.pgbench"
            script.write_text(_script(crowd.table, int(world.postgres.version.split(".")[0])))
            await block(crowd.ours, permits, ours.won, world.scale.block, crowd.server)
            mine, theirs = [], []
            for number in range(max(1, world.scale.rounds // 2)):
                if number % 2:
                    theirs.append(await _pgbench(world, script))
                mine.append((await block(crowd.ours, permits, ours.won, world.scale.block, crowd.server)).rate)
                if not number % 2:
                    theirs.append(await _pgbench(world, script))
        return [
            by_rate(f"{name} · ours with {CALLERS[-1]} callers", mine, theirs, GOAL),
            Result(f"{name} · the server's limit", None, statistics.median(theirs), None, quartiles(theirs)),
        ]

    return run


def _script(table: Commands, major: int) -> str:
    """Each client draws a row of its own, sends it and lets it fail: two statements, two commits."""
    rows = even(table.others)
    size = len(rows) // CLIENTS
    low = FIRST_KEY + rows.start
    texts = raw.postgres_texts(table, (":key", f"'{ACTOR}'", ":key"), major)
    assert len(texts) == _STATEMENTS
    return f"\\set key {low} + 2 * (:client_id * {size} + random(0, {size - 1}))\n" + "".join(
        f"{text};\n" for text in texts
    )


async def _pgbench(world: World, script: Path) -> float:
    """Statements a second."""
    options = ["-n", "-M", "prepared", "-c", str(CLIENTS), "-j", "2", "-T", str(world.scale.pgbench)]
    process = await asyncio.create_subprocess_exec(
        str(world.postgres.bin / "pgbench"),
        *options,
        *("-f", str(script), world.postgres_url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("PG")},
    )
    told, complaint = await process.communicate()
    found = re.search(rb"tps = ([0-9.]+)", told)
    if process.returncode or found is None:
        raise RuntimeError(f"pgbench failed: {complaint.decode(errors='replace').strip()}")
    return float(found[1]) * _STATEMENTS
