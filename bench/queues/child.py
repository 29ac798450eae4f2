"""A process of ours that runs one module, and dies with this one; at the end it is killed with all that it started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raceproof.testing import launch


@contextmanager
def child(module: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`python -m MODULE ARGUMENTS…`; what it prints goes to the log."""
    die_with_us = [launch.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "-1"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", *die_with_us, sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a group of its own, which is all that is killed
        )
    try:
        yield process
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
