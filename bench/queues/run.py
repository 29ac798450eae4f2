"""The one clock: a queue, a worker in a process of its own, and the seconds that so many items take."""

import asyncio
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, perf_counter

from bench.queues.child import child
from bench.queues.queue import Queue
from bench.queues.tally import Tally

DEADLINE = 60.0
"""Seconds that a run may take; none is sized for more than a few."""
_LOOK = 0.002
_LINES = 20


class NotFinished(RuntimeError):
    """A queue did not finish its items in time, or its worker ended; the message has the end of the worker's log."""


async def seconds(kind: type[Queue], url: str, items: int, tuned: bool) -> float:
    """How long the queue takes for so many items, in the empty database at the URL; see the rule in `bench.queues`."""
    with tempfile.TemporaryDirectory(prefix="raceproof-queue-") as folder:
        tally = Tally(f"{folder}/tally")
        log = Path(folder, "log")
        queue = kind(url, tuned)
        try:
            await queue.set_up()
            named = f"{kind.__module__}:{kind.__name__}"
            mode = "best" if tuned else "default"
            with child("bench.queues.worker", named, url, mode, tally.path, log=log) as worker:
                first, *others = range(items + 1)
                await _finished(queue, [first], tally, 1, worker, log)
                taken = await _finished(queue, others, tally, items + 1, worker, log)
            tally.check(range(items + 1))
        finally:
            await queue.close()
            tally.close()
    return taken


async def _finished(
    queue: Queue,
    items: Sequence[int],
    tally: Tally,
    count: int,
    worker: subprocess.Popen[bytes],
    log: Path,
) -> float:
    """Hand the items in and wait until they are finished; returns the seconds."""
    deadline = monotonic() + DEADLINE
    began = perf_counter()
    await queue.enqueue(items)
    while tally.count() < count or await queue.unfinished():
        if worker.poll() is not None or monotonic() > deadline:
            why = "the worker ended" if worker.poll() is not None else f"not within {DEADLINE:g} s"
            raise NotFinished(
                f"{type(queue).__name__} ran {tally.count()} of {count} items and has {await queue.unfinished()}"
                f" unfinished, {why}; the end of the worker's log:\n{_end(log)}"
            )
        await asyncio.sleep(_LOOK)
    return perf_counter() - began


def _end(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LINES:])
