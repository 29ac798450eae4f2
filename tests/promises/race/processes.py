"""Real processes that start together. Forked from a warm one, so that eight of them cost milliseconds."""

import multiprocessing
import multiprocessing.synchronize
import traceback
from collections.abc import Callable
from threading import BrokenBarrierError
from typing import Any, TypeVar

T = TypeVar("T")
Barrier = multiprocessing.synchronize.Barrier

_fork = multiprocessing.get_context("fork")
_PATIENCE = 60.0


def race(job: Callable[[int, Barrier], T], workers: int = 8) -> list[T]:
    """Run `job(number, barrier)` in as many processes and return what each of them returned."""
    barrier = _fork.Barrier(workers, timeout=_PATIENCE)
    pipes = [_fork.Pipe(duplex=False) for _ in range(workers)]
    processes = [
        _fork.Process(target=_run, args=(job, number, barrier, sender), daemon=True)
        for number, (_, sender) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    results, errors = [], []
    for receiver, sender in pipes:
        sender.close()
        if not receiver.poll(_PATIENCE):
            raise TimeoutError("a racing process did not come back")
        error, result = receiver.recv()
        errors += [error] if error else []
        results.append(result)
    if errors:
        # when one fails, the others are told by the barrier: what they say explains nothing
        error = min(errors, key=lambda told: BrokenBarrierError.__name__ in told)
        raise AssertionError(f"a racing process failed:\n{error}")
    for process in processes:
        process.join(_PATIENCE)
    return results


def _run(job: Callable[[int, Barrier], Any], number: int, barrier: Barrier, sender: Any) -> None:
    try:
        message = ("", job(number, barrier))
    except BaseException:
        barrier.abort()
        message = (traceback.format_exc(), None)
    sender.send(message)
    sender.close()
