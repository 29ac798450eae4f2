"""Processes that are started together, ended together, and never left behind, whatever ends the demo."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# forked processes start at once; where there is no fork, the usual way
CONTEXT: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else None)


class ActorFailed(Exception):
    """A process of the demo died; this says of what."""


class Children:
    """The processes of one race; `notes` is a folder in which they say what they died of."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes
        self._running: list[BaseProcess] = []

    def begin(self, name: str, act: Callable[..., None], *arguments: object) -> int:
        """Start a process; returns its id. Call it where `signals_wait`."""
        process: BaseProcess = CONTEXT.Process(
            target=_live, args=(name, self._notes, os.getpid(), act, arguments), name=name, daemon=True
        )
        process.start()
        self._running.append(process)
        assert process.pid
        return process.pid

    @property
    def ended(self) -> bool:
        """Whether all have ended by themselves."""
        return all(process.exitcode is not None for process in self._running)

    def check(self) -> None:
        """Raise what a process died of, if one did."""
        for process in self._running:
            if process.exitcode:
                note = _note(self._notes, process.name)
                found = note.read_text() if note.exists() else f"{process.name} ended with {process.exitcode}"
                raise ActorFailed(found)

    def finish(self, patience: float = 5) -> None:
        """Let everybody end what they are at, for so many seconds."""
        until = time.monotonic() + patience
        for process in self._running:
            process.join(max(0.0, until - time.monotonic()))
        self.stop()

    def stop(self) -> None:
        """End whoever still runs or is paused; nothing is half-written, for every write is one transaction."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.join()


def _live(name: str, notes: Path, parent: int, act: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """The whole life of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears of it and ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _mask("SIG_UNBLOCK")
    _die_with(parent)
    try:
        act(*arguments)
    except Exception:
        _note(notes, name).write_text(f"{name}:\n{traceback.format_exc()}")
        sys.exit(1)


def _note(notes: Path, name: str) -> Path:
    return notes / f"{name.replace(' ', '-')}.error"


def _die_with(parent: int) -> None:
    """Ask the system to end this process with its parent, even if that one is killed and this one paused."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Hold back Ctrl-C while processes start, so that none of them is hit before it has learnt to ignore it."""
    _mask("SIG_BLOCK")
    try:
        yield
    finally:
        _mask("SIG_UNBLOCK")


def _mask(how: str) -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(getattr(signal, how), _SIGNALS)
